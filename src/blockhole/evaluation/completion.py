"""Knowledge graph completion: filtered MR, MRR and Hits@k of both sides of every triple."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.evaluation.baselines import Baselines, baselines
from blockhole.evaluation.ranking import COMPLETION_METRICS, Ranks, TieRule, rank, values_of
from blockhole.evaluation.report import Interval, Table, Timing, mean_intervals, spell_interval
from blockhole.evaluation.truth import Reading, Truth
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.queries.exact import answer_sets
from blockhole.queries.paths import PathQueries

Side = Literal["head", "tail"]
By = Literal["probability", "score"]
"""What orders entities: how probable they are as answers, or the model's scores."""


@final
@dataclass(frozen=True, slots=True)
class CompletionReport:
    """Completion of one split, as fractions of 1; `ranks` hold first the tail, then the head queries.

    Entities are ranked against all others, those that F* knows as answers removed, and a tie counts half: the
    "filtered, realistic" ranks of PyKEEN. Where probabilities order them, `score_ranks` are those by scores.
    """

    split: str
    truth: Reading
    ties: TieRule
    intervals: dict[str, Interval]
    timing: Timing
    ranks: Ranks = field(repr=False)
    baselines: Baselines | None = None
    score_ranks: Ranks | None = field(default=None, repr=False)
    digits: ClassVar[int] = 4

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """Rank, reciprocal rank and hits of each query."""
        return values_of(COMPLETION_METRICS, self.ranks, self.ties)

    @property
    def by(self) -> By:
        """What orders entities."""
        return "score" if self.score_ranks is None else "probability"

    @property
    def remark(self) -> str | None:
        """That the model does not beat a baseline, by MRR, where it does not."""
        (metric,) = (metric for metric in COMPLETION_METRICS if metric.name == "mrr")
        return self.baselines and self.baselines.remark(metric, float(self.metrics["mrr"].mean()))

    def side(self, side: Side) -> Ranks:
        """The ranks of one side, in the order of the triples."""
        half = len(self.ranks) // 2
        return self.ranks.take(np.arange(half) + (half if side == "head" else 0))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the ranks of single queries."""
        return {
            "task": "completion",
            "split": self.split,
            "truth": self.truth,
            "ties": self.ties,
            "by": self.by,
            "queries": len(self.ranks),
            "tied": float(100 * (self.ranks.tied > 0).mean()),
            **_means(self.ranks, self.ties),
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "sides": {side: _means(self.side(side), self.ties) for side in ("tail", "head")},
            "by_score": None if self.score_ranks is None else _means(self.score_ranks, self.ties),
            "baselines": self.baselines and self.baselines.to_dict(),
            "remark": self.remark,
            **self.timing.to_dict(),
        }

    def tables(self) -> list[Table]:
        """One table: both sides together with intervals, then each, by scores, and baselines."""
        figures = {"both": _means(self.ranks, self.ties)}
        figures |= {side: _means(self.side(side), self.ties) for side in ("tail", "head")}
        if self.score_ranks is not None:
            figures["both, by score"] = _means(self.score_ranks, self.ties)
        figures |= dict(self.baselines.rows() if self.baselines else ())
        digits = {metric.name: metric.digits for metric in COMPLETION_METRICS}
        rows: list[tuple[str | None, ...]] = [
            (name, *(f"{own[each]:.{digits[each]}f}" for each in digits)) for name, own in figures.items()
        ]
        rows.insert(1, ("95 %", *(spell_interval(self.intervals[each], digits[each]) for each in digits)))
        header = ("side", *(metric.title for metric in COMPLETION_METRICS))
        return [Table(f"Completion of {self.split} by {self.by}, filtered, ties {self.ties}", header, tuple(rows))]


def _means(ranks: Ranks, ties: TieRule) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in values_of(COMPLETION_METRICS, ranks, ties).items()}


def both_sides(triples: NDArray[np.int32], num_relations: int) -> PathQueries:
    """The tail queries s/r → o of `triples` [T, 3], then the head queries o/r⁻¹ → s."""
    return PathQueries.from_triples(np.concatenate([triples, inverted(triples, num_relations)]))


def inverted(triples: NDArray[np.int32], num_relations: int) -> NDArray[np.int32]:
    """(s, r, o) as (o, r⁻¹, s), r⁻¹ being r + R: [T, 3] → [T, 3]."""
    return triples[:, [2, 1, 0]] + np.array([0, num_relations, 0], dtype=np.int32)


_SHARPNESS = 2.0 ** np.arange(-3, 5.5, 0.5)
"""β that are tried: penalties and losses leave scores that are too flat or too steep by a factor."""
_FITTED_ON = 512
"""Queries that β is fitted on: it is one number."""


_LEAST = -1e4
"""The logarithm of the share of a target whose score is not a number."""


@torch.no_grad()
def log_likelihood(model: Model, queries: PathQueries, graph: KnowledgeGraph) -> NDArray[np.float64]:
    """log p(o | s, r) of each query's target, over it and all entities that do not answer the query in `graph`: [N].

        p(o | s, r) = exp(β φ(s, r, o)) / Σ_c exp(β φ(s, r, c)),  with the β that gives the highest mean.

    Where facts are missing, as they are, some rivals are right, and which of the right ones comes first is chance: it
    moves ranks, while a likelihood asks only for equal shares.
    """
    few = queries.take(np.arange(0, len(queries), -(-len(queries) // _FITTED_ON)))
    means = _log_shares(model, few, graph, _SHARPNESS).mean(axis=1)
    (shares,) = _log_shares(model, queries, graph, _SHARPNESS[[means.argmax()]])
    return np.asarray(shares)


def _log_shares(
    model: Model, queries: PathQueries, graph: KnowledgeGraph, sharpness: NDArray[np.float64]
) -> NDArray[np.float64]:
    """log p(o | s, r) of each query under each β: sharpness [B] → [B, N]; what is not finite is worth nothing."""
    shares = np.empty((len(sharpness), len(queries)))
    candidates, device = model.candidates(), model.entity.device
    for part in answer_sets(graph, queries):
        place = slice(part.first, part.first + len(part))
        asked = queries.take(place)
        ids = (torch.from_numpy(each.astype(np.int64)).to(device) for each in (asked.source, asked.path, asked.length))
        scores = model.embed_query(*ids) @ candidates.T
        target = torch.from_numpy(asked.target.astype(np.int64)).to(device)[:, None]
        own = scores.gather(1, target)
        scores[part.row, part.entities] = -torch.inf
        scores.scatter_(1, target, -torch.inf)
        for row, beta in enumerate(sharpness.tolist()):
            others = (beta * scores).logsumexp(dim=1)
            share = beta * own[:, 0] - torch.logaddexp(beta * own[:, 0], others)
            shares[row, place] = share.nan_to_num(nan=_LEAST, neginf=_LEAST).cpu().numpy()
    return shares


def evaluate_completion(
    model: Model,
    triples: NDArray[np.int32],
    truth: Truth,
    *,
    split: str = "test",
    ties: TieRule = "half",
    memory: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    train: KnowledgeGraph | None = None,
    by_probability: Callable[[PathQueries], Ranks] | None = None,
    progress: Callable[[int], None] | None = None,
) -> CompletionReport:
    """Complete both sides of every triple [T, 3]; `truth` says which other answers are known, `split` names them.

    With the `train` graph the report has baselines; with what ranks `by_probability`, its figures are of these ranks,
    and those by the model's scores stand beside them.
    """
    queries = both_sides(triples, truth.graph.num_relations)
    start = time.perf_counter()
    by_score = rank(model, queries, truth, candidates="all", memory=memory, device=device, progress=progress)
    ranks = by_score if by_probability is None else by_probability(queries)
    timing = Timing(len(queries), time.perf_counter() - start)
    bounds = mean_intervals(values_of(COMPLETION_METRICS, ranks, ties), seed)
    beside = None if train is None else baselines(queries, truth, train, ranks, COMPLETION_METRICS, "all")
    also = None if by_probability is None else by_score
    return CompletionReport(split, truth.reading, ties, bounds, timing, ranks, beside, also)
