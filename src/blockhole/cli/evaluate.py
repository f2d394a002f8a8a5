"""`blockhole evaluate`: measure a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockhole.cli.measuring_options import (
    DataOption,
    DeviceOption,
    MemoryOption,
    OrderOption,
    PlotsOption,
    ReportOption,
    SeedOption,
    SplitOption,
    TaskOption,
    TiesOption,
    TruthOption,
)
from blockhole.cli.output import JsonFlag, print_json, print_tables

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
    from blockhole.cli.measuring import Wanted, check_outputs, draw, measure, write_report
    from blockhole.runs.run import Run

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
