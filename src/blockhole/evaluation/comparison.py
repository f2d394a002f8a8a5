"""Several models on the same queries, side by side, and whether they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from blockhole.evaluation.bootstrap import Difference, Interval, paired_difference
from blockhole.evaluation.report import Report, Table, mean, mean_intervals, spell_interval


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Means and intervals of each model, and each model's difference from the first: {model: {metric: …}}."""

    title: str
    means: dict[str, dict[str, float | None]]
    intervals: dict[str, dict[str, Interval]]
    differences: dict[str, dict[str, Difference]]
    details: dict[str, dict[str, Any]]

    @property
    def first(self) -> str:
        """The model the others are compared with."""
        return next(iter(self.means))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        return {
            "against": self.first,
            "runs": self.details,
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
        digits = 4 if "mrr" in metrics else 1
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


def compare(reports: Mapping[str, Report], seed: int = 0) -> Comparison:
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
        details={name: report.to_dict() for name, report in reports.items()},
    )
