"""What every evaluation hands back: JSON, tables, bootstrap intervals, and several models side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import EvaluationError
from blockhole.machine import peak_bytes
from blockhole.saving import replacing

Cell = str | int | float | None
Interval = tuple[float, float]

RESAMPLES = 1000
LEVEL = 0.95


@final
@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; floats are shown with `digits` decimals, None as a dash."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 1

    def text(self) -> list[list[str]]:
        """The cells as they are shown."""
        return [[self._show(cell) for cell in row] for row in self.rows]

    def _show(self, cell: Cell) -> str:
        if cell is None:
            return "–"
        if isinstance(cell, float):
            return f"{cell:.{self.digits}f}"
        return f"{cell:,}" if isinstance(cell, int) else cell


class Report(Protocol):
    """The outcome of one task on one split."""

    @property
    def digits(self) -> int:
        """Decimals of its figures where several models stand side by side."""

    @property
    def remark(self) -> str | None:
        """What its reader should know beside the figures, in a sentence, if anything."""

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """The values whose means are the figures, one for each query that counts, in the order of the queries."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""

    def tables(self) -> list[Table]:
        """The same for people, the main table first."""


@final
@dataclass(frozen=True, slots=True)
class Timing:
    """How long an evaluation took over how many queries, and the most memory the process held."""

    queries: int
    seconds: float

    def to_dict(self) -> dict[str, float]:
        """seconds, queries_per_second and peak_rss_mb."""
        return {
            "seconds": round(self.seconds, 3),
            "queries_per_second": round(self.queries / max(self.seconds, 1e-9), 1),
            "peak_rss_mb": round(peak_bytes() / 2**20, 1),
        }


def markdown(tables: Sequence[Table]) -> str:
    """The tables as Markdown."""
    return "\n".join(_markdown_table(table) for table in tables)


def _markdown_table(table: Table) -> str:
    lines = [f"## {table.title}", "", _line(table.header), _line(["---"] + ["---:"] * (len(table.header) - 1))]
    return "\n".join([*lines, *map(_line, table.text()), ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# How far a mean could have come out otherwise: the bootstrap over queries.


def mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float | None:
    """The mean; of nothing there is none."""
    return float(values.mean()) if len(values) else None


def mean_intervals(metrics: Mapping[str, NDArray[np.float64]], seed: int = 0) -> dict[str, Interval]:
    """The bootstrap interval of each metric's mean; metrics over the same queries share their draws."""
    found: dict[str, Interval] = {}
    for count in {len(values) for values in metrics.values()} - {0}:
        names = [name for name, values in metrics.items() if len(values) == count]
        found |= zip(names, intervals(np.column_stack([metrics[name] for name in names]), seed), strict=True)
    return {name: found[name] for name in metrics if name in found}


def check_report_file(path: Path) -> None:
    """Refuse a report of unknown format; callers ask before they measure for minutes what is to be written."""
    if path.suffix not in (".md", ".json"):
        raise EvaluationError(f"{path}: a report is Markdown or JSON; end its name in .md or .json.")


def write_report(path: Path, title: str, tables: Sequence[Table], result: Mapping[str, Any]) -> None:
    """Write the tables as Markdown, or the result as JSON, whichever the name says."""
    check_report_file(path)
    if path.suffix == ".md":
        text = f"# {title}\n\n{markdown(tables)}"
    else:
        text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def spell_interval(interval: Interval | None, digits: int = 1) -> str | None:
    """An interval as tables show it."""
    return None if interval is None else f"{interval[0]:.{digits}f}–{interval[1]:.{digits}f}"


def intervals(values: NDArray[np.float64], seed: int = 0, resamples: int = RESAMPLES) -> list[Interval]:
    """The 95 % percentile interval of the mean of each column of `values` [N, M], N ≥ 1."""
    return percentiles(resampled_means(values, seed, resamples))


def percentiles(means: NDArray[np.float64]) -> list[Interval]:
    """The 95 % percentile interval of each column of resampled means [resamples, M]."""
    low, high = np.quantile(means, (0.5 - LEVEL / 2, 0.5 + LEVEL / 2), axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def share_interval(right: int, count: int, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The same for the share, in per cent, of `right` ones among `count` ≥ 1 queries.

    How many of them a resample draws is binomial, so that nothing has to be drawn query by query.
    """
    shares = np.random.default_rng(seed).binomial(count, right / count, size=resamples) * (100 / count)
    low, high = np.quantile(shares, (0.5 - LEVEL / 2, 0.5 + LEVEL / 2))
    return float(low), float(high)


def resampled_means(
    values: NDArray[np.float64], seed: int | Sequence[int] = 0, resamples: int = RESAMPLES
) -> NDArray[np.float64]:
    """The means of `values` [N, M] over queries drawn N times with replacement; shape [resamples, M]."""
    generator = np.random.default_rng(seed)
    count = len(values)
    means = np.empty((resamples, values.shape[1]))
    for resample in range(resamples):
        drawn = np.bincount(generator.integers(count, size=count, dtype=np.int32), minlength=count)
        means[resample] = drawn @ values
    return means / count


# Several models on the same queries, side by side, and whether they differ: the bootstrap over pairs.


def compare_reports(reports: Mapping[str, Report], seed: int = 0) -> Comparison:
    """Compare reports of one task on the same queries, by the names of their models; the first is the yardstick."""
    names = list(reports)
    metrics = {name: report.metrics for name, report in reports.items()}
    differences = {
        name: {
            metric: paired_difference(values, metrics[names[0]][metric], seed)
            for metric, values in metrics[name].items()
            if len(values)
        }
        for name in names[1:]
    }
    return Comparison(
        title=reports[names[0]].tables()[0].title,
        means={name: {metric: mean(values) for metric, values in each.items()} for name, each in metrics.items()},
        intervals={name: mean_intervals(each, seed) for name, each in metrics.items()},
        differences=differences,
        reports=dict(reports),
    )


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Means and intervals of each model, and each model's difference from the first: {model: {metric: …}}.

    `reports` are those compared, by model.
    """

    title: str
    means: dict[str, dict[str, float | None]]
    intervals: dict[str, dict[str, Interval]]
    differences: dict[str, dict[str, Difference]]
    reports: dict[str, Report]

    @property
    def first(self) -> str:
        """The model the others are compared with."""
        return next(iter(self.means))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        return {
            "against": self.first,
            "runs": {run: report.to_dict() for run, report in self.reports.items()},
            "differences": {
                run: {
                    metric: {
                        "difference": found.mean,
                        "interval": list(found.interval),
                        "p_value": found.p_value,
                        "significant": found.significant,
                    }
                    for metric, found in each.items()
                }
                for run, each in self.differences.items()
            },
        }

    def tables(self) -> list[Table]:
        """The models side by side, then what sets each apart from the first."""
        metrics = list(self.means[self.first])
        digits = self.reports[self.first].digits
        figures = tuple(
            (metric, run, means[metric], spell_interval(self.intervals[run].get(metric), digits))
            for metric in metrics
            for run, means in self.means.items()
        )
        apart = tuple(
            (
                metric,
                run,
                f"{found.mean:+.{digits}f}",
                f"{found.interval[0]:+.{digits}f} … {found.interval[1]:+.{digits}f}",
                f"{found.p_value:.3f}",
                "yes" if found.significant else "no",
            )
            for metric in metrics
            for run, each in self.differences.items()
            if (found := each.get(metric)) is not None
        )
        differs = ("metric", "run", "difference", "95 %", "p", "significant")
        return [
            Table(self.title, ("metric", "run", "mean", "95 %"), figures, digits),
            Table(f"Against {self.first} (paired bootstrap over queries)", differs, apart, digits),
        ]


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """How two systems differ on the same queries: the mean of a - b, its interval, and a two-sided p value."""

    mean: float
    interval: Interval
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.interval[0] <= 0 <= self.interval[1]


def paired_difference(
    a: NDArray[np.float64], b: NDArray[np.float64], seed: int = 0, resamples: int = RESAMPLES
) -> Difference:
    """Compare two systems query by query, values [N] each; drawing pairs keeps what is common to both out."""
    if a.shape != b.shape:
        raise ValueError("a paired comparison needs the same queries on both sides")
    gap = (a - b)[:, None]
    means = resampled_means(gap, seed, resamples)[:, 0]
    # One more than counted, on both sides of the fraction: the data itself is one of the possible draws.
    tail = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    low, high = np.quantile(means, (0.5 - LEVEL / 2, 0.5 + LEVEL / 2))
    return Difference(float(gap.mean()), (float(low), float(high)), min(1.0, 2 * (tail + 1) / (resamples + 1)))
