"""`python -m experiments`: run the paper's experiments, and this project's, into records; show what was recorded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from blockhole.cli.main import Verbs, run
from blockhole.cli.output import JsonFlag, print_json, print_tables, stdout

if TYPE_CHECKING:
    from experiments.declared import TableName
    from experiments.records import Record

app = typer.Typer(
    name="experiments",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    help="The paper's tables and figures, and what beats them: run, recorded, shown beside the published figures.",
)
tables = typer.Typer(
    no_args_is_help=True,
    help="Run the paper's experiments: each training leaves a record, and what has one is not run again.",
)
app.add_typer(tables, name="reproduce")

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

RECORDS = Path("experiments") / "records"

TRAINED_TABLES: dict[TableName, str] = {
    "ranking": "Table 3: path ranking with every model, trained on paths and on edges.",
    "classification": "The accuracy figure: with the paper's training, and with path-corrupting negatives.",
    "order": "Table 4: …/parents/religion/… against …/religion/parents/….",
    "completion": "Knowledge graph completion on FB15k-237 and WN18RR.",
    "triples": "Triple classification on WN11 and FB13.",
    "queries": "Complex queries on NELL and FB15k-237, with negation on NELL.",
    "rules": "Completion by mined rules, by the model, and by both, on FB15k-237 and WN18RR.",
}


def _register(table: TableName, line: str) -> None:
    """Make the command of a table whose columns are trained models."""

    @tables.command(table, help=line)
    def reproduce(
        data: DataOption = None,
        column: ColumnOption = None,
        seed: SeedOption = None,
        assign: AssignOption = None,
        split: SplitOption = "test",
        out: OutOption = RECORDS,
        device: DeviceOption = "auto",
        threads: ThreadsOption = None,
        limit_seconds: LimitOption = None,
        json: JsonFlag = False,
    ) -> None:
        from blockhole.errors import ConfigError, RunError
        from blockhole.runs.config import parse_assignment
        from experiments.declared import find_experiments
        from experiments.material import Material
        from experiments.records import current_commit, read_record, record_file
        from experiments.runner import Runner

        names = [f"{table}/{name}/{each}" for name in data or ("*",) for each in column or ("*",)]
        overrides = dict(parse_assignment(text) for text in assign or ())
        chosen = find_experiments(names, seeds=seed, split=split, overrides=overrides)
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


@tables.command("time")
def reproduce_time(
    data: Annotated[str, typer.Option(metavar="NAME", help="Data set.")] = "wn11",
    column: ColumnOption = None,
    dimension: Annotated[list[int] | None, typer.Option(min=8, help="An n; a multiple of every b.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Epochs timed, of which the best counts.")] = None,
    out: OutOption = RECORDS,
    json: JsonFlag = False,
) -> None:
    """The run-time figure: seconds of an epoch on one CPU thread against n, for b = 1, 2, 4, 8 and RESCAL."""
    from experiments.material import Material
    from experiments.records import current_commit, read_record
    from experiments.timing import TimingPlan, record_curves, time_curves

    plan = TimingPlan.of(column, dimension, rounds)
    opened = Material().open(data, paths=False)
    curves = time_curves(opened, plan, _say)
    files = record_curves(opened, plan, curves, out, current_commit())
    _print([read_record(file) for file in files], "time", "test", json)


@tables.command("defaults")
def reproduce_defaults(
    data: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Graph (default: all ten small ones).")] = None,
    seed: SeedOption = None,
    search: Annotated[bool, typer.Option(help="Also search settings, which takes the longest.")] = True,
    out: OutOption = RECORDS,
    json: JsonFlag = False,
) -> None:
    """`train` without settings on ten small graphs, and on WN18RR and FB15k-237 where they are named.

    Beside it stand chance, counting and, of the eight generated graphs, a search of 30 trials.
    """
    from blockhole.errors import ConfigError, nearest_or_all
    from experiments.defaults import LARGE, PUBLISHED, defaults_table, record_graph
    from experiments.graphs import GRAPHS
    from experiments.records import current_commit

    known = (*GRAPHS, *PUBLISHED)
    names = data or [name for name in known if name not in LARGE]
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no such graph {name!r}; {nearest_or_all(name, known, 'there are')}")
    with _resumable():
        for name in names:
            record_graph(name, (0, 1, 2) if seed is None else seed, out, current_commit(), _say, search=search)
    table = defaults_table(out, names)
    if json:
        print_json({str(row[0]): dict(zip(table.header[1:], row[1:], strict=True)) for row in table.rows})
    else:
        print_tables([table])


@tables.command("families")
def reproduce_families(
    seed: SeedOption = None,
    out: OutOption = RECORDS,
    json: JsonFlag = False,
) -> None:
    """Missing uncles, cousins and in-laws in 20 generated families, and the likeliest second father."""
    from experiments.families import SEEDS, families_table, read_families, record_families
    from experiments.records import current_commit

    seeds = SEEDS if seed is None else seed
    with _resumable():
        record_families(seeds, out, current_commit(), _say)
    if json:
        print_json({name: figures for name, figures in read_families(out).items() if int(name) in seeds})
    else:
        print_tables([families_table(out, seeds)])


@tables.command("parts")
def reproduce_parts(
    data: Annotated[str, typer.Option(metavar="NAME", help="Data set.")] = "nell",
    queries: Annotated[str, typer.Option(metavar="NAME|FILE", help="A set of its queries.")] = "query2box",
    split: Annotated[Literal["valid", "test"], typer.Option(help="The split of the queries.")] = "valid",
    limit: Annotated[int, typer.Option(min=1, help="Queries of each type.")] = 100,
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where trained models are.")] = Path("runs") / "parts",
    out: OutOption = RECORDS,
    device: Annotated[str, typer.Option(help="Where models are trained: auto, cpu, cuda or cuda:N.")] = "cpu",
    json: JsonFlag = False,
) -> None:
    """What each part of the engine adds to complex queries: small models, one seed, one core.

    Calibration, kinds and limits, both directions of a hop, walks and composed evidence come one after the other;
    beside BlockHolE stand ComplEx, RESCAL and DistMult.
    """
    import blockhole
    from experiments.parts import parts_table, record_parts

    loaded = blockhole.load(data)
    with _resumable():
        record = record_parts(loaded, loaded.queries(queries, split), limit, out, runs, device, _say)
    if json:
        print_json(record["rows"])
    else:
        print_tables([parts_table(record)])


@tables.command("grid")
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
    from blockhole.runs.config import parse_assignment
    from experiments.grid import GridSearch, grid_tables

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
    from experiments.records import summarise

    summary = summarise(records, split)
    if json:
        result: dict[str, Any] = {table: summary[table]}
        print_json(result)
        return
    from experiments.tables import recorded_tables

    print_tables(recorded_tables(summary, table))


@app.command("reliability")
def show_reliability(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a calibrated run.")],
    data: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its data (default: what it was trained on).")
    ] = None,
    queries: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="A set of test queries (default: test paths).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Queries of each type, or of each number of hops.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the queries drawn.")] = 0,
    plots: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also draw it, as SVG and PNG.")] = None,
    json: JsonFlag = False,
) -> None:
    """How reliable the probabilities of a run are on test queries, beside those of version 0.1 where it had some."""
    import blockhole
    from blockhole.answering.calibrating import data_of
    from experiments.reliability import measure_reliability

    run = blockhole.Run.open(folder)
    loaded = data_of(run) if data is None else blockhole.load(data)
    chosen = None if queries is None else loaded.queries(queries, "test")
    found = measure_reliability(run, loaded, chosen, limit, seed, _say)
    if plots is not None:
        for path in found.draw(plots, f"The ten best predicted answers, {loaded.name}, test"):
            _say(f"wrote {path}")
    if json:
        print_json(
            {name: {type_: each.to_dict() for type_, each in own.items()} for name, own in found.measured.items()}
        )
    else:
        print_tables([found.table()])


@app.command("results")
def show_results(
    folder: Annotated[Path, typer.Option("--results", metavar="FOLDER", help="The folder of records.")] = RECORDS,
    write: Annotated[bool, typer.Option("--write", help="Write results.md and its figures anew.")] = False,
    docs: Annotated[Path, typer.Option(metavar="FOLDER", help="Where --write writes.")] = Path("docs"),
    json: JsonFlag = False,
) -> None:
    """Show the figures of all records: means and deviations over seeds, with the paper's beside them.

    Figures of test queries alone count; what has no record is missing.
    """
    from experiments.records import SHOWN_TABLES, read_records, summarise

    records = list(read_records(folder))
    summary = summarise(records)
    if write:
        from experiments.document import write_document
        from experiments.parts import parts_tables

        for file in write_document(records, docs, parts_tables(folder)):
            typer.echo(f"wrote {file}", err=True)
    if json:
        print_json(summary)
    elif not write:
        from experiments.tables import claims_table, goals_table, tables_of

        shown = [table for name in SHOWN_TABLES if summary[name] for table in tables_of(summary, name)]
        print_tables([*shown, claims_table(summary), goals_table(summary)])
        if empty := [name for name in SHOWN_TABLES if not summary[name]]:
            stdout().print(f"{folder} has no records of {', '.join(empty)}.")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit 0, 1 for a failure the user can act on (one clear line), 2 for wrong usage."""
    run(app, sys.argv[1:] if arguments is None else arguments, "python -m experiments")


if __name__ == "__main__":
    main()
