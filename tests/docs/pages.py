"""The pages of the documentation, and the examples in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
