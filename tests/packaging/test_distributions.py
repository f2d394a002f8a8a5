"""What the wheel and the sdist hold: the package with its files, and nothing else."""

from __future__ import annotations

import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

import blockhole
from tests.packaging.wheel import EXTRAS, ROOT, build

BESIDE_THE_PACKAGE = {
    ".gitignore", "CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml",
}  # fmt: skip


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> dict[str, bytes]:
    (path,) = distributions.glob("*.whl")
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def metadata() -> dict[str, dict[str, object]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _package() -> dict[str, bytes]:
    source = ROOT / "src"
    files = (file for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(source).as_posix(): file.read_bytes() for file in files}


def test_the_wheel_is_the_package_and_its_record(wheel: dict[str, bytes]) -> None:
    notes = f"blockhole-{blockhole.__version__}.dist-info/"
    assert {name: held for name, held in wheel.items() if not name.startswith(notes)} == _package()
    assert {name.removeprefix(notes) for name in wheel if name.startswith(notes)} == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "py.typed",
        "data/catalogue.toml",
        "data/family/train.tsv",
        "serving/explorer/index.html",
        "serving/explorer/main.js",
        "serving/explorer/theme.css",
        "serving/explorer/icon.svg",
        "runs/presets/fast.toml",
        "runs/presets/paper.toml",
    ],
)
def test_files_that_are_not_code_come_along(wheel: dict[str, bytes], name: str) -> None:
    assert f"blockhole/{name}" in wheel


def test_the_sdist_is_what_the_wheel_is_built_of(distributions: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    top = path.name.removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        held = {member.name.removeprefix(f"{top}/") for member in archive if member.isfile()}
    assert held == BESIDE_THE_PACKAGE | {f"src/{name}" for name in _package()}


def test_tree_and_sdist_build_the_same_wheel(wheel: dict[str, bytes], tmp_path: Path) -> None:
    build(tmp_path, ROOT, "--wheel")
    (path,) = tmp_path.glob("*.whl")
    with ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == wheel


def test_metadata(wheel: dict[str, bytes], metadata: dict[str, dict[str, object]]) -> None:
    written = Parser().parsestr(wheel[f"blockhole-{blockhole.__version__}.dist-info/METADATA"].decode())
    assert written["Version"] == blockhole.__version__
    assert written["Requires-Python"] == ">=3.11"
    extras = metadata["project"]["optional-dependencies"]
    assert isinstance(extras, dict)
    assert set(written.get_all("Provides-Extra", [])) == set(extras) == set(EXTRAS)
    assert not [line for line in written.get_all("Requires-Dist", []) if "pytest" in line]
