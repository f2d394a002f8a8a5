"""Yes or no: path QA classification, the order of relations (Table 4 of the paper), and how reliable a probability is.

A path holds if φ ≥ 0. The accuracy is over what is true, over what is false, and over both together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.errors import EvaluationError
from blockhole.evaluation.report import Interval, Table, Timing, mean, share_interval, spell_interval
from blockhole.evaluation.scorer import Scorer
from blockhole.evaluation.truth import Reading, Truth
from blockhole.models.contract import Model
from blockhole.queries.exact import holds
from blockhole.queries.paths import PathQueries


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


@final
@dataclass(frozen=True, slots=True)
class ClassificationReport:
    """Path QA classification on one split; `score` and `label` of each query, positives first."""

    split: str
    truth: Reading
    total: Accuracy
    by_length: dict[int, Accuracy]
    timing: Timing
    score: NDArray[np.float64] = field(repr=False)
    label: NDArray[np.bool_] = field(repr=False)
    digits: ClassVar[int] = 1
    remark: ClassVar[str | None] = None

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """100 or 0 for each query: over all, over positives, over negatives."""
        return accuracy_metrics(self.label, self.score >= 0)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scores of single queries."""
        return {
            "task": "classification",
            "split": self.split,
            "truth": self.truth,
            "queries": len(self.label),
            **self.total.to_dict(),
            "by_length": {str(length): part.to_dict() for length, part in self.by_length.items()},
            **self.timing.to_dict(),
        }

    def tables(self) -> list[Table]:
        """All queries, then by length."""
        title = f"Path classification on {self.split} (F* = {self.truth}), per cent"
        by_length = {str(length): part for length, part in self.by_length.items()}
        return [
            accuracy_table(title, "queries", {"all": self.total}),
            accuracy_table("By path length", "length", by_length),
        ]


def reverse_paths(queries: PathQueries) -> PathQueries:
    """(s, r1/…/rk, o) → (s, rk/…/r1, o): the order reversed, the relations as they are."""
    hop = np.arange(queries.path.shape[1])
    inside = hop < queries.length[:, None]
    mirrored = np.where(inside, queries.length[:, None] - 1 - hop, hop)
    return PathQueries(queries.source, np.take_along_axis(queries.path, mirrored, 1), queries.length, queries.target)


def evaluate_classification(
    model: Model,
    queries: PathQueries,
    truth: Truth,
    *,
    split: str = "all",
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> ClassificationReport:
    """Classify the queries with two hops or more, and their reversed paths where those do not hold in G(F*)."""
    positive = classified(queries, split)
    return classify(model, positive, reverse_paths(positive), truth, split=split, device=device, seed=seed)


def classified(queries: PathQueries, split: str) -> PathQueries:
    """The queries with two hops or more, whose order of relations can be reversed."""
    positive = queries.take(queries.length >= 2)
    if len(positive) == 0:
        raise EvaluationError(f"the split {split} has no path of two or more relations; choose deduction or induction.")
    return positive


def with_negatives(
    positive: PathQueries, altered: PathQueries, truth: Truth, device: torch.device | str = "cpu"
) -> tuple[PathQueries, NDArray[np.bool_]]:
    """The positives and, after them, the altered queries that do not hold in G(F*); and which are positives, [N]."""
    negative = altered.take(~holds(truth.graph, altered, device))
    judged = PathQueries.concatenate([positive, negative])
    return judged, np.arange(len(judged)) < len(positive)


def classify(
    model: Model,
    positive: PathQueries,
    altered: PathQueries,
    truth: Truth,
    *,
    split: str,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> ClassificationReport:
    """Classify positives, and of their `altered` counterparts those that do not hold in G(F*)."""
    start = time.perf_counter()
    judged, label = with_negatives(positive, altered, truth, device)
    score = Scorer(model, truth.graph, device).score(judged)
    timing = Timing(len(judged), time.perf_counter() - start)
    by_length = {}
    for length in judged.lengths():
        part = judged.length == length
        by_length[length] = measure_accuracy(label[part], score[part] >= 0, seed)
    total = measure_accuracy(label, score >= 0, seed)
    return ClassificationReport(split, truth.reading, total, by_length, timing, score, label)


def swap_adjacent(queries: PathQueries, first: int, second: int) -> tuple[PathQueries, PathQueries]:
    """The queries whose path holds `first`/`second`, and the same with the first such pair the other way round."""
    here, following = queries.path[:, :-1], queries.path[:, 1:]
    inside = np.arange(1, queries.path.shape[1]) < queries.length[:, None]
    pair = (here == first) & (following == second) & inside
    chosen = np.flatnonzero(pair.any(axis=1))
    position = pair[chosen].argmax(axis=1)
    found = queries.take(chosen)
    path = found.path.copy()
    row = np.arange(len(chosen))
    path[row, position], path[row, position + 1] = second, first
    return found, PathQueries(found.source, path, found.length, found.target)


def evaluate_order(
    model: Model,
    queries: PathQueries,
    truth: Truth,
    first: int,
    second: int,
    *,
    split: str = "all",
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> ClassificationReport:
    """Classify the queries that hold in G(F*) along …/first/second/…, and their swapped paths where those do not."""
    found, swapped = swap_adjacent(queries, first, second)
    true = holds(truth.graph, found, device)
    pair = "/".join(truth.relation_text(relation) for relation in (first, second))
    if not true.any():
        raise EvaluationError(f"no query of the split {split} has {pair} in its path; choose another pair or split.")
    title = f"{split} with {pair}"
    return classify(model, found.take(true), swapped.take(true), truth, split=title, device=device, seed=seed)


@final
class ValidationAccuracy:
    """Accuracy of path classification in per cent, positives and negatives together.

    Which reversed paths are negatives is found once, on `device`, for all models that are measured.
    """

    def __init__(self, queries: PathQueries, truth: Truth, device: torch.device | str = "cpu") -> None:
        positive = classified(queries, "of validation")
        self._truth = truth
        self._judged, self._label = with_negatives(positive, reverse_paths(positive), truth, device)

    def __call__(self, model: Model, device: torch.device | str = "cpu") -> float:
        """The accuracy of `model`: φ ≥ 0 says yes."""
        score = Scorer(model, self._truth.graph, device).score(self._judged)
        return 100 * float(np.mean((score >= 0) == self._label))


_BINS = 10
_PARTS = 15


class Reliability(NamedTuple):
    """How probabilities compare with what is true, in bins of probability; empty bins are left out.

    Shapes [bins]: `said` mean probability, `true` share that is true, `size` how many there are.
    """

    said: NDArray[np.float64]
    true: NDArray[np.float64]
    size: NDArray[np.int64]

    @property
    def error(self) -> float:
        """The expected calibration error Σ_b |said_b - true_b| · size_b / N."""
        return float((np.abs(self.said - self.true) * self.size).sum() / max(self.size.sum(), 1))


def reliability(
    probability: NDArray[np.float64], label: NDArray[np.bool_], bins: Literal["width", "mass"] = "width"
) -> Reliability:
    """Compare probabilities with labels [N], in ten bins of one width or fifteen that hold as many each."""
    if bins == "mass":
        order = np.argsort(probability, kind="stable")
        parts = [part for part in np.array_split(order, _PARTS) if len(part)]
        said, true = (np.array([values[part].mean() for part in parts]) for values in (probability, label))
        return Reliability(said, true, np.array([len(part) for part in parts], dtype=np.int64))
    which = np.minimum((probability * _BINS).astype(np.int64), _BINS - 1)
    size = np.bincount(which, minlength=_BINS)
    said, true = (np.bincount(which, values, _BINS) for values in (probability, label.astype(np.float64)))
    filled = size > 0
    return Reliability(said[filled] / size[filled], true[filled] / size[filled], size[filled])


class Measured(NamedTuple):
    """Probabilities beside what is true, in fifteen bins that hold as many each, and their Brier score."""

    bins: Reliability
    brier: float

    @classmethod
    def of(cls, probability: NDArray[np.float64], label: NDArray[np.bool_]) -> Measured:
        """Measure probabilities by labels: [N], [N]."""
        return cls(reliability(probability, label, "mass"), float(np.mean((probability - label) ** 2)))

    def to_dict(self) -> dict[str, Any]:
        """The expected calibration error, the Brier score and the bins, as JSON takes them."""
        bins = zip(*(column.tolist() for column in self.bins), strict=True)
        return {
            "ece": self.bins.error,
            "brier": self.brier,
            "bins": [{"probability": said, "true": true, "pairs": size} for said, true, size in bins],
        }
