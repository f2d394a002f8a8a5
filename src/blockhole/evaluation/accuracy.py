"""Accuracy of yes or no: on what is true, on what is false, and on both together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from blockhole.evaluation.bootstrap import Interval, share_interval
from blockhole.evaluation.report import Table, mean, spell_interval


@final
@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of right answers, in per cent; None where there is nothing to judge.

    `accuracy` is over positives and negatives together, each counting once.
    """

    positives: int
    negatives: int
    accuracy: float | None
    accuracy_positive: float | None
    accuracy_negative: float | None
    intervals: dict[str, Interval]

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON takes it."""
        names = ("positives", "negatives", "accuracy", "accuracy_positive", "accuracy_negative")
        bounds = {name: list(interval) for name, interval in self.intervals.items()}
        return {**{name: getattr(self, name) for name in names}, "intervals": bounds}


def accuracy_metrics(label: NDArray[np.bool_], judged: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """100 for each right answer, 0 for each wrong one: over all, over the true, over the false; [N] each at most."""
    right = 100.0 * (label == judged)
    return {"accuracy": right, "accuracy_positive": right[label], "accuracy_negative": right[~label]}


def measure_accuracy(label: NDArray[np.bool_], judged: NDArray[np.bool_], seed: int = 0) -> Accuracy:
    """Compare what was `judged` true [N] with what is: `label` [N]."""
    metrics = accuracy_metrics(label, judged)
    means = {name: mean(values) for name, values in metrics.items()}
    bounds = {
        name: share_interval(int(np.count_nonzero(values)), len(values), seed)
        for name, values in metrics.items()
        if len(values)
    }
    return Accuracy(int(label.sum()), int((~label).sum()), **means, intervals=bounds)


def accuracy_table(title: str, first: str, parts: dict[str, Accuracy]) -> Table:
    """A row for each part."""
    header = (first, "accuracy", "95 %", "on positives", "on negatives", "positives", "negatives")
    rows = tuple(
        (
            name,
            part.accuracy,
            spell_interval(part.intervals.get("accuracy")),
            part.accuracy_positive,
            part.accuracy_negative,
            part.positives,
            part.negatives,
        )
        for name, part in parts.items()
    )
    return Table(title, header, rows)
