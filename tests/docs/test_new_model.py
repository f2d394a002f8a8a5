"""The guide to a new model works: its file and its changes, made in a copy of the package, train, answer and pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, commands, examples

GUIDE = ROOT / "docs" / "how-to" / "new-model.md"
PROGRAM = "import sys; from blockhole.cli.main import main; main(sys.argv[1:])"


def _block(language: str) -> str:
    return next(example.text for example in examples(GUIDE) if example.language == language)


def _apply(changes: str, root: Path) -> None:
    """Make the changes of the guide: after the name of a file, each line with - gives way to those with + below it."""
    file, old, new = root, "", ""
    for line in [*changes.splitlines(), "# "]:
        if line.startswith(("#", "-")) and old:
            text = file.read_text(encoding="utf-8")
            assert text.count(old) == 1, f"the guide changes a line that {file.name} does not have: {old}"
            file.write_text(text.replace(old, new), encoding="utf-8")
            old, new = "", ""
        if line.startswith("#"):
            file = root / line[2:]
        elif line.startswith("-"):
            old = line[1:] + "\n"
        else:
            new += line[1:] + "\n"


@pytest.mark.slow
def test_the_new_model_trains_and_answers(tmp_path: Path, one_core: None) -> None:
    shutil.copytree(ROOT / "src" / "blockhole", tmp_path / "src" / "blockhole")
    model = tmp_path / "src" / "blockhole" / "models" / "quate.py"
    model.write_text(_block("python"), encoding="utf-8")
    _apply(_block("diff"), tmp_path)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "COLUMNS": "120"}
    (console,) = [example for example in examples(GUIDE) if example.language == "console"]
    for command in commands(console.text):
        run = [sys.executable, "-c", PROGRAM, *command.text.split()[1:]]
        ended = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
    options = f"-q -p no:cacheprovider --basetemp {tmp_path / 'pytest'} -k quate tests/models/test_contract.py"
    contract = [sys.executable, "-m", "pytest", *options.split()]
    ended = subprocess.run(contract, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout


def test_the_new_model_is_about_sixty_lines() -> None:
    assert len(_block("python").splitlines()) <= 75
