"""The options of `evaluate` and `compare`, apart from what measures, which is slow to import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Task = Literal["ranking", "classification", "triples", "completion"]

DataOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="A data set, or a file of queries over the run's own data (default: what the run was trained on).",
    ),
]
TaskOption = Annotated[Task, typer.Option(help="What to measure.")]
SplitOption = Annotated[
    str | None,
    typer.Option(
        help="base, deduction, induction, all, valid, dev_deduction, dev_induction, dev or paths.  "
        "(default: all, or base where there are no path queries; base for completion)"
    ),
]
TruthOption = Annotated[
    Literal["all", "split"],
    typer.Option(help="F*: train + valid + test, or train + the facts of the evaluated split."),
]
TiesOption = Annotated[Literal["half", "paper", "pessimistic"], typer.Option(help="A tie counts half, wins, or loses.")]
MemoryOption = Annotated[str, typer.Option(help="The most memory to use.")]
OrderOption = Annotated[
    str | None,
    typer.Option(metavar="R1/R2", help="Classify paths with R1/R2 against the same with R2/R1 (of all path queries)."),
]
ReportOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a report: .md or .json.")]
PlotsOption = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also draw plots, as SVG and PNG.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
SeedOption = Annotated[int, typer.Option(help="Draws the bootstrap intervals.")]
