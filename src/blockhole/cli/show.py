"""`blockhole show`: what a run is, and its curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

if TYPE_CHECKING:
    from blockhole.runs.run import Run

app = typer.Typer(add_completion=False)

BARS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 60


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help="Folder that `blockhole train` wrote.", metavar="RUN")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every file of a run, a packed graph or an export for damage.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say what a run is, how far it has come, and how its loss and validation figures went."""
    if verify:
        from blockhole.runs.verification import verify as verify_files

        found = verify_files(run)
        if as_json:
            print_json({"place": str(run), "files": found})
        else:
            for name, state in found.items():
                stdout().print(f"{name}: {state}", soft_wrap=True)
        return
    from blockhole.runs.run import Run

    opened = Run.open(run)
    report = _report(opened)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _report(run: Run) -> dict[str, Any]:
    state = run.state
    return {
        "run": str(run.folder),
        "model": run.config.model.name,
        "parameters": run.model.parameter_count(),
        "entities": len(run.entities),
        "relations": len(run.relations),
        "data": run.config.data,
        "epochs": state.epoch,
        "complete": run.complete,
        "stopped_early": state.stopped_early,
        "seconds": round(state.seconds, 3),
        "paths": state.paths,
        "loss": state.loss,
        "best_figure": state.best_figure,
        "best_epoch": state.best_epoch,
        "config": run.config.model_dump(mode="json"),
        "metrics": run.metrics(),
    }


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    from blockhole.runs.config import flatten

    table = Table(show_header=False, box=None)
    epochs, wanted = report["epochs"], report["config"]["training"]["epochs"]
    status = "stopped early" if report["stopped_early"] else "complete" if report["complete"] else "can be resumed"
    rows = {
        "model": f"{report['model']}, {report['parameters']:,} parameters",
        "data": f"{report['data'] or 'a graph in memory'}, {report['entities']:,} entities, "
        f"{report['relations']:,} relations",
        "epochs": f"{epochs} of {wanted} ({status}), {report['paths']:,} paths in {report['seconds']:,.1f} s",
    }
    if report["best_figure"] is not None:
        metric = report["config"]["early_stop"]["metric"]
        rows["best"] = f"{metric} {report['best_figure']:.2f} after epoch {report['best_epoch']}"
    for name, values in curves(report["metrics"]).items():
        rows[name] = f"{sparkline(values)} {values[0]:.4g} → {values[-1]:.4g}"
    for name, text in rows.items():
        table.add_row(name, text)
    console = stdout()
    console.print(table)
    console.print("settings", style="bold")
    settings = Table(show_header=False, box=None)
    for key, value in flatten(report["config"]).items():
        settings.add_row(key, "–" if value is None else str(value))
    console.print(settings)


def curves(metrics: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Loss by epoch, and each validation figure by measurement."""
    found: dict[str, list[float]] = {}
    for line in metrics:
        names = ["loss"] if line["event"] == "epoch" else [name for name in line if name not in ("event", "epoch")]
        for name in names:
            found.setdefault(name, []).append(float(line[name]))
    return found


def sparkline(values: Sequence[float]) -> str:
    """The values as a row of bars, thinned to a line's width."""
    step = max(1, -(-len(values) // CURVE_WIDTH))
    thinned = values[::step]
    low, high = min(thinned), max(thinned)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in thinned)
