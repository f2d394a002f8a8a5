"""`blockhole evaluate`, `compare` and `calibrate`: how good runs are, and how sure of their answers."""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import blockhole
from blockhole.cli.options import ColumnsOption, RunArgument
from blockhole.cli.output import JsonFlag, plain_table, print_json, print_tables, print_whole, stderr, stdout
from blockhole.errors import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blockhole.data.dataset import DataSet
    from blockhole.evaluation.classification import Reliability
    from blockhole.evaluation.report import Report, Table

app = typer.Typer(add_completion=False)

DataOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="A data set, or a file of queries over the run's own data (default: what the run was trained on).",
    ),
]
Task = Literal["ranking", "classification", "triples", "completion", "queries"]
TaskOption = Annotated[Task, typer.Option(help="What to measure.")]
SplitOption = Annotated[
    str | None,
    typer.Option(
        help="base, deduction, induction, all, valid, dev_deduction, dev_induction, dev or paths; for queries test or "
        "valid.  (default: all, or base where there are no path queries; base for completion)"
    ),
]
TruthOption = Annotated[
    Literal["all", "split"],
    typer.Option(help="Facts that count as true (F*): train + valid + test, or train + the evaluated split."),
]
TiesOption = Annotated[Literal["half", "paper", "pessimistic"], typer.Option(help="A tie counts half, wins, or loses.")]
ByOption = Annotated[
    Literal["probability", "score"] | None,
    typer.Option(
        help="What orders entities in completion: their probabilities, as ask has them, with figures by score beside "
        "them, or the model's scores (default: probability if the run is calibrated and the graph not very large)."
    ),
]
MemoryOption = Annotated[str, typer.Option(help="Most memory to use, such as 2GB.")]
OrderOption = Annotated[
    str | None,
    typer.Option(metavar="R1/R2", help="Tell paths with R1/R2 from the same with R2/R1 (over all path queries)."),
]
QueriesOption = Annotated[
    str | None,
    typer.Option(metavar="NAME|FILE", help="The set of complex queries that --task queries takes, such as betae."),
]
LimitOption = Annotated[
    int | None, typer.Option(min=1, help="Take so many queries of each type, drawn by the seed (default: all).")
]
CandidatesOption = Annotated[
    Literal["typed", "all"],
    typer.Option(help="What a hop of a complex query leads to: objects that its relation has in the graph, or all."),
]
ReportOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a report: .md or .json.")]
PlotsOption = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also draw plots, as SVG and PNG.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of the bootstrap intervals, and of --limit.")]


@app.command(short_help="Measure a run: ranking, classification, triples, completion, queries.")
def evaluate(
    run: RunArgument,
    data: DataOption = None,
    columns: ColumnsOption = None,
    task: Annotated[
        Task | None, typer.Option(help="What to measure (default: completion of the test facts and ranking).")
    ] = None,
    split: SplitOption = None,
    truth: TruthOption = "all",
    ties: TiesOption = "half",
    by: ByOption = None,
    memory: MemoryOption = "2GB",
    order: OrderOption = None,
    queries: QueriesOption = None,
    limit: LimitOption = None,
    candidates: CandidatesOption = "all",
    report: ReportOption = None,
    plots: PlotsOption = None,
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Measure a run: completion and ranking, classification, triples or complex queries.

    Without --task and --split it prints MRR and Hits@k of the test facts, then MQ and P@10 of path queries, or of the
    test facts where there are none. Figures are in per cent, except those of completion and of queries, which are
    fractions, as is usual there. Beside those of completion and ranking stand chance, and counting how often a relation
    has an object in train. --plots of queries also measures and draws, by type, how the probabilities of the ten best
    predicted answers compare with what is true.
    """
    from blockhole.cli.progress import working_bar

    _check_outputs(report, plots)
    opened = blockhole.Run.open(run)
    given = _data(data if columns is None else data or opened.config.data, columns)
    narrowed = any(option is not None for option in (task, split, order, queries, limit)) or isinstance(given, str)
    both = not narrowed and candidates == "all"
    tasks: tuple[Task, ...] = ("completion", "ranking") if both else (task or "ranking",)
    with working_bar("ranking") as bar:
        reports = [
            blockhole.evaluate(
                opened, task=each, split=split, data=given, truth=truth, ties=ties, by=by if each == tasks[0] else None,
                memory=memory, order=order, queries=queries, limit=limit, candidates=candidates,
                reliability=plots is not None and each == "queries", device=device, seed=seed, progress=bar,
            )
            for each in tasks
        ]  # fmt: skip
    measured = reports[-1]
    _draw(plots, {str(run): measured}, {str(run): opened})
    result = {"run": str(run), **measured.to_dict(), **({"completion": reports[0].to_dict()} if both else {})}
    title = "completion and ranking" if both else task or "ranking"
    _print(f"{run}: {title}", [table for each in reports for table in each.tables()], result, report, json)
    for each in reports:
        if each.remark is not None:
            stderr().print(f"note: {each.remark}")


def _data(data: str | None, columns: str | None) -> DataSet | str | None:
    """The data set that was named; a file of queries stays a name, and nothing named means the run's own data."""
    if data is None or (Path(data).is_file() and columns is None):
        return data
    return blockhole.load(data, columns=columns)


@app.command(short_help="Compare runs side by side, with significance.")
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of two or more runs.")],
    data: DataOption = None,
    task: TaskOption = "ranking",
    split: SplitOption = None,
    truth: TruthOption = "all",
    ties: TiesOption = "half",
    by: ByOption = None,
    memory: MemoryOption = "2GB",
    order: OrderOption = None,
    queries: QueriesOption = None,
    limit: LimitOption = None,
    candidates: CandidatesOption = "all",
    report: ReportOption = None,
    plots: PlotsOption = None,
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Measure several runs on the same queries, and each one's difference from the first (paired bootstrap)."""
    from blockhole.cli.progress import working_bar

    if len(set(runs)) < 2:
        raise typer.BadParameter("a comparison needs two or more different runs", param_hint="RUN")
    _check_outputs(report, plots)
    opened = {str(run): blockhole.Run.open(run) for run in runs}
    with working_bar("ranking") as bar:
        comparison = blockhole.compare(
            list(opened.values()), task=task, split=split, data=data, truth=truth, ties=ties, by=by, memory=memory,
            order=order, queries=queries, limit=limit, candidates=candidates,
            reliability=plots is not None and task == "queries", device=device, seed=seed, progress=bar,
        )  # fmt: skip
    _draw(plots, comparison.reports, opened)
    result = {"task": task, **comparison.to_dict()}
    _print(f"{task} of {len(opened)} runs", comparison.tables(), result, report, json)


def _check_outputs(report: Path | None, plots: Path | None) -> None:
    """Refuse a report or plots that could not be written, before anything is measured."""
    if report is not None:
        from blockhole.evaluation.report import check_report_file

        check_report_file(report)
    if plots is not None:
        from blockhole.evaluation.plots import check_drawing

        check_drawing()


def _draw(plots: Path | None, reports: Mapping[str, Report], runs: Mapping[str, blockhole.Run]) -> None:
    if plots is not None:
        from blockhole.evaluation.plots import draw_reports

        draw_reports(plots, reports, {name: run.metrics() for name, run in runs.items()})


def _print(title: str, tables: Sequence[Table], result: Mapping[str, Any], report: Path | None, json: bool) -> None:
    """Write what was measured to its file, where one is wanted, then print it."""
    if report is not None:
        from blockhole.evaluation.report import write_report

        write_report(report, title, tables, result)
    if json:
        print_json(result)
    else:
        print_tables(tables)


@app.command(short_help="Fit the curves that turn a run's scores into probabilities.")
def calibrate(
    run: RunArgument,
    data: Annotated[str | None, typer.Option(help="Data with validation facts (default: the data of the run).")] = None,
    columns: ColumnsOption = None,
    test: Annotated[bool, typer.Option("--test", help="Also measure the probabilities on test queries.")] = False,
    plots: Annotated[Path | None, typer.Option(help="Folder for the reliability diagram of --test.")] = None,
    device: DeviceOption = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed for drawing queries and candidates.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Fit probabilities on the validation facts, and keep them in the run for ask, check and explain."""
    from blockhole.answering.calibrating import measure_calibration

    _check_outputs(None, plots)
    given = data if columns is None else _data(data or blockhole.Run.open(run).config.data, columns)
    calibration = blockhole.calibrate(run, given, seed=seed, device=device)
    report: dict[str, Any] = {"run": str(run), **calibration.model_dump(mode="json")}
    if test or plots is not None:
        measured = measure_calibration(run, given, seed=seed)
        report["test"] = {name: part.to_dict() for name, part in measured.items()}
        if plots is not None:
            report["plots"] = [str(path) for path in _draw_reliability(measured["all"].bins, plots)]
    if json:
        print_json(report)
    else:
        _print_calibration(report)


def _draw_reliability(measured: Reliability, folder: Path) -> list[Path]:
    from blockhole.evaluation.plots import plot_bins, save_figure

    bins = {"predicted answers": (measured.said, measured.true, measured.size)}
    figure = plot_bins(bins, said="probability", counted="answers", title="Reliability of predicted answers, test")
    return save_figure(figure, folder, "reliability")


def _print_calibration(report: dict[str, Any]) -> None:
    hop = report["hop"]
    stdout().print(
        f"p = 1 / (1 + exp(-({hop['slope']:.3f} log x + {hop['intercept']:.3f}))) of a hop's share x from "
        f"{exp(hop['low']):.2g} to 0.05, with a slope of {hop['low_slope']:.3f} below and {hop['top_slope']:.3f} "
        f"beyond, by scores times {report['scale']:.3f}; an object that is new to a relation counts at most "
        f"{report['new_objects']:.3f} times the share of its facts that have one; fitted on "
        f"{counted(report['facts'], 'question')} of validation facts, Brier score {report['brier']:.4f}"
    )
    for hops, part in report["chains"].items():
        stdout().print(
            f"paths of {hops} hops: {part['witness']:.3f} logit of the best witness + {part['share']:.3f} log share by "
            f"the composed vector + {part['intercept']:.3f}"
        )
    if report["doubts"]:
        counts = counted(len(report["doubts"]), "direction of a relation", "directions of relations")
        stdout().print(f"{counts}, whose likely objects are hardly ever true, with shares counted less")
    if report["sampling_error"]:
        stdout().print(f"normalisers are sampled; their logarithms err by {report['sampling_error']:.3f}")
    for name, part in report.get("test", {}).items():
        stdout().print(f"\nexpected calibration error on test, {name}: {part['ece']:.4f}; Brier {part['brier']:.4f}")
        bins = plain_table("probability", "true", "pairs")
        for row in part["bins"]:
            bins.add_row(f"{row['probability']:.3f}", f"{row['true']:.3f}", f"{row['pairs']:,}")
        print_whole(bins)
    for path in report.get("plots", ()):
        stdout().print(f"wrote {path}")
