"""The guide to a new verb works: its function, added to one file of a copy of the package, is a verb like others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, commands, copy_package, examples, run_steps

GUIDE = ROOT / "docs" / "how-to" / "new-verb.md"


def test_the_new_verb_is_one_function_in_one_file(family_run: Path, tmp_path: Path, one_core: None) -> None:
    copy_package(tmp_path)
    chapter = tmp_path / "src" / "blockhole" / "cli" / "ask.py"
    (function,) = [example.text for example in examples(GUIDE) if example.language == "python"]
    with chapter.open("a", encoding="utf-8") as file:
        file.write(f"\n\n{function}")
    shutil.copytree(family_run, tmp_path / "runs" / "family")
    (console,) = [example.text for example in examples(GUIDE) if example.language == "console"]
    steps = [*(command.text.split() for command in commands(console)), ["blockhole", "--help"]]
    table, report, usage = run_steps(steps, tmp_path, tmp_path / "src")
    assert [line.split()[-1] for line in table.splitlines()[1:]] == sorted(
        (line.split()[-1] for line in table.splitlines()[1:]), key=int, reverse=True
    )
    assert len(table.splitlines()) == 1 + 3
    relations = json.loads(report)["relations"]
    assert list(relations)[:3] == [line.split()[0] for line in table.splitlines()[1:]]
    assert "The relations of a run, and how many facts each has." in usage
    tests = ROOT / "tests" / "cli" / "test_main.py"
    command = f"-m pytest -q -p no:cacheprovider --basetemp {tmp_path / 'pytest'} -k relations {tests}"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    ended = subprocess.run(
        [sys.executable, *command.split()], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout
