"""What the program says is English: faults that an editor found once do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from blockhole.errors import why

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted([*(ROOT / "src" / "blockhole").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")])

FAULTS = {
    r"(?<!there )\b(is|are) no (?!longer\b)": 'write "is not"',
    r"\bleave\b.*\baway\b": 'write "leave out"',
    r"\bis none of\b|\bfrom 0 on\b|\belse than\b|\bwere asked for\b": "not English",
    r"\b(fact|query|name|row|id)s? a line\b": 'write "per line"',
    r"\bInput should be\b|\bvalidation error\b": "pydantic's own words",
    r"\bdid you mean\b[^?]*$": "a question ends in a question mark",
}
PLURALS = "entities queries facts relations answers lines names vectors epochs edges columns triples files parameters"
COUNTED = rf"^ (?:[a-z]+ )?({PLURALS.replace(' ', '|')})\b"
"""What follows a number that may be 1, and is then no plural; `counted` writes both."""


def _texts(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Every text of a module but its docstrings; one with braces is given whole."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            yield node
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield from _texts(node)


def _read(text: ast.Constant | ast.JoinedStr) -> str:
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def _uncounted(text: ast.Constant | ast.JoinedStr) -> Iterator[str]:
    """Numbers before a plural: {len(facts)} facts, but not {counted(…)}."""
    parts = text.values if isinstance(text, ast.JoinedStr) else []
    for value, after in pairwise(parts):
        plural = re.match(COUNTED, str(after.value)) if isinstance(after, ast.Constant) else None
        if plural and isinstance(value, ast.FormattedValue):
            shown = ast.unparse(value.value)
            if value.format_spec is not None or re.match(r"(len|sum)\(|(.*\.)?(num_|count\b)", shown):
                yield f"{{{shown}}}{plural[0]}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_messages_are_english(path: Path) -> None:
    found = []
    for text in _texts(ast.parse(path.read_text(encoding="utf-8"))):
        found += [(text.lineno, _read(text), why) for fault, why in FAULTS.items() if re.search(fault, _read(text))]
        found += [(text.lineno, said, "use counted") for said in _uncounted(text)]
    assert not found


@pytest.mark.parametrize(
    "said",
    [
        "'gpu' is no device",
        "leave the file away",
        "something else than a run",
        "write one fact a line",
        "Input should be a valid integer",
        "did you mean wn11.",
    ],
)
def test_the_faults_are_found(said: str) -> None:
    assert any(re.search(fault, said) for fault in FAULTS)


def test_a_plural_of_one_is_found() -> None:
    def found(code: str) -> list[str]:
        return [each for text in _texts(ast.parse(code)) for each in _uncounted(text)]

    assert found('f"{len(x):,} facts written"') == ["{len(x)} facts"]
    assert found('f"{count} train facts"')
    assert not found("f\"{counted(len(x), 'fact')} written, at most {MOST} facts, {name} fact\"")


class Settings(BaseModel):
    """One setting of each kind."""

    epochs: int = Field(default=1, ge=1, le=9)
    rate: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False)
    on: Literal["base", "paths"] = "base"
    names: tuple[str, ...] = ()
    tied: bool = False


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epochs": "many"}, "epochs must be a whole number"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"epochs": 10}, "epochs must be at most 9"),
        ({"rate": "fast"}, "rate must be a number"),
        ({"rate": float("nan")}, "rate must be a finite number"),
        ({"rate": 0}, "rate must be more than 0"),
        ({"rate": 1}, "rate must be less than 1"),
        ({"on": "edges"}, "on must be 'base' or 'paths'"),
        ({"names": 3}, "names must be a list"),
        ({"names": [3]}, "names.0 must be text"),
        ({"tied": "perhaps"}, "tied must be true or false"),
        ([], "it must be a section of named values"),
    ],
)
def test_what_pydantic_refuses_is_said_in_our_words(given: object, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate(given)
    assert why(refused.value) == said


def test_reasons_of_other_exceptions_are_one_line() -> None:
    assert [why(KeyError("format")), why(ValueError("first\nsecond")), why(OSError())] == [
        "format is missing",
        "first",
        "OSError",
    ]
