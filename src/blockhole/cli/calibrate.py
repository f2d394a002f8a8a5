"""`blockhole calibrate`: fit what turns a run's scores into probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

if TYPE_CHECKING:
    from blockhole.evaluation.classification import Reliability

app = typer.Typer(add_completion=False)


@app.command()
def calibrate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    data: Annotated[str | None, typer.Option(help="Data with validation facts (default: the data of the run).")] = None,
    test: Annotated[bool, typer.Option("--test", help="Also measure the probabilities on test queries.")] = False,
    plots: Annotated[Path | None, typer.Option(help="Folder for the reliability diagram of --test.")] = None,
    seed: Annotated[int, typer.Option(help="Decides which queries and candidates are drawn.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Fit probabilities on the validation facts, and keep them in the run for ask, check and explain."""
    from blockhole.answering.calibrating import calibrate as fit
    from blockhole.answering.calibrating import data_of, measure
    from blockhole.answering.engine import Engine
    from blockhole.data.dataset import load
    from blockhole.runs.run import Run

    if plots is not None:
        from blockhole.evaluation.plots import check_drawing

        check_drawing()
    opened = Run.open(run)
    facts = data_of(opened) if data is None else load(data)
    calibration = fit(opened, facts, seed=seed)
    report: dict[str, Any] = {
        "run": str(run),
        "lengths": {
            length: {"kind": part.curve.kind, **part.model_dump(exclude={"curve"})}
            for length, part in calibration.lengths.items()
        },
    }
    if test or plots is not None:
        engine = Engine.open(opened, graph=facts.split.graph("train"), calibration=calibration)
        measured = measure(engine, facts, seed=seed)
        report["test"] = {name: _as_json(part) for name, part in measured.items()}
        if plots is not None:
            report["plots"] = [str(path) for path in _draw(measured["shown"], plots)]
    if json:
        print_json(report)
    else:
        _print(report)


def _as_json(measured: Reliability) -> dict[str, Any]:
    bins = zip(measured.said.tolist(), measured.true.tolist(), measured.size.tolist(), strict=True)
    return {
        "ece": measured.error,
        "bins": [{"probability": said, "true": true, "pairs": size} for said, true, size in bins],
    }


def _draw(measured: Reliability, folder: Path) -> list[Path]:
    from blockhole.evaluation.plots import plot_bins, save_figure

    bins = {"predicted answers": (measured.said, measured.true, measured.size)}
    figure = plot_bins(bins, said="probability", counted="answers", title="Reliability of predicted answers, test")
    return save_figure(figure, folder, "reliability")


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    columns = ("length", "curve", "positives", "negatives", "Brier (Platt)", "Brier (isotonic)")
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for length, part in report["lengths"].items():
        brier = part["brier"]
        table.add_row(
            str(length),
            part["kind"],
            f"{part['positives']:,}",
            f"{part['negatives']:,}",
            f"{brier['platt']:.4f}",
            f"{brier['isotonic']:.4f}",
        )
    stdout().print(table)
    for name, part in report.get("test", {}).items():
        stdout().print(f"\nexpected calibration error on test, {name} pairs: {part['ece']:.4f}")
        bins = Table("probability", "true", "pairs", box=None, pad_edge=False, header_style="bold")
        for row in part["bins"]:
            bins.add_row(f"{row['probability']:.3f}", f"{row['true']:.3f}", f"{row['pairs']:,}")
        stdout().print(bins)
    for path in report.get("plots", ()):
        stdout().print(f"wrote {path}", soft_wrap=True)
