"""`blockhole export`: write a run's vectors for other tools and databases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

app = typer.Typer(add_completion=False)

_FILES = ("parquet", "npz", "faiss")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    to: Annotated[str, typer.Option(help="parquet, npz, faiss, or the address of a database: postgresql://…")],
    out: Annotated[Path | None, typer.Option(help="File to write (default: RUN/vectors.parquet etc.).")] = None,
    table: Annotated[str, typer.Option(help="Table of the database.")] = "blockhole_entity",
    partitions: Annotated[
        int, typer.Option(min=1, help="Tables that a database spreads the entities over, by a hash of their names.")
    ] = 1,
    json: JsonFlag = False,
) -> None:
    """Write the names and vectors of all entities. docs/how-to/pgvector.md shows how to search them."""
    database = to.startswith(("postgresql://", "postgres://"))
    if not database and to not in _FILES:
        raise typer.BadParameter(
            f"{to!r} is none of {', '.join(_FILES)}, and no postgresql:// address", param_hint="--to"
        )
    if database and out is not None:
        raise typer.BadParameter("a database has tables, and no file is written", param_hint="--out")
    if partitions > 1 and not database:
        raise typer.BadParameter("only a database has partitions", param_hint="--partitions")
    from blockhole.answering.engine import Engine
    from blockhole.answering.vectors import Vectors
    from blockhole.runs.run import Run

    opened = Run.open(run)
    engine = Engine(Vectors.of(opened), opened.graph)
    if database:
        from blockhole.answering.export import export_postgres

        export_postgres(engine, to, table, partitions)
        place = f"table {table}"
    else:
        from blockhole.answering.export import export_file

        path = out or run / f"vectors.{to}"
        export_file(engine, to, path)  # type: ignore[arg-type] # one of _FILES, which are all kinds there are
        place = str(path)
    count, width = engine.index.vectors.shape
    if json:
        print_json({"run": str(run), "to": to.partition(":")[0], "place": place, "entities": count, "width": width})
    else:
        stdout().print(f"wrote {count:,} vectors of {width} numbers to {place}", soft_wrap=True)
