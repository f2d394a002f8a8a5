"""The table of `make mutation` names modules and tests that exist, and leaves out no module about queries.

Mutants are named by the line that differs, and tried first on the tests that call what was changed.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts import mutation
from scripts.mutation import DOCUMENT, PACKAGE, ROOT, TESTS_OF, Mutant, Recorder, function_at, mutants

SOURCE = """import re

@one
@two
def first(a=1):
    def inner():
        return a
    return inner

class Some:
    x = 1

    def method(self):
        return 2
"""


def test_every_module_and_every_test_of_the_table_exists() -> None:
    modules = [PACKAGE / module for module in TESTS_OF]
    tests = [ROOT / test for tests_of_one in TESTS_OF.values() for test in tests_of_one]
    assert [file for file in (*modules, *tests, DOCUMENT) if not file.is_file()] == []


def test_every_module_about_queries_is_in_the_table() -> None:
    assert {f"queries/{file.name}" for file in (PACKAGE / "queries").glob("[!_]*.py")} <= set(TESTS_OF)


def test_every_survivor_is_a_line_of_a_module() -> None:
    """A row whose line was changed since says nothing about the code there is."""
    lines = {
        line.strip() for module in TESTS_OF for line in (PACKAGE / module).read_text(encoding="utf-8").splitlines()
    }
    rows = re.findall(r"^- `(.*)` → `.*`$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 50
    assert [row for row in rows if row not in lines] == []


def test_a_line_belongs_to_the_outermost_function_around_it() -> None:
    lines = range(1, 15)
    assert {line: function_at(SOURCE, line) for line in lines} == {
        line: (3, 8) if 3 <= line <= 8 else (13, 14) if line >= 13 else (1, 14) for line in lines
    }


def test_tests_that_call_what_was_changed_come_first_and_the_quickest_of_them() -> None:
    recorder = Recorder(Path("some.py"))
    recorder.called = {"slow": {6}, "quick": {3, 13}, "other": {13}, "none": set()}
    recorder.seconds = {"slow": 2.0, "quick": 1.0, "other": 0.5, "none": 0.1}
    assert recorder.order(SOURCE, 7) == ["quick", "slow", "none", "other"]
    assert recorder.order(SOURCE, 14) == ["other", "quick", "none", "slow"]
    assert recorder.order(SOURCE, 11) == ["other", "quick", "slow", "none"]  # any of them may depend on it


def test_what_a_test_calls_is_noted() -> None:
    recorder = Recorder(Path(function_at.__code__.co_filename))
    item: Any = SimpleNamespace(nodeid="a test")
    running = recorder.pytest_runtest_protocol(item)
    next(running)
    function_at(SOURCE, 1)
    with pytest.raises(StopIteration):
        next(running)
    assert recorder.called.keys() == recorder.seconds.keys() == {"a test"}
    assert function_at.__code__.co_firstlineno in recorder.called["a test"]
    assert mutants.__code__.co_firstlineno not in recorder.called["a test"]


WHOLE_MODULE = """from functools import cache

import polars as pl

LIMIT = 7


@cache
def first(a: int, b: int) -> bool:
    for each in range(LIMIT):
        if a + each < b and not a == b:
            return True
    return a * 2 >= b or a is None


def second(path):
    try:
        return pl.read_parquet(path)
    except ValueError:
        return None
    except (OSError, pl.exceptions.PolarsError):
        return -1
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mutant]:
    """All mutants of a small module; those of one of the package take half a minute."""
    monkeypatch.setattr(mutation, "PACKAGE", tmp_path)
    (tmp_path / "small.py").write_text(WHOLE_MODULE, encoding="utf-8")
    return list(mutants("small.py"))


def test_exceptions_with_a_dot_in_their_name_end_nothing(made: list[Mutant]) -> None:
    assert len(made) > 20
    replaced = {mutant.before for mutant in made if "CosmicRayTestingException" in mutant.after}
    assert "except ValueError:" in replaced
    after = [
        mutant.line for mutant in made if mutant.line > WHOLE_MODULE.count("\n", 0, WHOLE_MODULE.index("except (")) + 1
    ]
    assert after  # what comes behind such an exception is changed too


def test_a_mutant_is_named_by_the_line_that_differs(made: list[Mutant]) -> None:
    lines = WHOLE_MODULE.splitlines()
    assert all(lines[mutant.line - 1].strip() == mutant.before != mutant.after for mutant in made)
    removed = {mutant.before for mutant in made if mutant.after == "(removed)"}
    assert removed == {"@cache"}
