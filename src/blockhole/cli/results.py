"""`blockhole results`: the recorded figures, as tables, as JSON, and as docs/results.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockhole.cli.output import JsonFlag, print_json, print_tables, stdout

app = typer.Typer(add_completion=False)


@app.command()
def results(
    folder: Annotated[Path, typer.Option("--results", metavar="FOLDER", help="The folder of records.")] = (
        Path("results")
    ),
    write: Annotated[bool, typer.Option("--write", help="Write results.md and its figures anew.")] = False,
    docs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where --write writes.")] = Path("docs"),
    json: JsonFlag = False,
) -> None:
    """Show the figures of all records: means and deviations over seeds, with the paper's beside them.

    Figures of test queries alone count; what has no record is missing.
    """
    from blockhole.paper.record import read_records
    from blockhole.paper.summary import SHOWN_TABLES, summarise

    records = list(read_records(folder))
    summary = summarise(records)
    if write:
        from blockhole.paper.document import write_document

        for file in write_document(records, docs):
            typer.echo(f"wrote {file}", err=True)
    if json:
        print_json(summary)
    elif not write:
        from blockhole.paper.claims import claims_table, goals_table
        from blockhole.paper.tables import tables_of

        shown = [table for name in SHOWN_TABLES if summary[name] for table in tables_of(summary, name)]
        print_tables([*shown, claims_table(summary), goals_table(summary)])
        if empty := [name for name in SHOWN_TABLES if not summary[name]]:
            stdout().print(f"{folder} has no records of {', '.join(empty)}.")
