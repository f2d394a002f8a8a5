"""What the command line writes: one JSON object or a table on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

JsonFlag = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on standard output.")]


def print_json(result: Mapping[str, Any]) -> None:
    """Print the one JSON object of a command."""
    sys.stdout.write(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")


def stdout() -> Console:
    """The console for a command's result, as people read it."""
    from rich.console import Console

    return Console(highlight=False)


def stderr() -> Console:
    """The console for progress, notes and warnings."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)
