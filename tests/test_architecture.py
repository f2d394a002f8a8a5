"""The layers hold, the command line starts fast, and the core needs few packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

HEAVY = ("torch", "polars", "numba", "scipy", "matplotlib", "pyoxigraph", "pydantic", "pandas", "networkx")


def _imported(statement: str) -> set[str]:
    """The top-level modules that are loaded after `statement` in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize("module", ["blockhole", "blockhole.cli.main"])
def test_the_way_in_imports_nothing_heavy(module: str) -> None:
    assert not _imported(f"import {module}") & set(HEAVY)


@pytest.mark.parametrize(
    "module",
    [
        "blockhole.graph.knowledge_graph",
        "blockhole.graph.split",
        "blockhole.paths.queries",
        "blockhole.models.catalogue",
        "blockhole.training.trainer",
        "blockhole.evaluation.ranking",
    ],
)
def test_the_core_imports_without_tables_and_compilers(module: str) -> None:
    absent = {"polars", "numba", "scipy", "matplotlib", "pyoxigraph", "pandas", "networkx", "pooch"}
    assert not _imported(f"import {module}") & absent


def test_the_document_lists_the_modules_as_they_are() -> None:
    listed = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "list_modules.py")], capture_output=True, text=True, check=True
    ).stdout
    written = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert written.endswith(listed), "run: python scripts/list_modules.py --write"
