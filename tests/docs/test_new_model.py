"""The guide to a new model works: its one file, outside the package, trains, answers and passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, commands, examples, run_steps

GUIDE = ROOT / "docs" / "how-to" / "new-model.md"


def _block(language: str) -> str:
    return next(example.text for example in examples(GUIDE) if example.language == language)


@pytest.mark.slow
def test_the_new_model_trains_and_answers(tmp_path: Path, one_core: None) -> None:
    (tmp_path / "quate.py").write_text(_block("python"), encoding="utf-8")
    passed, console = [example.text for example in examples(GUIDE) if example.not_run]
    exported, *asked = [command.text.split() for command in commands(console)]
    assert exported[0] == "export"
    variables = dict(word.split("=", 1) for word in exported[1:])
    run_steps([passed, variables, *asked], tmp_path, tmp_path)
    path = os.pathsep.join((str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])))
    environment = os.environ | variables | {"PYTHONPATH": path}
    options = f"-q -p no:cacheprovider --basetemp {tmp_path / 'pytest'} -k quate"
    files = "tests/models/test_contract.py tests/models/test_gradients.py"
    contract = [sys.executable, "-m", "pytest", *options.split(), *files.split()]
    ended = subprocess.run(contract, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout


def test_the_new_model_is_about_fifty_lines() -> None:
    assert len(_block("python").splitlines()) <= 50
