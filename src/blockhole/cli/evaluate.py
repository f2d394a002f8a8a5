"""`blockhole evaluate`: measure a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from blockhole.cli.output import JsonFlag, print_json

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

app = typer.Typer(add_completion=False)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    data: DataOption = None,
    task: TaskOption = "ranking",
    split: SplitOption = None,
    truth: TruthOption = "all",
    ties: TiesOption = "half",
    memory: MemoryOption = "2GB",
    order: OrderOption = None,
    report: ReportOption = None,
    plots: PlotsOption = None,
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Measure a run: ranking, classification, triples or completion.

    Figures are in per cent, but those of completion, which are fractions as is usual there.
    """
    from blockhole.cli.measuring import Wanted, check_outputs, draw, measure, print_tables, write_report
    from blockhole.training.run import Run

    check_outputs(report, plots)
    opened = Run.open(run)
    measured = measure(opened, Wanted(data, task, split, truth, ties, memory, order, device, seed))
    result = {"run": str(run), **measured.to_dict()}
    if report is not None:
        write_report(report, f"{run}: {task}", measured.tables(), result)
    if plots is not None:
        draw(plots, {str(run): opened}, {str(run): measured})
    if json:
        print_json(result)
    else:
        print_tables(measured.tables())
