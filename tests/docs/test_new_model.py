"""The guide to a new model works: its one file, outside the package, trains, answers and passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, commands, examples, run_steps

_CONTRACT = """
import os, sys, pytest
os.chdir({root!r})
sys.path.insert(0, "")
status = pytest.main([*{options}, "tests/models/test_contract.py", "tests/models/test_gradients.py"])
if status:
    sys.exit(f"the tests of models end with {{status}}")
"""
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
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "pytest"), "-k", "quate"]
    contract = _CONTRACT.format(root=str(ROOT), options=options)
    *_, tested = run_steps([passed, variables, *asked, contract], tmp_path, tmp_path)
    assert " passed" in tested


def test_the_new_model_is_about_fifty_lines() -> None:
    assert len(_block("python").splitlines()) <= 50
