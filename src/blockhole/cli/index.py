"""`blockhole index`: build the index that answers are searched with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

app = typer.Typer(add_completion=False)


@app.command()
def index(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    kind: Annotated[
        Literal["exact", "hnsw", "ivf"], typer.Option(help="exact, or approximate by a graph or by inverted lists.")
    ] = "exact",
    seed: Annotated[int, typer.Option(help="Decides the queries that recall is measured on.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Build the index of a run in its folder, from which every process that asks maps it.

    hnsw and ivf need the extra faiss and pay from about a million entities on. They are built as wide as it takes to
    find 95 of 100 of the true best ten; what was reached is printed.
    """
    from time import perf_counter

    from blockhole.answering.index import build_index
    from blockhole.answering.vectors import Vectors
    from blockhole.runs.run import Run

    opened = Run.open(run)
    began = perf_counter()
    record = build_index(run, Vectors.of(opened), opened.graph, kind, seed)
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
