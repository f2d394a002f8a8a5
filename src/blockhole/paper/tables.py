"""The summary as tables for people, with the published figures beside; what has no record says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blockhole.evaluation.report import Cell, Table
from blockhole.paper.declared import declared
from blockhole.paper.experiment import TABLES
from blockhole.paper.published import COMPLETION, OVERALL, PAPER, TRIPLES
from blockhole.paper.summary import Summary, look_up
from blockhole.paper.timing_plan import BLOCKS, DIMENSIONS, TIMED_DATA

MISSING = "missing"

_PARTS = ("base", "deduction", "induction", "all")
_METRICS = {"mq": "MQ", "p_at_10": "P@10"}
_HITS = "p_at_10_with_excluded"


def tables_of(summary: Summary, table: str) -> list[Table]:
    """The tables of one table of the paper, each data set in turn."""
    found: list[Table] = []
    for data in data_sets(summary, table):
        found += _TABLES[table](summary, data, columns_of(summary, table, data))
    return found


def recorded_tables(summary: Summary, table: str) -> list[Table]:
    """The same for data sets and columns that have records alone."""
    found: list[Table] = []
    for data in summary[table]:
        found += _TABLES[table](summary, data, list(summary[table][data]))
    return found


def data_sets(summary: Summary, table: str) -> list[str]:
    """The declared data sets, then others that have records."""
    planned = _plan(table).data
    return [*planned, *(data for data in summary[table] if data not in planned)]


def columns_of(summary: Summary, table: str, data: str) -> list[str]:
    """The declared columns, then others that have records; of data that is not declared, those with records."""
    plan, recorded = _plan(table), summary[table].get(data, {})
    planned = [column for column in plan.columns if data in plan.data or column in recorded]
    return [*planned, *(column for column in recorded if column not in planned)]


def missing_seeds(table: str, seeds: Sequence[int]) -> list[int]:
    """The declared seeds of a table that are not among `seeds`."""
    return [seed for seed in _plan(table).seeds if seed not in seeds]


class _Plan(NamedTuple):
    """What is declared of a table."""

    data: tuple[str, ...]
    columns: tuple[str, ...]
    seeds: tuple[int, ...]


def _plan(table: str) -> _Plan:
    for known in TABLES:
        if table == known:
            return _Plan(declared(known).data, declared(known).columns, declared(known).seeds)
    return _Plan((TIMED_DATA,), tuple(BLOCKS), ())


def show(summary: Summary, *place: str, digits: int = 1) -> str:
    """A figure as tables show it: the mean and, of several seeds, the deviation."""
    figure, deviation = look_up(summary, *place), look_up(summary, *place[:-1], f"{place[-1]}_deviation")
    if figure is None:
        return MISSING
    return f"{figure:.{digits}f}" + (f" ± {deviation:.{digits}f}" if deviation is not None else "")


def _published(*place: str) -> Cell:
    return PAPER[place].figure if place in PAPER else None


def _ranking(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    tables = [
        _ranking_table(summary, data, columns, metric, metric, f"{data}: {name}, per cent")
        for metric, name in _METRICS.items()
    ]
    if any(look_up(summary, "ranking", data, column, part, "excluded") for column in columns for part in _PARTS):
        title = f"{data}: P@10 if queries without negatives counted as hits, per cent"
        tables.append(_ranking_table(summary, data, columns, _HITS, "p_at_10", title))
    return [*tables, _interval_table(summary, data, columns), _overall_table(summary, data, columns)]


def _ranking_table(summary: Summary, data: str, columns: Sequence[str], metric: str, printed: str, title: str) -> Table:
    header = ["column", *(word for part in _PARTS[:3] for word in (part, "paper")), "all"]
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        cells: list[Cell] = [column]
        for part in _PARTS:
            cells.append(show(summary, "ranking", data, column, part, metric))
            if part != "all":
                cells.append(_published("ranking", data, column, part, printed))
        rows.append(tuple(cells))
    return Table(title, tuple(header), tuple(rows))


def _interval_table(summary: Summary, data: str, columns: Sequence[str]) -> Table:
    """Intervals over queries; of several seeds the mean of their bounds."""
    rows = []
    for column in columns:
        cells: list[Cell] = [column]
        for metric in _METRICS:
            for part in _PARTS:
                bounds = look_up(summary, "ranking", data, column, part, "intervals", metric)
                cells.append(MISSING if bounds is None else f"{bounds[0]:.1f}–{bounds[1]:.1f}")
        rows.append(tuple(cells))
    header = ("column", *(f"{part} {name}" for name in _METRICS.values() for part in _PARTS))
    return Table(f"{data}: 95 % intervals over queries, per cent", header, tuple(rows))


def _overall_table(summary: Summary, data: str, columns: Sequence[str]) -> Table:
    """The whole path test beside what others printed."""
    ours: list[tuple[Cell, ...]] = [
        (column, *(show(summary, "ranking", data, column, "all", metric) for metric in _METRICS))
        for column in ("blockhole-2x25", "best-without-words", "best")
        if column in columns
    ]
    others = [(name, *figures[data]) for name, figures in OVERALL.items() if data in figures]
    header = ("all paths (deduction and induction)", *_METRICS.values())
    return Table(f"{data}: beside other systems, per cent", header, (*ours, *others))


def _accuracy(summary: Summary, table: str, data: str, columns: Sequence[str], title: str) -> Table:
    names = ("accuracy", "accuracy_positive", "accuracy_negative")
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        bounds = look_up(summary, table, data, column, "intervals", "accuracy")
        interval = MISSING if bounds is None else f"{bounds[0]:.1f}–{bounds[1]:.1f}"
        positive, negative = (_published(table, data, column, name) for name in names[1:])
        all_, true, false = (show(summary, table, data, column, name) for name in names)
        rows.append((column, all_, interval, true, positive, false, negative))
    header = ("column", "accuracy", "95 %", "on positives", "paper", "on negatives", "paper")
    return Table(title, header, tuple(rows))


def _classification(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    return [_accuracy(summary, "classification", data, columns, f"{data}: does the path hold? Per cent")]


def _order(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    title = f"{data}: …/parents/religion/… against …/religion/parents/…, per cent"
    return [_accuracy(summary, "order", data, columns, title)]


def _completion(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    names = {"mrr": "MRR", "hits_at_1": "Hits@1", "hits_at_3": "Hits@3", "hits_at_10": "Hits@10"}
    rows: list[tuple[Cell, ...]] = [
        (column, *(show(summary, "completion", data, column, name, digits=3) for name in names)) for column in columns
    ]
    rows += [(name, each[data], None, None, None) for name, each in COMPLETION.items() if data in each]
    return [Table(f"{data}: completion, filtered", ("column", *names.values()), tuple(rows), digits=3)]


def _triples(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        names = ("accuracy", "accuracy_positive", "accuracy_negative", "by_score")
        rows.append((column, *(show(summary, "triples", data, column, name) for name in names)))
    rows += [(name, each[data], None, None, None) for name, each in TRIPLES.items() if data in each]
    header = ("column", "accuracy", "on positives", "on negatives", "by score alone")
    return [Table(f"{data}: triple classification, per cent", header, tuple(rows))]


def _time(summary: Summary, data: str, columns: Sequence[str]) -> list[Table]:
    dimensions = sorted(
        {int(n) for column in summary["time"].get(data, {}).values() for n in column["by_dimension"]} or DIMENSIONS
    )
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        times = [show(summary, "time", data, column, "by_dimension", str(n), "seconds", digits=3) for n in dimensions]
        slope = look_up(summary, "time", data, column, "slope")
        shown = MISSING if slope is None else f"{1000 * slope:.2f}"
        fit = [show(summary, "time", data, column, name, digits=3) for name in ("r2", "exponent")]
        rows.append((column, *times, shown, *fit))
    header = ("column", *(f"n = {n}" for n in dimensions), "slope, ms", "R²", "exponent")
    return [Table(f"{data} Base: seconds of an epoch on one CPU thread", header, tuple(rows))]


_TABLES = {
    "ranking": _ranking,
    "classification": _classification,
    "order": _order,
    "completion": _completion,
    "triples": _triples,
    "time": _time,
}
