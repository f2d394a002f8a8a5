"""The documentation builds without a warning, is current where it is generated, and leaves no public name out."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, examples, shown


@pytest.mark.slow
def test_the_pages_build_without_a_warning_and_fetch_nothing(tmp_path: Path) -> None:
    options = ["-W", "-q", "-b", "html", "-d", str(tmp_path / "trees"), "docs", str(tmp_path / "site")]
    command = [sys.executable, "-m", "sphinx", *options]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"(https?:|//)|<link[^>]+rel=\"stylesheet\"[^>]+href=\"https?:"
    )
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(PAGES) - 2
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("generator", ["scripts.reference.__main__", "scripts.figures", "scripts.readme"])
def test_what_is_generated_is_current(
    generator: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    monkeypatch.setattr(sys, "argv", [generator, "--check"])
    monkeypatch.chdir(ROOT)
    status: object = None
    try:
        import_module(generator).main()
    except SystemExit as end:
        status = end.code
    assert (status, capsys.readouterr().err) == (None, ""), "run: make reference"


def test_every_name_that_the_documentation_imports_has_its_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^### `([\w.]+)`$", reference, re.MULTILINE))
    own = {"blockhole.models.circulant.block_circulant", "blockhole.models.circulant.circ"}  # the algebra: paper-map.md
    missing = set()
    for page in PAGES:
        for example in examples(page):
            for module, names in re.findall(r"^from (blockhole[\w.]*) import (.+)$", example.text, re.MULTILINE):
                missing |= {f"{module}.{name.strip()}" for name in names.split(",")} - documented - own
    aliases = {name for name in missing if f"blockhole.{name.rpartition('.')[2]}" in documented}
    assert missing - aliases == set()


def test_every_extra_is_documented() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    assert set(project["optional-dependencies"]) == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_between_pages_and_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
