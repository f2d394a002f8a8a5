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
from scripts.mutation import (
    DOCUMENT,
    PACKAGE,
    ROOT,
    TESTS_OF,
    Mutant,
    Recorder,
    draw,
    function_at,
    mutants,
    summary,
    wilson,
)
from tests import workers

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
    recorder.ran = {"slow": {6}, "quick": {3, 13}, "other": {13}, "none": set()}
    recorder.seconds = {"slow": 2.0, "quick": 1.0, "other": 0.5, "none": 0.1}
    assert recorder.order(SOURCE, 7) == ["quick", "slow", "none", "other"]
    assert recorder.order(SOURCE, 14) == ["other", "quick", "none", "slow"]
    assert recorder.order(SOURCE, 11) == ["other", "quick", "slow", "none"]  # any of them may depend on it


def test_what_a_test_runs_is_noted() -> None:
    recorder = Recorder(Path(function_at.__code__.co_filename))
    item: Any = SimpleNamespace(nodeid="a test")
    running = recorder.pytest_runtest_protocol(item)
    next(running)
    function_at(SOURCE, 1)
    with pytest.raises(StopIteration):
        next(running)
    assert recorder.ran.keys() == recorder.seconds.keys() == {"a test"}
    assert recorder.ran["a test"] & lines_of(function_at)
    assert not recorder.ran["a test"] & lines_of(mutants)


def test_a_test_may_run_no_line_of_the_file() -> None:
    recorder = Recorder(DOCUMENT)
    item: Any = SimpleNamespace(nodeid="a test")
    running = recorder.pytest_runtest_protocol(item)
    next(running)
    with pytest.raises(StopIteration):
        next(running)
    assert recorder.ran == {"a test": set()}


def lines_of(function: Any) -> set[int]:
    return {line for _, _, line in function.__code__.co_lines() if line is not None}


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


def some(module: str, count: int) -> list[Mutant]:
    return [Mutant(module, "", "", "", line) for line in range(count)]


def test_a_sample_is_of_all_modules_and_the_same_by_its_seed() -> None:
    made = {"a/x.py": some("a/x.py", 300), "b/y.py": some("b/y.py", 100)}
    drawn = draw(made, 200, 0)
    assert sum(map(len, drawn.values())) == len({mutant for of_one in drawn.values() for mutant in of_one}) == 200
    assert 125 < len(drawn["a/x.py"]) < 175  # three of four, five standard deviations either way
    assert draw(made, 200, 0) == drawn != draw(made, 200, 1)
    assert draw(made, 1000, 0) == made


def test_the_bounds_of_a_share_are_the_shares_that_such_a_sample_does_not_rule_out() -> None:
    for alive, tried in ((0, 50), (7, 50), (50, 50), (60, 600)):
        low, high = wilson(alive, tried)
        assert 0 <= low <= alive / tried <= high <= 1
        for bound in {low, high} - {0.0, 1.0}:
            assert abs(alive / tried - bound) == pytest.approx(1.96 * (bound * (1 - bound) / tried) ** 0.5)


def test_shares_are_told_by_package_and_for_all() -> None:
    counts = {"a/x.py": (1, 10), "a/z.py": (0, 10), "b/y.py": (2, 20)}
    assert summary(counts, sampled=False) == [
        "a: 1 of 20 mutants alive: 5.0 %",
        "b: 2 of 20 mutants alive: 10.0 %",
        "all: 3 of 40 mutants alive: 7.5 %",
    ]
    assert summary(counts, sampled=True)[-1] == "all: 3 of 40 mutants alive: 7.5 % (95 %: 2.6 to 19.9 %)"


def test_what_was_made_before_is_copied(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept before").mkdir()
    (tmp_path / "kept before" / "file").write_text("kept", encoding="utf-8")
    monkeypatch.setenv(workers.MADE, str(tmp_path))
    copy = workers.made_once(tmp_path_factory, "kept before", lambda folder: pytest.fail("it is there"))
    assert (copy / "file").read_text(encoding="utf-8") == "kept"
    assert workers.made_before("something else") is None
