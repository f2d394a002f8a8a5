"""The pages of the documentation, the examples in them, and how those of a guide run in a package that it changes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_HEREDOC = re.compile(r"<<'(\w+)'")


@dataclass(frozen=True)
class Example:
    """A fenced block of a page; `not_run` says why it is not executed, where it is not."""

    language: str
    text: str
    line: int
    not_run: str | None


@dataclass(frozen=True)
class Command:
    """A command of a console block, and what it prints, where the block shows it."""

    text: str
    output: str


def examples(page: Path) -> Iterator[Example]:
    """The fenced blocks of a page, in order; a comment `<!-- not run: why -->` goes before one that is not executed."""
    reason = None
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            yield Example(token.info.strip(), token.content, token.map[0] + 1 if token.map else 0, reason)
        match = _NOT_RUN.match(token.content) if token.type == "html_block" else None
        reason = match[1] if match else None


def commands(block: str) -> Iterator[Command]:
    """The commands of a console block: after `$ `, over further lines where one ends in \\ or opens a here-document."""
    lines = iter(block.splitlines())
    text, output = "", []
    for line in lines:
        if not line.startswith("$ "):
            output.append(line)
            continue
        if text:
            yield Command(text, "\n".join(output))
        text, output = line[2:], []
        while text.endswith("\\"):
            text += "\n" + next(lines)
        if opened := _HEREDOC.search(text):
            for inner in lines:
                text += "\n" + inner
                if inner == opened[1]:
                    break
    yield Command(text, "\n".join(output))


def shown(page: Path) -> str:
    """The name of a page in the names of tests."""
    return page.relative_to(ROOT).as_posix()


def apply_changes(changes: str, root: Path) -> None:
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


_STEPS = """
import contextlib, io, json, os, sys
from blockhole.cli.main import main
printed = []
for step in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if isinstance(step, dict):
            os.environ.update(step)
        elif isinstance(step, str):
            exec(compile(step, "the guide", "exec"), {"__name__": "__main__"})
        else:
            try:
                main(step[1:])
            except SystemExit as end:
                if end.code:
                    raise
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def copy_package(folder: Path) -> None:
    """Copy the package into src/ of a folder, with its compiled loops.

    shutil keeps the times of files, by which Numba knows whether its own are of this source. What other workers are
    about to rename may be gone before it is copied: Numba's files end in .tmp and a name, Python's in .pyc and digits.
    """
    unfinished = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
    shutil.copytree(ROOT / "src" / "blockhole", folder / "src" / "blockhole", ignore=unfinished)


def run_steps(steps: Sequence[str | Sequence[str] | Mapping[str, str]], folder: Path, source: Path) -> list[str]:
    """What each step prints: a program, the words of a command of ours, or variables to export.

    All run in one process, which finds the package, or a module of its own, in `source`; importing torch for each would
    take most of the time.
    """
    path = os.pathsep.join((str(source), *filter(None, [os.environ.get("PYTHONPATH")])))
    ended = subprocess.run(
        [sys.executable, "-c", _STEPS],
        input=json.dumps(steps),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    printed: list[str] = json.loads(ended.stdout)
    return printed
