"""The notebooks run without an error, say what their text claims, and are kept clean and small."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from scripts.run_notebooks import EXAMPLES, clean, run

NAMES = ("royal-family", "wn11")
LARGEST = 300_000
"""Bytes of a notebook with its outputs."""


def _text(book: NotebookNode) -> str:
    """All that the cells print or show as plain text."""
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return "\n".join(shown)


def _kinds(book: NotebookNode) -> list[list[str]]:
    """What each cell shows: streams by name, and the richest form of everything else."""
    return [
        [output.get("name") or max(output["data"], key=len) for output in cell.outputs]
        for cell in book.cells
        if cell.cell_type == "code"
    ]


def _pictures(book: NotebookNode) -> list[bytes]:
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    return [
        base64.b64decode(output["data"]["image/png"]) for output in outputs if "image/png" in output.get("data", {})
    ]


def _check_family(text: str) -> None:
    cousins = ("Beatrice", "Eugenie", "James of Edinburgh", "Louise of Edinburgh")
    assert f"(b) true: {list(cousins)}\n    reached over the facts of train: []" in text
    assert "(c) true: ['Harry', 'William']\n    reached over the facts of train: ['Harry']" in text
    for name in (*cousins, "Harry", "William"):
        assert re.search(rf"[1-8] +┆ {name} +┆ .*predicted", text), f"{name} is not among the answers"
    assert "blockhole: (b) and (c) score the same entity differently" in text
    assert "complex: (b) and (c) score the same entity alike" in text
    assert re.search(r"William → .*\(predicted\).* → Beatrice", text)
    for name in ("blockhole", "complex"):
        measured = re.search(rf"{name}: MQ (\d+) %", text)
        assert measured is not None
        assert int(measured[1]) > 90


def _check_wn11(text: str) -> None:
    assert "38,696 entities, 11 relations, 112,581 facts to train on" in text
    figures = re.findall(r"^(facts|walks): MQ (\d+) %, of paths with 5 relations (\d+) %$", text, re.MULTILINE)
    (facts, facts_total, facts_longest), (walks, walks_total, walks_longest) = figures
    assert (facts, walks) == ("facts", "walks")
    assert 50 < int(facts_longest) < int(walks_longest) <= 100
    assert min(int(facts_total), int(walks_total)) > 50


CHECKS = {"royal-family": _check_family, "wn11": _check_wn11}


def test_there_are_no_other_notebooks() -> None:
    assert tuple(sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_notebook_is_clean_and_shows_what_it_claims(name: str) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    assert path.stat().st_size < LARGEST
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert clean(nbformat.read(path, as_version=4)) == book
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [kind for kinds in _kinds(book) for kind in kinds if kind == "stderr"]
    CHECKS[name](_text(book))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_shows_what_it_claims(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "wn11":
        monkeypatch.setenv("BLOCKHOLE_DATA", str(request.getfixturevalue("data_root")))
    path = EXAMPLES / f"{name}.ipynb"
    book = run(path, tmp_path)
    assert _kinds(book) == _kinds(nbformat.read(path, as_version=4))
    assert all(len(picture) > 5_000 for picture in _pictures(book))
    CHECKS[name](_text(book))
