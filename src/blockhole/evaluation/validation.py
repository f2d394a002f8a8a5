"""Quick figures for early stopping, over at most so many queries."""

from __future__ import annotations

from typing import final

import numpy as np
import torch

from blockhole.errors import EvaluationError
from blockhole.evaluation.classification import classified, reverse_paths, with_negatives
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.ranking_report import ranking_metrics
from blockhole.evaluation.scorer import Scorer
from blockhole.evaluation.truth import Truth
from blockhole.models.contract import Model
from blockhole.paths.queries import PathQueries


def subset(queries: PathQueries, limit: int, seed: int = 0) -> PathQueries:
    """At most `limit` of the queries, drawn without replacement from `seed`, in their order."""
    if len(queries) <= limit:
        return queries
    return queries.take(np.sort(np.random.default_rng(seed).choice(len(queries), limit, replace=False)))


def validation_ranking(
    model: Model, queries: PathQueries, truth: Truth, *, device: torch.device | str = "cpu"
) -> dict[str, float]:
    """MQ and P@10 in per cent (`mq`, `p_at_10`) over the queries that have negatives, a tie counting half."""
    ranks = rank(model, queries, truth, device=device)
    if not ranks.evaluated.any():
        raise EvaluationError("no validation query has a negative candidate; give more validation queries.")
    return {name: float(values.mean()) for name, values in ranking_metrics(ranks, "half").items()}


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
