"""Quick figures for early stopping, over at most so many queries."""

from __future__ import annotations

import numpy as np
import torch

from blockhole.errors import EvaluationError
from blockhole.evaluation.classification import evaluate_classification
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.ranking_report import ranking_metrics
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


def validation_accuracy(
    model: Model, queries: PathQueries, truth: Truth, *, device: torch.device | str = "cpu"
) -> float:
    """Accuracy of path classification in per cent, positives and negatives together."""
    report = evaluate_classification(model, queries, truth, split="of validation", device=device)
    return float(report.metrics["accuracy"].mean())
