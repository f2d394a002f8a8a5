"""Every example in the documentation and the README runs as it stands, or says why it does not."""

from __future__ import annotations

import gc
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import blockhole
from blockhole.cli.main import app, main
from blockhole.data.dataset import DataSet
from blockhole.runs.run import Run
from tests.docs.pages import PAGES, Command, commands, examples, shown
from tests.family import FAMILY, SETTINGS
from tests.postgres import postgres

RUN = ("console", "python")
EXECUTED = [page for page in PAGES if any(e.language in RUN and not e.not_run for e in examples(page))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_core: None) -> Path:
    """An empty folder in which the page's examples run, one after the other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A real PostgreSQL with pgvector, at the address that the guides keep in KG."""
    with postgres() as address:
        monkeypatch.setenv("KG", address)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("page", EXECUTED, ids=shown)
def test_the_examples_of_a_page_run(
    page: Path, folder: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    request.addfinalizer(lambda: _forget(names))
    if "$KG" in page.read_text(encoding="utf-8"):
        request.getfixturevalue("database")
    if page.name == "README.md":
        _train_family_once(request)
    for example in examples(page):
        if example.not_run or example.language not in RUN:
            continue
        where = f"{shown(page)}, line {example.line}"
        if example.language == "python":
            exec(compile(example.text, where, "exec"), names)
            capsys.readouterr()
            continue
        for command in commands(example.text):
            if command.text == FAMILY:
                shutil.copytree(request.getfixturevalue("family_run"), folder / "runs" / "family")
                capsys.readouterr()
                continue
            printed = _run(command, capsys, where)
            if command.output.strip():
                assert re.fullmatch(_pattern(command.output), _squeezed(printed)), f"{where}: {command.text}\n{printed}"


def _train_family_once(request: pytest.FixtureRequest) -> None:
    """Let the training in Python that equals `FAMILY` be the one of all pages."""
    trained: Path = request.getfixturevalue("family_run")
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")

    def train(data: DataSet, *, settings: dict[str, Any], out: str) -> Run:
        assert (data.name, settings) == ("family", SETTINGS)
        return Run.open(shutil.copytree(trained, out))

    patch.setattr(blockhole, "train", train)


def _forget(names: dict[str, Any]) -> None:
    """Frees what a page made: left to the collector, a file still open would fail whatever test runs then."""
    names.clear()
    gc.collect()


def _run(command: Command, capsys: pytest.CaptureFixture[str], where: str) -> str:
    """What a command prints on standard output; commands of ours run in this process, all others in a shell."""
    words = shlex.split(os.path.expandvars(command.text), comments=True)
    if words[0] != "blockhole" or {"|", ">", "<"} & set(words) or "<<" in command.text:
        ended = subprocess.run(["bash", "-c", command.text], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{where}: {command.text}\n{ended.stderr}"
        return ended.stdout
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended_by:
        main(words[1:])
    out, err = capsys.readouterr()
    assert not ended_by.value.code, f"{where}: {command.text}\n{err}"
    return out


def _squeezed(text: str) -> str:
    """Text with every run of spaces as one, and none at the ends of lines."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def _pattern(output: str) -> str:
    """What a page says a command prints, where … stands for anything."""
    return re.escape(_squeezed(output)).replace("…", "(?s:.*?)")


def _lines_of_ours() -> Iterator[tuple[str, str]]:
    """Every line `blockhole VERB …` of every page, also of blocks that are not run.

    The verb of new-verb.md is in no package but the copy that its own test makes.
    """
    for page in PAGES:
        if page.name == "new-verb.md":
            continue
        for example in examples(page):
            if example.language not in ("", "sh", "console", "text", "bash"):
                continue
            for line in example.text.replace("\\\n", " ").splitlines():
                begin = r"\$ " if example.language == "console" else "^"
                found = re.search(rf"(?:{begin}|; |--no-python )blockhole ([a-z][a-z-]*) (.*)", line)
                if found and "OPTIONS" not in line:
                    yield f"{shown(page)}:{example.line}: {line.strip()}", found[0][found[0].index("blockhole") :]


@pytest.mark.parametrize(("place", "line"), list(_lines_of_ours()))
def test_commands_in_the_documentation_have_the_options_they_use(place: str, line: str) -> None:
    words = shlex.split(line.partition(" #")[0].replace("…", ""), comments=True)[1:]
    verbs: dict[str, Any] = getattr(get_command(app), "commands", {})
    assert words[0] in verbs, place
    command = verbs[words[0]]
    inner = getattr(command, "commands", {})
    if inner:
        assert words[1] in inner, place
        command = inner[words[1]]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in words if word.startswith("--")} <= known, place
