"""`blockhole train`, `merge` and `show`: make runs, and see what they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import blockhole
from blockhole.cli.options import ColumnsOption, LiteralsOption, RunArgument
from blockhole.cli.output import JsonFlag, print_json, print_whole, stdout
from blockhole.errors import counted

if TYPE_CHECKING:
    from blockhole.runs.run import Run
    from blockhole.training.memory_needed import MemoryNeeded

app = typer.Typer(add_completion=False)

BARS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 60


@app.command(short_help="Train a model into a run folder.")
def train(
    out: Annotated[Path, typer.Option(help="Folder of the run.", metavar="RUN")],
    data: Annotated[str | None, typer.Option(help="Name of a data set, or a file or folder of facts.")] = None,
    columns: ColumnsOption = None,
    literals: LiteralsOption = None,
    names: Annotated[bool, typer.Option("--names", help="Also train on the words of entity names.")] = False,
    texts: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Also train on texts: entities in column 1, texts after.")
    ] = None,
    on: Annotated[Literal["base", "paths"] | None, typer.Option(help="Train on edges, or on edges and walks.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model (default: blockhole).")] = None,
    blocks: Annotated[int | None, typer.Option(help="b, blocks per side of a relation's matrix.")] = None,
    block_size: Annotated[int | None, typer.Option(help="m, the size of a block.")] = None,
    dim: Annotated[int | None, typer.Option(help="n, the dimension of an entity; b·m for BlockHolE.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="paper, small, fast, best, … (default: what a short look chooses).")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings in a .toml, .yaml or .json file.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the facts and walks.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Facts and walks per step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate of the optimizer.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the initial weights and every draw (default: 0).")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads (default: all).")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps (default: auto).")] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as penalty.dura=0.1; KEY= unsets it."),
    ] = None,
    track: Annotated[list[str] | None, typer.Option(help="Also log figures to tensorboard or mlflow.")] = None,
    mesh: Annotated[
        str | None, typer.Option(metavar="DATAxENTITIES", help="How processes share the work under torchrun.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in RUN, or start it.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print how much memory it would take on one CPU.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Train a model. Settings: defaults < preset < config file < options; docs/reference/settings.md lists them all.

    Ctrl-C stops after the batch under way and saves; the run then continues with --resume.
    """
    from blockhole.cli.progress import TrainingBar
    from blockhole.fitting import plan_memory, short_settings
    from blockhole.machine import speaks
    from blockhole.runs.config import parse_assignment

    settings = dict(parse_assignment(text) for text in assign or ())
    settings |= short_settings(
        columns=columns, literals=literals, names=names, texts=texts, on=on, blocks=blocks,
        block_size=block_size, dim=dim, epochs=epochs,
        batch_size=batch_size, learning_rate=learning_rate, seed=seed, threads=threads, device=device,
    )  # fmt: skip
    if dry_run:
        _print_memory(plan_memory(data, model=model, preset=preset, config=config, settings=settings), json)
        return
    with TrainingBar(shown=speaks()) as bar:
        run = blockhole.train(
            data,
            model=model,
            preset=preset,
            config=config,
            settings=settings,
            out=out,
            mesh=mesh,
            resume=resume,
            track=track or (),
            progress=bar,
        )
    if speaks():
        report = _outcome(run)
        if json:
            print_json(report)
        else:
            _print_outcome(run, report)
    if not run.complete:
        if speaks():
            again = f"blockhole train --out {quote(str(out))} --resume"
            typer.echo(f"interrupted after {run.state}; continue with: {again}", err=True)
        raise typer.Exit(1)


def _outcome(run: Run) -> dict[str, Any]:
    from blockhole.machine import peak_bytes

    state = run.state
    return {
        "run": str(run.folder),
        "model": run.config.model.name,
        "parameters": run.model.parameter_count(),
        "epochs": state.epoch,
        "seconds": round(state.seconds, 3),
        "paths_per_second": round(state.paths / state.seconds) if state.seconds else None,
        "loss": state.loss,
        "peak_rss_mb": round(peak_bytes() / 2**20, 1),
        "complete": run.complete,
        "stopped_early": state.stopped_early,
        "best_epoch": state.best_epoch,
        "best_figure": state.best_figure,
        "choice": run.config.choice,
    }


def _print_memory(needed: MemoryNeeded, json: bool) -> None:
    if json:
        print_json({"held": needed.held, **needed.parts, "mapped": needed.mapped, "gpu": needed.gpu})
        return
    lines = [f"{part:<10} {size / 1e6:>12,.0f} MB" for part, size in needed.parts.items() if size]
    lines.append(f"{'held':<10} {needed.held / 1e6:>12,.0f} MB at most")
    if needed.mapped:
        lines.append(f"{'mapped':<10} {needed.mapped / 1e6:>12,.0f} MB of files, given back when memory is short")
    lines.append(f"{'gpu':<10} {needed.gpu / 1e6:>12,.0f} MB at most, where a GPU trains")
    stdout().print("\n".join(lines))


def _print_outcome(run: Run, report: dict[str, Any]) -> None:
    if run.config.choice is not None:
        stdout().print(f"chosen: {run.config.choice}")
    loss = "none yet" if report["loss"] is None else f"{report['loss']:.4f}"
    stdout().print(
        f"{report['model']} with {counted(report['parameters'], 'parameter')}: {run.state} in "
        f"{report['seconds']:.1f} s, {report['paths_per_second'] or 0:,} paths per second, loss {loss}\n"
        f"run: {report['run']}",
    )


@app.command(short_help="Merge runs into one whose scores are the sum of theirs.")
def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of two or more runs on the same data.")],
    out: Annotated[Path, typer.Option(help="Folder of the merged run.", metavar="RUN")],
    weights: Annotated[
        str | None, typer.Option(metavar="W1,W2,…", help="Weight of each run (default: 1 each).")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Merge runs of blockhole and complex, of distmult, or of rescal into one run of their summed size.

    The merged run can be evaluated, asked, calibrated and served like any other, but not resumed.
    """
    merged = blockhole.merge(runs, out, None if weights is None else _numbers(weights))
    report: dict[str, Any] = {
        "run": str(out),
        "model": merged.config.model.name,
        "dim": merged.config.model.dimension,
        "parameters": merged.model.parameter_count(),
        "parts": [str(run) for run in runs],
    }
    if json:
        print_json(report)
        return
    typer.echo(f"{out}: {report['model']} with n = {report['dim']}, {counted(report['parameters'], 'parameter')}")
    _say_not_calibrated(merged)


def _say_not_calibrated(run: Run) -> None:
    """A run made of others has no probabilities yet; what to do depends on its data."""
    from blockhole.answering.engine import not_calibrated

    typer.echo(f"{not_calibrated(run)}.", err=True)


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1,0.5", param_hint="--weights") from None


@app.command(short_help="Drop the numbers of a run's relations that count least.")
def compress(
    run: RunArgument,
    out: Annotated[Path, typer.Option(help="Folder of the compressed run.", metavar="RUN")],
    keep: Annotated[float, typer.Option(metavar="SHARE", help="Share of the relations' numbers to keep.")] = 0.5,
    json: JsonFlag = False,
) -> None:
    """Write a run whose relations have zeros where numbers move scores least; zeros are not stored.

    The compressed run can be evaluated, asked, calibrated and served like any other, but not resumed. A run trained
    with penalty.l1_product or penalty.l1_blocks loses less.
    """
    made = blockhole.compress(run, out, keep)
    relation = made.model.relation
    report: dict[str, Any] = {
        "run": str(out),
        "relation_parameters": relation.numel(),
        "kept": int((relation != 0).sum()),
    }
    if json:
        print_json(report)
        return
    typer.echo(f"{out}: {report['kept']:,} of {report['relation_parameters']:,} numbers of relations kept")
    _say_not_calibrated(made)


@app.command(short_help="Describe a run, with its training curves.")
def show(
    run: RunArgument,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every file of a run, a packed graph or an export for damage.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Describe a run: how far it was trained, its loss and validation curves, its settings."""
    if verify:
        _verify(run, json)
        return
    report = _description(blockhole.Run.open(run))
    if json:
        print_json(report)
    else:
        _print_description(report)


def _verify(place: Path, json: bool) -> None:
    from blockhole.runs.verification import verify

    found = verify(place)
    if json:
        print_json({"place": str(place), "files": found})
        return
    for name, state in found.items():
        stdout().print(f"{name}: {state}")


def _description(run: Run) -> dict[str, Any]:
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


def _print_description(report: dict[str, Any]) -> None:
    from rich.table import Table

    from blockhole.runs.config import flatten

    table = Table(show_header=False, box=None)
    epochs, wanted = report["epochs"], report["config"]["training"]["epochs"]
    status = "stopped early" if report["stopped_early"] else "complete" if report["complete"] else "can be resumed"
    rows = {
        "model": f"{report['model']}, {counted(report['parameters'], 'parameter')}",
        "data": f"{report['data'] or 'a graph in memory'}, "
        f"{counted(report['entities'], 'entity', 'entities')}, {counted(report['relations'], 'relation')}",
        "epochs": f"{epochs} of {wanted} ({status}), {counted(report['paths'], 'path')} in {report['seconds']:,.1f} s",
    }
    if report["best_figure"] is not None:
        metric = report["config"]["early_stop"]["metric"]
        rows["best"] = f"{metric} {report['best_figure']:.2f} after epoch {report['best_epoch']}"
    for name, values in curves(report["metrics"]).items():
        rows[name] = f"{sparkline(values)} {values[0]:.4g} → {values[-1]:.4g}"
    for name, text in rows.items():
        table.add_row(name, text)
    print_whole(table)
    stdout().print("settings", style="bold")
    settings = Table(show_header=False, box=None)
    for key, value in flatten(report["config"]).items():
        settings.add_row(key, "–" if value is None else str(value))
    print_whole(settings)


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
