"""Path QA ranking: MQ and P@10 with intervals, over all queries, by path length and by last relation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.errors import EvaluationError
from blockhole.evaluation.classification import classified, reverse_paths, with_negatives
from blockhole.evaluation.ranking import Ranks, TieRule, TiesCountAsWins, rank
from blockhole.evaluation.report import Interval, Table, Timing, mean, mean_intervals, spell_interval
from blockhole.evaluation.scorer import Scorer
from blockhole.evaluation.truth import Reading, Truth
from blockhole.models.contract import Model
from blockhole.queries.paths import PathQueries

# Path QA ranking: MQ and P@10 with intervals, over all queries, by path length and by last relation.


TOP = 10
"""The 10 of P@10."""


@final
@dataclass(frozen=True, slots=True)
class RankingFigures:
    """The figures of one set of queries, in per cent; None where no query has a negative.

    `queries` are evaluated, `excluded` have no negatives and count in no figure but `p_at_10_with_excluded`, the
    reading under which they are hits. `tied` is the share of evaluated queries with a tie.
    """

    queries: int
    excluded: int
    tied: float | None
    mq: float | None
    p_at_10: float | None
    p_at_10_with_excluded: float
    intervals: dict[str, Interval]

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON takes it."""
        plain = {name: getattr(self, name) for name in ("queries", "excluded", "tied", "mq", "p_at_10")}
        bounds = {name: list(interval) for name, interval in self.intervals.items()}
        return {**plain, "p_at_10_with_excluded": self.p_at_10_with_excluded, "intervals": bounds}


def ranking_metrics(ranks: Ranks, ties: TieRule) -> dict[str, NDArray[np.float64]]:
    """Quantile and hit of each evaluated query, in per cent."""
    counted = ranks.take(ranks.evaluated)
    return {
        "mq": 100 * counted.quantile(ties),
        "p_at_10": 100 * counted.hit(TOP, ties).astype(np.float64),
    }


def ranking_figures(ranks: Ranks, ties: TieRule = "half", seed: int = 0) -> RankingFigures:
    """Summarise the ranks of one set of queries, at least one."""
    metrics = ranking_metrics(ranks, ties)
    counted = ranks.evaluated
    tied = mean(ranks.tied[counted] > 0)
    return RankingFigures(
        queries=int(counted.sum()),
        excluded=int((~counted).sum()),
        tied=None if tied is None else 100 * tied,
        mq=mean(metrics["mq"]),
        p_at_10=mean(metrics["p_at_10"]),
        p_at_10_with_excluded=float(100 * (ranks.hit(TOP, ties) | ~counted).mean()),
        intervals=mean_intervals(metrics, seed),
    )


@final
@dataclass(frozen=True, slots=True)
class RankingReport:
    """Ranking on one split; `ranks` are those of its queries, in order."""

    split: str
    truth: Reading
    ties: TieRule
    total: RankingFigures
    by_length: dict[int, RankingFigures]
    by_relation: dict[str, RankingFigures]
    timing: Timing
    ranks: Ranks = field(repr=False)

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """Quantile and hit of each evaluated query, in per cent."""
        return ranking_metrics(self.ranks, self.ties)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the ranks of single queries."""
        return {
            "task": "ranking",
            "split": self.split,
            "truth": self.truth,
            "ties": self.ties,
            **self.total.to_dict(),
            "by_length": {str(length): part.to_dict() for length, part in self.by_length.items()},
            "by_relation": {relation: part.to_dict() for relation, part in self.by_relation.items()},
            **self.timing.to_dict(),
        }

    def tables(self) -> list[Table]:
        """All queries with what was measured, then by length, then by last relation."""
        total = _table(f"Ranking on {self.split} (F* = {self.truth}, ties {self.ties}), per cent", {"all": self.total})
        others = ("excluded as hits", None, None, self.total.p_at_10_with_excluded, *[None] * 4)
        relations = tuple(
            (name, part.mq, part.p_at_10, part.queries, part.excluded, part.tied)
            for name, part in self.by_relation.items()
        )
        return [
            replace(total, rows=(*total.rows, others)),
            _table("By path length", {str(length): part for length, part in self.by_length.items()}),
            Table("By last relation", ("relation", "MQ", "P@10", "evaluated", "excluded", "tied"), relations),
        ]


def _table(title: str, parts: dict[str, RankingFigures]) -> Table:
    header = ("queries", "MQ", "95 %", "P@10", "95 %", "evaluated", "excluded", "tied")
    rows = tuple(
        (
            name,
            part.mq,
            spell_interval(part.intervals.get("mq")),
            part.p_at_10,
            spell_interval(part.intervals.get("p_at_10")),
            part.queries,
            part.excluded,
            part.tied,
        )
        for name, part in parts.items()
    )
    return Table(title, header, rows)


def evaluate_ranking(
    model: Model,
    queries: PathQueries,
    truth: Truth,
    *,
    split: str = "all",
    ties: TieRule = "half",
    memory: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> RankingReport:
    """Rank every query and report; `split` names the queries, `seed` draws the intervals."""
    start = time.perf_counter()
    ranks = rank(model, queries, truth, memory=memory, device=device, progress=progress)
    timing = Timing(len(queries), time.perf_counter() - start)
    if ties == "paper" and ranks.tied[ranks.evaluated].any():
        _warn_of_ties(ranks)
    graph, last = truth.graph, queries.last_relation
    by_relation = {}
    for relation in np.unique(last).tolist():
        name, inverse = graph.relation_name(relation)
        by_relation[f"^{name}" if inverse else name] = ranking_figures(ranks.take(last == relation), ties, seed)
    by_length = {
        length: ranking_figures(ranks.take(queries.length == length), ties, seed) for length in queries.lengths()
    }
    return RankingReport(
        split, truth.reading, ties, ranking_figures(ranks, ties, seed), by_length, by_relation, timing, ranks
    )


def _warn_of_ties(ranks: Ranks) -> None:
    counted = ranks.take(ranks.evaluated)
    paper, half = 100 * counted.quantile("paper").mean(), 100 * counted.quantile("half").mean()
    warnings.warn(
        f"the paper's rule counts ties as wins, and {100 * (counted.tied > 0).mean():.1f} % of the queries have some: "
        f"MQ {paper:.1f}, against {half:.1f} when a tie counts half.",
        TiesCountAsWins,
        stacklevel=3,
    )


# Quick figures for early stopping, over at most so many queries.


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
