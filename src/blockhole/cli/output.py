"""What the command line writes: one JSON object or a table on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from blockhole.errors import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from blockhole.answering.answers import Answers
    from blockhole.evaluation.report import Table
    from blockhole.graph.knowledge_graph import KnowledgeGraph

JsonFlag = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on standard output.")]


def print_json(result: Mapping[str, Any]) -> None:
    """Print the one JSON object of a command."""
    sys.stdout.write(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()  # here a reader that has gone can still be dealt with, and one that waits need wait no longer


def stdout() -> Console:
    """The console for a command's result, as people read it."""
    return _console(to_stderr=False)


def stderr() -> Console:
    """The console for progress, notes and warnings."""
    return _console(to_stderr=True)


def _console(*, to_stderr: bool) -> Console:
    """A console that prints text as it is: a name may hold [brackets] or :colons:, which rich would interpret.

    Lines are left to the window to break, so that whoever reads a pipe gets them whole.
    """
    from rich.console import Console

    return Console(stderr=to_stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def plain_table(*columns: str, right: Sequence[str] = ()) -> RichTable:
    """A table without lines; columns named in `right` are aligned there."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left")
    return table


def print_whole(table: RichTable) -> None:
    """Print a table as wide as it is: lines longer than the window are better than names and figures cut short."""
    console = stdout()
    for column in table.columns:
        column.no_wrap = True
    console.width = max(console.width, console.measure(table, options=console.options.update(width=10_000)).maximum)
    console.print(table)


def print_tables(tables: Sequence[Table]) -> None:
    """Show the tables of a report on standard output."""
    from rich import box
    from rich.table import Table as RichTable

    for table in tables:
        shown = RichTable(title=table.title, box=box.SIMPLE_HEAD, title_justify="left")
        for i, name in enumerate(table.header):
            justify: Literal["left", "right"] = "left" if i == 0 else "right"
            shown.add_column(name, justify=justify)
        for row in table.text():
            shown.add_row(*row)
        print_whole(shown)


def shown_names(graph: KnowledgeGraph, how: Literal["full", "short", "label"]) -> Callable[[str], str]:
    """How entities are printed: as they are, with prefixes, or by their labels; with prefixes where they have none."""
    if how == "full":
        return str
    from blockhole.files.rdf import labels

    known = labels(graph) if how == "label" else {}
    return lambda name: known.get(name) or graph.entities.shortened(name)


def print_answers(answers: Answers, shown: Callable[[str], str] = str, offset: int = 0) -> None:
    """Print ranked answers as people read them, each named as `shown` says; `offset` of each list come before them."""
    if not len(answers):
        stdout().print(f"no further answers behind {offset:,} of each list" if offset else "no answers")
        return
    certain = all(answer.probability is not None for answer in answers)
    value = "probability" if certain else "share"
    table = plain_table("answer", value, "status", right=(value,))
    for answer in answers:
        table.add_row(shown(answer.entity), f"{answer.score:.3f}", answer.status)
    print_whole(table)
    listed = sum(answer.status == "known" for answer in answers)
    if listed < answers.known_count and listed:
        last = offset + listed
        which = f"{offset + 1:,} to {last:,}" if offset else f"{listed:,}"
        more = f"; --offset {last} shows more" if last < answers.known_count else ""
        stderr().print(f"{which} of {counted(answers.known_count, 'known answer')}{more}")
    if answers.negation:
        stderr().print("negation is over known facts: a fact that is missing may exclude some of these")
