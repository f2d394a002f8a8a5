"""What is printed is what was meant: names as they are, and silence where nobody reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blockhole.cli.main import main
from blockhole.cli.output import print_tables, stdout
from blockhole.evaluation.report import Table

AWKWARD = "a [bold]b[/bold] [/c] :dog: [type]"
"""What rich would take for styles, for the end of one that never began, and for an animal."""


def test_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    stdout().print(AWKWARD, soft_wrap=True)
    assert capsys.readouterr().out == f"{AWKWARD}\n"
    print_tables([Table(AWKWARD, ("relation", "MQ"), ((AWKWARD, 1.0),))])
    assert capsys.readouterr().out.count(AWKWARD) == 2


def test_folders_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is being done is told with the names of folders in it, and so is what has been."""
    facts, out = tmp_path / "[" / "facts].tsv", tmp_path / "[b] :dog:"
    facts.parent.mkdir()
    facts.write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\n", encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        main(["data", "build", str(facts), "--out", str(out), "--lengths", "2"])
    assert stop.value.code == 0
    assert f"written to {out} in " in capsys.readouterr().out


def test_a_reader_that_has_gone_is_no_failure_to_talk_about() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", "from blockhole.cli.main import main; main()", "data", "list", "--json"]
    with os.fdopen(writing, "wb") as pipe:
        result = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    assert (result.returncode, result.stderr) == (1, "")
