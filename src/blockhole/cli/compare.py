"""`blockhole compare`: several runs side by side, with significance."""

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
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of two runs or more.")],
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
    """Measure several runs on the same queries, and each one's difference from the first (paired bootstrap)."""
    from blockhole.cli.measuring import Wanted, check_outputs, draw, measure, with_data, write_report
    from blockhole.evaluation.report import compare as compare_reports
    from blockhole.runs.run import Run

    if len(set(runs)) < 2:
        raise typer.BadParameter("a comparison needs two different runs or more", param_hint="RUN")
    check_outputs(report, plots)
    opened = {str(run): Run.open(run) for run in runs}
    wanted = with_data(Wanted(data, task, split, truth, ties, memory, order, device, seed), opened)
    measured = {name: measure(run, wanted) for name, run in opened.items()}
    comparison = compare_reports(measured, seed)
    result = {"task": task, **comparison.to_dict()}
    if report is not None:
        write_report(report, f"{task} of {len(opened)} runs", comparison.tables(), result)
    if plots is not None:
        draw(plots, opened, measured)
    if json:
        print_json(result)
    else:
        print_tables(comparison.tables())
