"""What is printed is what was meant: names as they are, and silence where nobody reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blockhole.answering.answers import Answer, Answers
from blockhole.cli.main import main
from blockhole.cli.output import plain_table, print_answers, print_tables, print_whole, stdout
from blockhole.errors import counted
from blockhole.evaluation.report import Table
from tests.runs.kept import KEPT

AWKWARD = "a [bold]b[/bold] [/c] :dog: [type]"
"""What rich would take for styles, for the end of one that never began, and for an animal."""


def test_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    stdout().print(AWKWARD)
    assert capsys.readouterr().out == f"{AWKWARD}\n"
    print_tables([Table(AWKWARD, ("relation", "MQ"), ((AWKWARD, 1.0),))])
    assert capsys.readouterr().out.count(AWKWARD) == 2


def test_no_name_or_figure_is_cut_short_in_a_narrow_window(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    name = "http://example.org/" + "relation " * 20
    table = plain_table("path", "probability", "status", right=("probability",))
    table.add_row(name, "0.125", "predicted")
    print_whole(table)
    print_tables([Table(name, ("relation", "MQ"), ((name, 12345.6),))])
    print_answers(Answers(name, (Answer(name, 0.125, 0.125, "predicted"),), 0))
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert shown.count(name) == 4  # one is a title
    for figure in ("0.125", "12345.6"):
        assert figure in shown


@pytest.mark.parametrize(
    ("arguments", "whole"),
    [
        ("show run", "50 entities, 7 relations"),
        ("answers facts Adam/fatherOf", "Hugo"),
        ("data list", "kinship terms of the Alyawarra"),
    ],
)
def test_no_verb_cuts_or_breaks_what_it_prints(
    arguments: str, whole: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.chdir(KEPT)
    with pytest.raises(SystemExit):
        main(arguments.split())
    assert whole in (shown := capsys.readouterr().out)
    assert "…" not in shown


@pytest.mark.parametrize(
    ("number", "words", "shown"),
    [
        (0, ("fact",), "0 facts"),
        (1, ("fact",), "1 fact"),
        (2000, ("fact",), "2,000 facts"),
        (1, ("query", "queries"), "1 query"),
        (2, ("query", "queries"), "2 queries"),
    ],
)
def test_one_thing_is_not_many(number: int, words: tuple[str, ...], shown: str) -> None:
    assert counted(number, *words) == shown


def test_one_fact_is_written_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts, packed = tmp_path / "facts.tsv", tmp_path / "packed"
    facts.write_text("a\tr\tb\n", encoding="utf-8")
    for arguments, said in (
        (["convert", str(facts), str(tmp_path / "facts.nt")], "1 fact written to "),
        (
            ["pack", str(facts), "--out", str(packed)],
            "1 fact over 2 entities and 1 relation, 2 edges both ways, packed",
        ),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["data", *arguments])
        assert stop.value.code == 0
        assert said in capsys.readouterr().out


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
