"""The laboratory's own pages: links lead somewhere, examples run, commands have the options they use."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from experiments.__main__ import app
from tests.docs.pages import commands, examples

ROOT = Path(__file__).parents[2]
README, NOTEBOOK = ROOT / "experiments" / "README.md", ROOT / "experiments" / "notebook.md"


@pytest.mark.parametrize("page", [README, NOTEBOOK], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_python_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    for example in examples(README):
        if example.language == "python":
            exec(compile(example.text, f"README.md, line {example.line}", "exec"), names)
    assert names["record"].figures["all"]["mq"] > 96
    assert len(names["trials"]["order-balanced"]) == 6


def test_commands_have_the_options_they_use() -> None:
    lines = [command.text for each in examples(README) if each.language == "console" for command in commands(each.text)]
    ours = [shlex.split(line, comments=True)[3:] for line in lines if line.startswith("python -m experiments ")]
    assert len(ours) == 16
    for words in ours:
        command: Any = get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, words
        assert not hasattr(command, "commands"), words


def test_the_package_does_without_the_laboratory() -> None:
    needs_it = re.compile(r"^\s*(?:from|import) experiments\b", re.MULTILINE)
    sources = (ROOT / "src").rglob("*.py")
    assert [file for file in sources if needs_it.search(file.read_text(encoding="utf-8"))] == []
