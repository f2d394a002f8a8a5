"""`blockhole merge`: several runs as one whose scores are the sum of theirs."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from blockhole.cli.output import JsonFlag, print_json

app = typer.Typer(add_completion=False)


@app.command()
def merge(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Folders of two runs or more, over the same data.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the merged run.", metavar="RUN")],
    weights: Annotated[
        str | None, typer.Option(metavar="W1,W2,…", help="What each run counts (default: 1 each).")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Merge runs of blockhole (of one b), complex, distmult or rescal into one run of their summed size.

    The merged run is evaluated, asked, calibrated and served like any other; it cannot be resumed.
    """
    from blockhole.runs.merging import merge_runs

    merged = merge_runs(runs, out, None if weights is None else _numbers(weights))
    report = {
        "run": str(out),
        "model": merged.config.model.name,
        "dim": merged.config.model.dimension,
        "parameters": merged.model.parameter_count(),
        "parts": [str(run) for run in runs],
    }
    if json:
        print_json(report)
        return
    typer.echo(f"{out}: {report['model']} with n = {report['dim']}, {report['parameters']:,} parameters")
    typer.echo(f"fit its probabilities with: blockhole calibrate {quote(str(out))}", err=True)


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no list of numbers, such as 1,0.5", param_hint="--weights") from None
