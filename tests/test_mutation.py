"""The table of `make mutation` names modules and tests that exist, and leaves out no module about queries.

Mutants are named by the line that differs, and tried first on the tests that call what was changed.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.mutation import DOCUMENT, PACKAGE, ROOT, TESTS_OF, Recorder, function_at, mutants

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


def test_exceptions_with_a_dot_in_their_name_end_nothing() -> None:
    module = "queries/query_sets.py"
    assert "except (OSError, pl.exceptions.PolarsError):" in (PACKAGE / module).read_text(encoding="utf-8")
    made = list(mutants(module))
    assert len(made) > 50
    assert any("CosmicRayTestingException" in mutant.after for mutant in made)


def test_a_mutant_is_named_by_the_line_that_differs() -> None:
    module = "queries/query_sets.py"
    lines = (PACKAGE / module).read_text(encoding="utf-8").splitlines()
    made = list(mutants(module))
    assert all(lines[mutant.line - 1].strip() == mutant.before != mutant.after for mutant in made)
    removed = {mutant.before for mutant in made if mutant.after == "(removed)"}
    assert removed
    assert all(line.startswith("@") for line in removed)
