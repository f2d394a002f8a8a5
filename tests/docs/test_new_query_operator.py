"""The guide to a new query operator works: its lines, in a copy of the package, parse what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, apply_changes, copy_package, examples

GUIDE = ROOT / "docs" / "how-to" / "new-query-operator.md"


def test_the_new_operator_is_parsed(tmp_path: Path) -> None:
    changes = [example.text for example in examples(GUIDE) if example.language == "diff"]
    (program,) = (example.text for example in examples(GUIDE) if example.language == "python")
    copy_package(tmp_path)
    apply_changes("".join(changes), tmp_path)
    for text, errors in ((program, ""), (program.replace("*2", "*"), "expected a number after *")):
        ended = subprocess.run(
            [sys.executable, "-c", text],
            env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode == 0) == (not errors), ended.stderr
        assert errors in ended.stderr


def test_the_places_it_names_exist() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    named = re.findall(r"`((?:queries|answering|tests)/[a-z_/]+\.py)`", text)
    assert len(named) >= 10
    for name in named:
        assert (ROOT if name.startswith("tests/") else ROOT / "src" / "blockhole").joinpath(name).is_file(), name
