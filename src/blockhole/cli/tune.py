"""`blockhole tune`: search settings by validation facts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

import blockhole
from blockhole.cli.options import ColumnsOption, LiteralsOption
from blockhole.cli.output import JsonFlag, plain_table, print_json, print_whole, stderr
from blockhole.errors import counted

app = typer.Typer(add_completion=False)

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


@app.command(short_help="Search settings for a graph by its validation facts.")
def tune(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Name of a data set, or a folder with validation facts.")],
    out: Annotated[
        Path, typer.Option(help="Folder of the search; the same command goes on with it.", metavar="FOLDER")
    ],
    search: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUES", help="What to search: KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=A,B,C."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials in all.")] = 30,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after so long, such as 90s, 10m or 2h.")
    ] = None,
    trial_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End a trial with what it has reached after so long (default: three times the median).",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that search at a time, of one thread each.")] = 1,
    preset: Annotated[str | None, typer.Option(help="Preset for all that is not searched.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings for all that is not searched, in a file.")] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any setting that is not searched, such as training.steps=500."
        ),
    ] = None,
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Search settings: train trial after trial, and keep the settings that complete the validation facts best.

    The best settings are in FOLDER/best.json, for train --config; FOLDER also gets a report and plots of what mattered.
    """
    from blockhole.runs.config import parse_assignment

    console = stderr()
    tuned = blockhole.tune(
        data,
        out,
        search=search or (),
        trials=trials,
        seconds=_seconds(time, "--time"),
        trial_seconds=_seconds(trial_time, "--trial-time"),
        workers=workers,
        preset=preset,
        config=config,
        settings=dict(parse_assignment(text) for text in assign or ()),
        columns=columns,
        literals=literals,
        seed=seed,
        say=console.print,
    )
    if json:
        print_json(tuned.to_dict())
        return
    table = plain_table("setting", "best", "importance", right=("best", "importance"))
    for key, value in sorted(tuned.settings.items(), key=lambda item: -tuned.importances.get(item[0], 0.0)):
        weight = tuned.importances.get(key)
        best = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(key, best, "–" if weight is None else f"{weight:.2f}")
    print_whole(table)
    complete = sum(trial["mrr"] is not None for trial in tuned.trials)
    typer.echo(f"MRR {tuned.best:.4f} of the validation facts, best of {counted(complete, 'trial')}")
    typer.echo(f"train with it: blockhole train --config {tuned.config} --out RUN")


def _seconds(text: str | None, option: str) -> float | None:
    """Seconds of a time such as 90s, 10m or 2h; None where there is none."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a time such as 90s, 10m or 2h", param_hint=option)
    return float(found[1]) * SECONDS[found[2]]
