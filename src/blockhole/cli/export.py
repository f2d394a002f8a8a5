"""`blockhole index` and `export`: a run's vectors made ready for search, here and in other tools and databases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import blockhole
from blockhole.cli.options import RunArgument, TableOption
from blockhole.cli.output import JsonFlag, print_json, stderr, stdout
from blockhole.errors import counted

app = typer.Typer(add_completion=False)


@app.command(short_help="Build the index that answers are searched in.")
def index(
    run: RunArgument,
    kind: Annotated[
        Literal["exact", "hnsw", "ivf"], typer.Option(help="exact, or approximate by a graph or by inverted lists.")
    ] = "exact",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the queries that recall is measured on.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Build the search index of a run in its folder, shared by every process that opens the run.

    hnsw and ivf need the extra faiss and pay off from about a million entities; ivf is built ten times as fast. They
    are made wide enough to find 95 % of the true best ten; the recall reached is printed. Questions over 50,000
    candidates or fewer are searched exactly all the same.
    """
    from time import perf_counter

    from blockhole.answering.index import build_index, index_cost
    from blockhole.answering.vectors import Vectors
    from blockhole.cli.progress import working_bar

    opened = blockhole.Run.open(run)
    vectors = Vectors.of(opened)
    cost = index_cost(kind, vectors.num_entities, vectors.width)
    if cost.seconds >= _LONG:
        stderr().print(
            f"building an {kind} index of {counted(vectors.num_entities, 'vector')} of "
            f"{counted(vectors.width, 'number')}: about {_lasting(cost.seconds)} on one core, and "
            f"{cost.bytes / 1e6:,.0f} MB in memory and on disk"
        )
    began = perf_counter()
    with working_bar(f"{kind} index") as bar:
        record = build_index(run, vectors, opened.graph, kind, seed, progress=bar)
    seconds = round(perf_counter() - began, 3)
    size = (run / record.file).stat().st_size
    report = {
        "run": str(run),
        "kind": kind,
        "file": record.file,
        "bytes": size,
        "width": record.width,
        "recall_at_10": record.recall,
        "seconds": seconds,
    }
    if json:
        print_json(report)
        return
    searched = "" if record.width is None else f" at {'efSearch' if kind == 'hnsw' else 'nprobe'} {record.width}"
    stdout().print(f"{kind} index of {size / 1e6:.1f} MB in {seconds:.1f} s: recall@10 {record.recall:.3f}{searched}")


_LONG = 5
"""Seconds from which an index says what it will cost."""


def _lasting(seconds: float) -> str:
    """How long, as far as it is known: whole minutes, or tens of seconds."""
    return f"{10 * round(seconds / 10) or 10} s" if seconds < 90 else counted(round(seconds / 60), "minute")


@app.command(short_help="Write a run's vectors for other tools and databases.")
def export(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="parquet, npz, faiss, or the address of a database: postgresql://…")],
    out: Annotated[Path | None, typer.Option(help="File to write (default: RUN/vectors.parquet etc.).")] = None,
    table: TableOption = "blockhole_entity",
    partitions: Annotated[
        int, typer.Option(min=1, help="Tables to spread the entities over in a database, by a hash of their names.")
    ] = 1,
    json: JsonFlag = False,
) -> None:
    """Write the names and vectors of all entities. docs/how-to/pgvector.md shows how to search them."""
    from blockhole.answering.export import FILE_KINDS, is_database

    database = is_database(to)
    kind = next((kind for kind in FILE_KINDS if kind == to), None)
    if not database and kind is None:
        raise typer.BadParameter(
            f"{to!r} is neither {', '.join(FILE_KINDS)} nor a postgresql:// address", param_hint="--to"
        )
    if database and out is not None:
        raise typer.BadParameter("vectors go to a file or to a database, not both", param_hint="--out")
    if partitions > 1 and not database:
        raise typer.BadParameter("only a database has partitions", param_hint="--partitions")
    path = to if database else out or run / f"vectors.{to}"
    place, count, width = blockhole.export(run, path, kind=kind, table=table, partitions=partitions)
    if json:
        print_json({"run": str(run), "to": to.partition(":")[0], "place": place, "entities": count, "width": width})
    else:
        stdout().print(f"wrote {counted(count, 'vector')} of {counted(width, 'number')} to {place}")
