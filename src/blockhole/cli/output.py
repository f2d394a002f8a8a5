"""What the command line writes: one JSON object or a table on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from blockhole.evaluation.report import Table

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
    """A console that prints text as it is: a name may hold [brackets] or :colons:, which rich would interpret."""
    from rich.console import Console

    return Console(stderr=to_stderr, highlight=False, markup=False, emoji=False)


def print_tables(tables: Sequence[Table]) -> None:
    """Show the tables of a report on standard output."""
    from rich import box
    from rich.table import Table as RichTable

    console = stdout()
    for table in tables:
        shown = RichTable(title=table.title, box=box.SIMPLE_HEAD, title_justify="left")
        for i, name in enumerate(table.header):
            shown.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
        for row in table.text():
            shown.add_row(*row)
        # A window too narrow is better than figures cut short.
        whole = console.measure(shown, options=console.options.update(width=1000)).maximum
        console.width = max(console.width, whole)
        console.print(shown)
