"""`blockhole paths`: which relation paths connect two entities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

app = typer.Typer(add_completion=False)


@app.command()
def paths(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    source: Annotated[str, typer.Argument(help="Where the paths begin.")],
    target: Annotated[str, typer.Argument(help="Where the paths lead.")],
    max_length: Annotated[int, typer.Option(help="Hops of the longest path.")] = 3,
    top: Annotated[int, typer.Option(help="How many paths.")] = 20,
    json: JsonFlag = False,
) -> None:
    """Print the relation paths that lead from one entity to another: the known ones, then as the model ranks them."""
    from dataclasses import asdict

    from rich.table import Table

    from blockhole.answering.connections import PathsReport, connections
    from blockhole.answering.engine import Engine

    found = connections(Engine.open(run, calibrated=True), source, target, max_length=max_length, top=top)
    if json:
        print_json(asdict(PathsReport(source, target, tuple(found))))
        return
    table = Table("path", "probability", "status", box=None, pad_edge=False, header_style="bold")
    for each in found:
        table.add_row(each.path, f"{each.probability:.3f}", each.status)
    stdout().print(table)
