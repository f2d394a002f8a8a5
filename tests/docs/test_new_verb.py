"""The guide to a new verb works: its function, added to one file of a copy of the package, is a verb like others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, commands, examples

GUIDE = ROOT / "docs" / "how-to" / "new-verb.md"


def test_the_new_verb_is_one_function_in_one_file(family_run: Path, tmp_path: Path, one_core: None) -> None:
    shutil.copytree(ROOT / "src" / "blockhole", tmp_path / "src" / "blockhole")
    chapter = tmp_path / "src" / "blockhole" / "cli" / "ask.py"
    (function,) = [example.text for example in examples(GUIDE) if example.language == "python"]
    with chapter.open("a", encoding="utf-8") as file:
        file.write(f"\n\n{function}")
    shutil.copytree(family_run, tmp_path / "runs" / "family")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "COLUMNS": "120"}

    def printed(*arguments: str) -> str:
        command = [sys.executable, "-m", *arguments]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr or ended.stdout
        return ended.stdout

    (console,) = [example.text for example in examples(GUIDE) if example.language == "console"]
    table, report = (printed(*command.text.split()) for command in commands(console))
    assert [line.split()[-1] for line in table.splitlines()[1:]] == sorted(
        (line.split()[-1] for line in table.splitlines()[1:]), key=int, reverse=True
    )
    assert len(table.splitlines()) == 1 + 3
    relations = json.loads(report)["relations"]
    assert list(relations)[:3] == [line.split()[0] for line in table.splitlines()[1:]]
    assert "The relations of a run, and how many facts each has." in printed("blockhole", "--help")
    tests = ROOT / "tests" / "cli" / "test_main.py"
    options = f"-q -p no:cacheprovider --basetemp {tmp_path / 'pytest'} -k relations {tests}"
    assert " passed" in printed("pytest", *options.split())
