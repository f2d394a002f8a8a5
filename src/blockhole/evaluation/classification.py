"""Path QA classification: does the path hold? φ ≥ 0 says yes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.errors import EvaluationError
from blockhole.evaluation.accuracy import Accuracy, accuracy_metrics, accuracy_table, measure_accuracy
from blockhole.evaluation.report import Table, Timing
from blockhole.evaluation.scorer import Scorer
from blockhole.evaluation.truth import Reading, Truth
from blockhole.models.contract import Model
from blockhole.paths.answers import holds
from blockhole.paths.queries import PathQueries


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
