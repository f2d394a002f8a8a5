"""Triple classification (Socher et al. 2013): labelled triples, one threshold per relation, chosen on dev."""

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
from blockhole.graph.split import SplitGraph
from blockhole.models.contract import Model
from blockhole.paths.queries import PathQueries


@final
@dataclass(frozen=True, slots=True)
class TriplesReport:
    """Triple classification on one split; `thresholds` by relation name, `judged` and `label` positives first."""

    split: str
    total: Accuracy
    by_relation: dict[str, Accuracy]
    thresholds: dict[str, float]
    timing: Timing
    judged: NDArray[np.bool_] = field(repr=False)
    label: NDArray[np.bool_] = field(repr=False)

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """100 or 0 for each triple: over all, over positives, over negatives."""
        return accuracy_metrics(self.label, self.judged)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scores of single triples."""
        return {
            "task": "triples",
            "split": self.split,
            "queries": len(self.label),
            **self.total.to_dict(),
            "by_relation": {relation: part.to_dict() for relation, part in self.by_relation.items()},
            "thresholds": self.thresholds,
            **self.timing.to_dict(),
        }

    def tables(self) -> list[Table]:
        """All triples, then by relation."""
        return [
            accuracy_table(f"Triple classification on {self.split}, per cent", "triples", {"all": self.total}),
            accuracy_table("By relation", "relation", self.by_relation),
        ]


def best_threshold(score: NDArray[np.float64], label: NDArray[np.bool_]) -> float:
    """The t for which `score ≥ t` agrees with `label` most often; of several the one in the widest gap of scores.

    Among equally wide gaps the lowest. The ends, all true and all false, are taken only when they are strictly best.
    """
    order = np.argsort(score, kind="stable")
    score, label = score[order], label[order]
    # right[i]: how many are right when the first i are judged false.
    right = label.sum() + np.concatenate([[0], np.cumsum(np.where(label, -1, 1))])
    between = np.flatnonzero(np.diff(score) > 0) + 1
    places = np.concatenate([[0], between, [len(score)]])
    gaps = np.concatenate([[0.0], score[between] - score[between - 1], [0.0]])
    gaps[right[places] < right[places].max()] = -1.0
    place = int(places[np.argmax(gaps)])
    if place == 0:
        return float(score[0])
    if place == len(score):
        return float(np.nextafter(score[-1], np.inf))
    middle = score[place - 1] + (score[place] - score[place - 1]) / 2
    return float(middle if middle > score[place - 1] else score[place])


def evaluate_triples(
    model: Model, split: SplitGraph, *, device: torch.device | str = "cpu", seed: int = 0
) -> TriplesReport:
    """Choose thresholds on the labelled valid triples and classify the labelled test triples.

    A relation that valid lacks gets the threshold that is best over all valid triples.
    """
    for name, negatives in (("valid", split.valid_negatives), ("test", split.test_negatives)):
        if len(negatives) == 0:
            raise EvaluationError(
                f"the {name} facts have no lines labelled -1, which triple classification needs (WN11 and FB13 have "
                "them); give files with a fourth column of 1 and -1, or choose another task."
            )
    start = time.perf_counter()
    scorer = Scorer(model, split.graph(), device)
    dev, dev_label = _labelled(split.valid, split.valid_negatives)
    test, test_label = _labelled(split.test, split.test_negatives)
    dev_score, test_score = (scorer.score(PathQueries.from_triples(triples)) for triples in (dev, test))

    threshold = np.full(len(split.relations), best_threshold(dev_score, dev_label))
    for relation in np.unique(dev[:, 1]):
        part = dev[:, 1] == relation
        threshold[relation] = best_threshold(dev_score[part], dev_label[part])
    judged = test_score >= threshold[test[:, 1]]
    timing = Timing(len(test), time.perf_counter() - start)

    by_relation = {}
    for relation in np.unique(test[:, 1]):
        part = test[:, 1] == relation
        by_relation[split.relations[relation]] = measure_accuracy(test_label[part], judged[part], seed)
    thresholds = dict(zip(split.relations, threshold.tolist(), strict=True))
    total = measure_accuracy(test_label, judged, seed)
    return TriplesReport("test", total, by_relation, thresholds, timing, judged, test_label)


def _labelled(
    positives: NDArray[np.int32], negatives: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    return np.concatenate([positives, negatives]), np.arange(len(positives) + len(negatives)) < len(positives)
