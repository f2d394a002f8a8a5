"""`blockhole merge` as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blockhole.cli.main import main


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return int(caught.value.code or 0)


@pytest.fixture(scope="module")
def parts(uncalibrated: None, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders of two runs; read them only."""
    folders = [tmp_path_factory.mktemp("parts") / name for name in "ab"]
    for seed, folder in enumerate(folders):
        size = ("--blocks", 2, "--block-size", 3, "--threads", 1, "--epochs", 1, "--seed", seed)
        assert run("train", "--data", "family", "--out", folder, *size) == 0
    return folders


@pytest.mark.slow
def test_a_merged_run_is_asked_and_evaluated(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("merge", *parts, "--out", tmp_path / "sum", "--weights", "1,0.5", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {
        "run": str(tmp_path / "sum"),
        "model": "blockhole",
        "dim": 12,
        "parameters": 719 * 24 + 14 * 48,
        "parts": [str(part) for part in parts],
    }
    assert run("calibrate", tmp_path / "sum", "--json") == 0
    assert run("show", tmp_path / "sum") == 0
    assert run("ask", tmp_path / "sum", '"George III"/fatherOf', "--json") == 0
    capsys.readouterr()
    assert run("evaluate", tmp_path / "sum", "--split", "base", "--json") == 0
    assert json.loads(capsys.readouterr().out)["queries"] == 217


def test_failures_are_one_line(parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("merge", parts[0], "--out", tmp_path / "sum") == 1
    assert capsys.readouterr().err == "error: merging takes two runs or more, not 1.\n"
    assert run("merge", *parts, "--out", tmp_path / "sum", "--weights", "1,x") == 2
    assert "'1,x' is not a list of numbers such as 1,0.5" in capsys.readouterr().err
    assert run("merge", *parts, "--out", tmp_path / "sum") == 0
    assert "blockhole with n = 12, 17,928 parameters" in capsys.readouterr().out
    assert run("train", "--out", tmp_path / "sum", "--resume") == 1
    assert "has no optimizer to go on with" in capsys.readouterr().err
