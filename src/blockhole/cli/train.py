"""`blockhole train`: train a model into a run folder."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from blockhole.cli.output import JsonFlag, print_json, stdout

if TYPE_CHECKING:
    from blockhole.runs.run import Run
    from blockhole.training.memory_needed import MemoryNeeded

app = typer.Typer(add_completion=False)


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Folder of the run.", metavar="RUN")],
    data: Annotated[str | None, typer.Option(help="Name of a data set, or a file or folder of facts.")] = None,
    on: Annotated[Literal["base", "paths"] | None, typer.Option(help="Train on edges, or on edges and walks.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model (default: blockhole).")] = None,
    blocks: Annotated[int | None, typer.Option(help="b, blocks per side of a relation's matrix.")] = None,
    block_size: Annotated[int | None, typer.Option(help="m, the size of a block.")] = None,
    dim: Annotated[int | None, typer.Option(help="n, the dimension of an entity; b·m for BlockHolE.")] = None,
    preset: Annotated[str | None, typer.Option(help="paper, small, fast, best, … (default: small or fast).")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings in a .toml, .yaml or .json file.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the positives.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Positives per step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Step size.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides the initial weights and every draw (default: 0).")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads (default: all).")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps (default: auto).")] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as penalty.dura=0.1; KEY= makes it absent."),
    ] = None,
    track: Annotated[list[str] | None, typer.Option(help="Also log figures to tensorboard or mlflow.")] = None,
    mesh: Annotated[
        str | None, typer.Option(metavar="DATAxENTITIES", help="How processes divide the work, under torchrun.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in RUN, or begin it.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how much memory it would take on one CPU.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Train a model. Settings: defaults < preset < config file < options; docs/reference/settings.md lists them all.

    Ctrl-C stops after the batch under way and saves; the run then continues with --resume.
    """
    from blockhole.cli.training_progress import TrainingBar
    from blockhole.fitting import train as fit
    from blockhole.runs.config import parse_assignment
    from blockhole.training.distributed.group import speaks

    flags = {
        "training.on": on,
        "model.blocks": blocks,
        "model.block_size": block_size,
        "model.dim": dim,
        "training.epochs": epochs,
        "training.batch_size": batch_size,
        "optimizer.learning_rate": learning_rate,
        "training.seed": seed,
        "training.threads": threads,
        "training.device": device,
    }
    settings = dict(parse_assignment(text) for text in assign or ())
    settings |= {key: value for key, value in flags.items() if value is not None}
    if dry_run:
        from blockhole.fitting import plan_memory

        _print_memory(plan_memory(data, model=model, preset=preset, config=config, settings=settings), json)
        return
    with TrainingBar(shown=speaks()) as bar:
        run = fit(
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
        report = _report(run)
        if json:
            print_json(report)
        else:
            _print(run, report)
    if not run.complete:
        if speaks():
            again = f"blockhole train --out {quote(str(out))} --resume"
            typer.echo(f"interrupted after {run.state}; continue with: {again}", err=True)
        raise typer.Exit(1)


def _report(run: Run) -> dict[str, Any]:
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


def _print(run: Run, report: dict[str, Any]) -> None:
    loss = "none yet" if report["loss"] is None else f"{report['loss']:.4f}"
    stdout().print(
        f"{report['model']} with {report['parameters']:,} parameters: {run.state} in {report['seconds']:.1f} s, "
        f"{report['paths_per_second'] or 0:,} paths per second, loss {loss}\nrun: {report['run']}",
        soft_wrap=True,
    )
