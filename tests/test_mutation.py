"""The table of `make mutation` names modules and tests that exist, and leaves out no module about queries."""

from __future__ import annotations

import re

from scripts.mutation import DOCUMENT, PACKAGE, ROOT, TESTS_OF


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
