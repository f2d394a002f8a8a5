"""The guide to a new model works: its file and its changes, made in a copy of the package, train, answer and pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, apply_changes, commands, examples

GUIDE = ROOT / "docs" / "how-to" / "new-model.md"
PROGRAM = "import sys; from blockhole.cli.main import main; main(sys.argv[1:])"


def _block(language: str) -> str:
    return next(example.text for example in examples(GUIDE) if example.language == language)


@pytest.mark.slow
def test_the_new_model_trains_and_answers(tmp_path: Path, one_core: None) -> None:
    shutil.copytree(ROOT / "src" / "blockhole", tmp_path / "src" / "blockhole")
    model = tmp_path / "src" / "blockhole" / "models" / "quate.py"
    model.write_text(_block("python"), encoding="utf-8")
    apply_changes(_block("diff"), tmp_path)
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
