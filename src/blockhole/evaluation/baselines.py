"""What every figure stands beside: chance, and counting how often a relation has an object in train.

Neither needs a model. Chance puts the true answer anywhere among its n negatives, so that its rank is 1 … n + 1 with
equal probability. Counting scores o by the number of train facts (·, r_k, o) with the last relation of the path; an
entity that r_k never has as object counts 0, and ties are many, so that half of them count as lost whatever the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from blockhole.evaluation.ranking import CandidateKind, RankMetric, Ranks, values_of
from blockhole.evaluation.truth import Truth
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.exact import answer_sets
from blockhole.queries.paths import PathQueries

_TOGETHER = 4096
"""Queries whose answers are in memory together."""

_Means = Callable[[NDArray[np.int64]], NDArray[np.float64]]

CHANCE: dict[str, _Means] = {
    "mq": lambda count: np.full(len(count), 50.0),
    "p_at_10": lambda count: 100 * np.minimum(10 / count, 1.0),
    "mr": lambda count: (count + 1) / 2,
    "mrr": lambda count: _harmonic(count) / count,
    "hits_at_1": lambda count: 1 / count,
    "hits_at_3": lambda count: np.minimum(3 / count, 1.0),
    "hits_at_10": lambda count: np.minimum(10 / count, 1.0),
}
"""The mean of each metric over the ranks 1 … n, n = |N(q)| + 1: [N] → [N]."""


def _harmonic(count: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 + 1/2 + … + 1/n: [N] → [N]."""
    sums: NDArray[np.float64] = np.cumsum(1 / np.arange(1, count.max(initial=1) + 1))
    return sums[count - 1]


@final
@dataclass(frozen=True, slots=True)
class Baselines:
    """The figures of chance and of counting on the queries of a report, by metric."""

    chance: dict[str, float]
    counting: dict[str, float]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """As JSON takes it."""
        return {"chance": self.chance, "counting": self.counting}

    def rows(self) -> list[tuple[str, dict[str, float]]]:
        """What tables show, the better one first."""
        return [("counting", self.counting), ("chance", self.chance)]

    def remark(self, metric: RankMetric, reached: float | None) -> str | None:
        """A sentence where a model does not beat them by its main metric, of which more is better."""
        for name, figures in self.rows():
            if reached is not None and reached <= figures[metric.name]:
                how = {
                    "counting": "how often a relation has an object in train",
                    "chance": "an order drawn at random",
                }[name]
                own, other = (f"{figure:.{metric.digits}f}" for figure in (reached, figures[metric.name]))
                return (
                    f"the model does not beat {name}, which is {how}: {metric.title} {own} against {other}; train it "
                    "longer, or with other settings."
                )
        return None


def baselines(
    queries: PathQueries,
    truth: Truth,
    train: KnowledgeGraph,
    ranks: Ranks,
    metrics: Sequence[RankMetric],
    candidates: CandidateKind,
) -> Baselines | None:
    """The baselines of queries whose `ranks` a model has; None if no query counts.

    Queries without negatives count among all entities, as they do in completion, and not among typed ones.
    """
    counted = ranks.evaluated | (candidates == "all")
    if not counted.any():
        return None
    some = ranks.negatives[counted] + 1
    chance = {metric.name: float(CHANCE[metric.name](some).mean()) for metric in metrics if metric.name in CHANCE}
    by_count = counting_ranks(queries, truth, train, candidates).take(counted)
    return Baselines(chance, means_of(metrics, by_count))


def means_of(metrics: Sequence[RankMetric], ranks: Ranks) -> dict[str, float]:
    """The mean of each metric, a tie counting half."""
    values: Mapping[str, NDArray[Any]] = values_of(metrics, ranks, "half")
    return {name: float(each.mean()) for name, each in values.items()}


def counting_ranks(queries: PathQueries, truth: Truth, train: KnowledgeGraph, candidates: CandidateKind) -> Ranks:
    """The ranks of the targets among themselves and N(q), by how often train has them as objects of r_k."""
    ranks = Ranks(*(np.zeros(len(queries), dtype=np.int64) for _ in range(3)))
    order = np.argsort(queries.last_relation, kind="stable")
    last = queries.last_relation[order]
    both = np.concatenate([train.triples, train.triples[:, ::-1] + np.array([0, train.num_relations, 0])])
    both = both[np.argsort(both[:, 1], kind="stable")]
    for relation in np.unique(last).tolist():
        rows = order[slice(*np.searchsorted(last, [relation, relation + 1]))]
        objects = both[slice(*np.searchsorted(both[:, 1], [relation, relation + 1])), 2]
        count = np.bincount(objects, minlength=truth.graph.num_entities)
        rivals = np.zeros(len(count), dtype=bool)
        rivals[slice(None) if candidates == "all" else truth.candidates(relation)] = True
        _rank_by(count, rivals, rows, queries.take(rows), truth.graph, ranks)
    return ranks


def _rank_by(
    count: NDArray[np.int64],
    rivals: NDArray[np.bool_],
    rows: NDArray[np.intp],
    queries: PathQueries,
    graph: KnowledgeGraph,
    ranks: Ranks,
) -> None:
    """Rank queries that end with one relation by a score of entities: those above or level, less the answers there."""
    ascending = np.sort(count[rivals])
    own = count[queries.target]
    above = len(ascending) - np.searchsorted(ascending, own, side="right")
    level = np.searchsorted(ascending, own, side="right") - np.searchsorted(ascending, own, side="left")
    left = np.full(len(queries), len(ascending), dtype=np.int64)
    listed = np.zeros(len(queries), dtype=bool)
    for sets in answer_sets(graph, queries, batch_size=_TOGETHER):
        among = rivals[sets.entities]
        query, entity = sets.first + sets.row[among], sets.entities[among]
        np.subtract.at(above, query, count[entity] > own[query])
        np.subtract.at(level, query, count[entity] == own[query])
        np.subtract.at(left, query, 1)
        listed[query[entity == queries.target[query]]] = True
    # A target counts as an answer, also where F* lacks it.
    unlisted = rivals[queries.target] & ~listed
    ranks.better[rows], ranks.tied[rows], ranks.negatives[rows] = above, level - unlisted, left - unlisted
