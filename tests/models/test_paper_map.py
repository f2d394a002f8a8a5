"""docs/explanation/paper-map.md names what exists, and leaves no public function of the algebra out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from blockhole.models.catalogue import MODELS

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "explanation" / "paper-map.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`(\w+)\.(\w+)`", MAP)) - {(m, "py") for m in re.findall(r"`(\w+)\.py`", MAP)})


def defined(module: str) -> set[str]:
    """The functions and classes at the top of a module of models, or of a test module."""
    folder = ROOT / "tests" / "models" if module.startswith("test_") else ROOT / "src" / "blockhole" / "models"
    tree = ast.parse((folder / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_name_in_the_map_exists(module: str, name: str) -> None:
    assert name in defined(module)


def test_the_algebra_and_the_conversions_are_all_mapped() -> None:
    mapped = set(NAMES)
    for module in ("circulant", "forms"):
        public = {(module, name) for name in defined(module) if not name.startswith("_")}
        assert public <= mapped


def test_every_model_is_mapped() -> None:
    classes = {tuple(place.removeprefix("blockhole.models.").split(":")) for place in MODELS.values()}
    assert classes <= set(NAMES)
