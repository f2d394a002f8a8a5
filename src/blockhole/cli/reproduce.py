"""`blockhole reproduce`: run the paper's experiments, and this project's, into records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from blockhole.cli.output import JsonFlag, print_json, print_tables

if TYPE_CHECKING:
    from blockhole.paper.experiment import Table
    from blockhole.paper.record import Record

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Run the paper's experiments: each training leaves a record, and what has one is not run again.",
)

DataOption = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Data set (default: the declared ones).")]
ColumnOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Column, such as complex-50 (default: all).")
]
SeedOption = Annotated[list[int] | None, typer.Option(min=0, help="Seed of a training (default: 0, 1 and 2).")]
AssignOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as training.epochs=5.")
]
SplitOption = Annotated[Literal["dev", "test"], typer.Option(help="Queries to measure; choose settings on dev.")]
OutOption = Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of records.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="CPU threads (default: all).")]
LimitOption = Annotated[float | None, typer.Option(min=0, help="Begin no training after so many seconds.")]

RESULTS = Path("results")

TRAINED_TABLES: dict[Table, str] = {
    "ranking": "Table 3: path ranking with every model, trained on paths and on edges.",
    "classification": "The accuracy figure: with the paper's training, and with path-corrupting negatives.",
    "order": "Table 4: …/parents/religion/… against …/religion/parents/….",
    "completion": "Knowledge graph completion on FB15k-237 and WN18RR.",
    "triples": "Triple classification on WN11 and FB13.",
}


def _register(table: Table, line: str) -> None:
    """Make the command of a table whose columns are trained models."""

    @app.command(table, help=line)
    def reproduce(
        data: DataOption = None,
        column: ColumnOption = None,
        seed: SeedOption = None,
        assign: AssignOption = None,
        split: SplitOption = "test",
        out: OutOption = RESULTS,
        device: DeviceOption = "auto",
        threads: ThreadsOption = None,
        limit_seconds: LimitOption = None,
        json: JsonFlag = False,
    ) -> None:
        from blockhole.errors import ConfigError, RunError
        from blockhole.paper.declared import experiments
        from blockhole.paper.material import Material
        from blockhole.paper.provenance import current_commit
        from blockhole.paper.record import read_record, record_file
        from blockhole.paper.runner import Runner
        from blockhole.training.config_sources import parse_assignment

        names = [f"{table}/{name}/{each}" for name in data or ("*",) for each in column or ("*",)]
        overrides = dict(parse_assignment(text) for text in assign or ())
        chosen = experiments(names, seeds=seed, split=split, overrides=overrides)
        runner = Runner(Material(), out, device, current_commit(), _say, threads)
        if overrides and (replaced := runner.replaced(chosen)):
            raise ConfigError(
                f"{replaced[0]} has other settings, and --set would replace it; name a folder with --out."
            )
        with _resumable():
            failed = runner.run(chosen, float("inf") if limit_seconds is None else limit_seconds)
        files = [record_file(out, experiment.name) for experiment in chosen]
        _print([read_record(file) for file in files if file.is_file()], table, split, json)
        if failed:
            raise RunError(f"{len(failed)} of {len(chosen)} experiments failed, {failed[0]} first; see above.")


for _table, _line in TRAINED_TABLES.items():
    _register(_table, _line)


@app.command("time")
def reproduce_time(
    data: Annotated[str, typer.Option(metavar="NAME", help="Data set.")] = "wn11",
    column: ColumnOption = None,
    dimension: Annotated[list[int] | None, typer.Option(min=8, help="An n; a multiple of every b.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Epochs timed, of which the best counts.")] = None,
    out: OutOption = RESULTS,
    json: JsonFlag = False,
) -> None:
    """The run-time figure: seconds of an epoch on one CPU thread against n, for b = 1, 2, 4, 8 and RESCAL."""
    from blockhole.paper.material import Material
    from blockhole.paper.provenance import current_commit
    from blockhole.paper.record import read_record
    from blockhole.paper.timing import record_curves, time_curves
    from blockhole.paper.timing_plan import TimingPlan

    plan = TimingPlan.of(column, dimension, rounds)
    opened = Material().open(data, paths=False)
    curves = time_curves(opened, plan, _say)
    files = record_curves(opened, plan, curves, out, current_commit())
    _print([read_record(file) for file in files], "time", "test", json)


@app.command("grid")
def reproduce_grid(
    data: Annotated[str, typer.Option(metavar="NAME", help="Data set.")] = "wn11",
    model: Annotated[
        list[str] | None, typer.Option(help="blockhole, complex, distmult or rescal (default: all four).")
    ] = None,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the search is kept (default: runs/grid-NAME.db).")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trainings at a time, each in a process of its own.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A subset that ends within an hour on two cores.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Stop trainings that stay behind the others.")] = False,
    assign: AssignOption = None,
    device: DeviceOption = "cpu",
    json: JsonFlag = False,
) -> None:
    """The paper's grid search over λ, η and n or (b, m), by MQ on dev; the same command resumes a search."""
    from blockhole.paper.grid import GridSearch, grid_tables
    from blockhole.training.config_sources import parse_assignment

    overrides = dict(parse_assignment(text) for text in assign or ())
    file = study or Path("runs") / f"grid-{Path(data).name}{'-quick' if quick else ''}.db"
    search = GridSearch.plan(data, model, file, quick=quick, prune=prune, overrides=overrides, device=device)
    with _resumable():
        report = search.run(jobs, _say)
    if json:
        print_json(report)
    else:
        print_tables(grid_tables(report))


@contextmanager
def _resumable() -> Iterator[None]:
    """Ctrl-C ends the command; what is done is kept."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on with what is not done yet.", err=True)
        raise typer.Exit(1) from None


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _print(records: list[Record], table: str, split: Literal["dev", "test"], json: bool) -> None:
    """The figures of these records: as JSON, or as tables."""
    from blockhole.paper.summary import summarise

    summary = summarise(records, split)
    if json:
        result: dict[str, Any] = {table: summary[table]}
        print_json(result)
        return
    from blockhole.paper.tables import recorded_tables

    print_tables(recorded_tables(summary, table))
