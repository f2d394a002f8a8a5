"""Rules as predictions: completion by mined rules alone, by the model alone, and by both together.

A rule says of a query (s, r, ?) every entity that its body leads to from s, with the confidence it has on train facts;
of (?, r, o) those that the body read backwards leads to. Several rules that say the same count by the greatest
confidence, ties by the next greatest, as in AnyBURL (Meilicke et al. 2019); by noisy-or, as if independent; or by
noisy-or over clusters of rules that say nearly the same, as in SAFRAN (Ott et al. 2021). With the model,

    score(o) = log p(o | s, r) + w log(1 + ρ(o) / δ),

with ρ what rules say, and p(o | s, r) a softmax of the model's scores or, by probability, the odds of p(s, r, o). Which
of the three, w and δ are chosen on validation facts, for each relation and side: by the mean reciprocal rank of its own
queries together with that of all, which counts as so many more queries of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any, Literal, final, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.engine import Engine
from blockhole.answering.mining import Matrices, Mined, mine
from blockhole.answering.sweep import hop_rows
from blockhole.compiled import over_rows
from blockhole.data.dataset import DataSet
from blockhole.evaluation.completion import both_sides
from blockhole.evaluation.truth import Truth
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.queries.bodies import Bodies, Body

Floats = NDArray[np.float64]
Aggregation = Literal["maximum", "noisy_or", "non_redundant"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)

CANDIDATES = 200
"""Bodies of each length that the model proposes for a head: what a machine without a compiler counts in minutes."""
MOST = 200
"""Rules of a head that are applied: those with the greatest confidence."""
UNSEEN = 5
"""Pairs that a body is taken to say wrongly beyond those that were counted: few are no proof."""
LEAST = 0.005
"""The least confidence of a rule that is applied."""
ALIKE = 0.5
"""The share of what two rules say together from which they are of one cluster."""
_SUBJECTS = 100
"""Subjects of a head over which rules are compared with each other."""
_NEXT = 1e-3
"""How much less the next greatest confidence counts."""
_TOGETHER = 128
_SURE = 0.9999

WEIGHTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
SMALLEST = (0.001, 0.01, 0.1)
OWN = (10.0, 50.0, 200.0, 1e9)
"""Queries that the mean over all relations counts as, when the setting of one is chosen."""


@final
@dataclass(frozen=True, slots=True)
class _Applied:
    """The rules of one relation or inverse, those with the greatest confidence first; [K] each."""

    bodies: tuple[Body, ...]
    confidence: Floats
    cluster: NDArray[np.int64]


@final
class RuleScores:
    """What rules say of queries, over train facts."""

    def __init__(self, mined: Mined, graph: KnowledgeGraph, *, most: int = MOST) -> None:
        self._bodies = Bodies(graph)
        self.graph = graph
        self._rules: dict[int, _Applied] = {}
        for head in range(graph.num_relations):
            own = mined.take(np.flatnonzero(mined.head == head))
            confidence = own.support / (own.said + UNSEEN)
            order = np.lexsort((-own.support, -confidence))[:most]
            order = order[confidence[order] >= LEAST]
            bodies = tuple(own.body[i] for i in order.tolist())
            applied = _Applied(bodies, confidence[order], self._clusters(head, bodies))
            back = tuple(tuple(graph.inverse(hop) for hop in reversed(body)) for body in bodies)
            self._rules[head] = applied
            self._rules[graph.inverse(head)] = _Applied(back, applied.confidence, applied.cluster)

    @property
    def count(self) -> int:
        """How many rules there are."""
        return sum(len(self._rules[head].bodies) for head in range(self.graph.num_relations))

    def _clusters(self, head: int, bodies: tuple[Body, ...]) -> NDArray[np.int64]:
        """A number for each rule: that of the first, most confident one that says nearly the same of some subjects."""
        source = np.unique(self._bodies.edges.edges(head)[0])
        source = np.random.default_rng(head).permutation(source)[:_SUBJECTS]
        from scipy.sparse import csr_array

        said = [self._said(body, source) for body in bodies]
        start = np.cumsum([0, *map(len, said)])
        keys, place = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *said]), return_inverse=True)
        says = csr_array((np.ones(len(place), dtype=np.int64), place, start), shape=(len(bodies), max(len(keys), 1)))
        both = np.asarray((says @ says.T).toarray())
        either = np.diff(start)[:, None] + np.diff(start) - both
        alike = (both > 0) & (both >= ALIKE * either)
        cluster = np.arange(len(bodies))
        for later in range(len(bodies)):
            firsts = np.flatnonzero(alike[later, :later] & (cluster[:later] == np.arange(later)))
            cluster[later] = firsts[0] if len(firsts) else later
        return cluster

    def _said(self, body: Body, source: NDArray[np.integer]) -> NDArray[np.int64]:
        pairs = self._bodies.pairs(body, source)
        return np.repeat(np.arange(len(source)), np.diff(pairs.indptr)) * self.graph.num_entities + pairs.indices

    def of(self, relation: int, source: NDArray[np.integer]) -> dict[Aggregation, NDArray[np.float32]]:
        """What rules say of (s, r, o) for each source s and all o: [S] → [S, E] each."""
        entities, rules = self.graph.num_entities, self._rules[relation]
        said = [self._said(body, source) for body in rules.bodies]
        greatest, denied, apart = (np.zeros(len(source) * entities) for _ in range(3))
        times = np.zeros(len(source) * entities, dtype=np.int16)
        for place, own in zip(said, rules.confidence.tolist(), strict=True):
            greatest[place] += own * _NEXT ** times[place]
            times[place] = np.minimum(times[place] + 1, 3)
            denied[place] += np.log1p(-min(own, _SURE))
        times[:] = -1
        for i in np.argsort(rules.cluster, kind="stable").tolist():
            # Of a cluster the first, most confident one that says something counts, and no other.
            place = said[i][times[said[i]] != rules.cluster[i]]
            apart[place] += np.log1p(-min(float(rules.confidence[i]), _SURE))
            times[place] = rules.cluster[i]
        scores = {"maximum": greatest, "noisy_or": -np.expm1(denied), "non_redundant": -np.expm1(apart)}
        return {name: scores[name].astype(np.float32).reshape(len(source), entities) for name in AGGREGATIONS}


# Ranks under every setting, and the choice of one.


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """How rules count beside the model; absent: the model alone, or rules alone where `weight` is infinite."""

    aggregation: Aggregation | None
    weight: float = 0.0
    smallest: float = 1.0


ALONE = tuple(Setting(aggregation, np.inf) for aggregation in AGGREGATIONS)
TOGETHER = (
    Setting(None),
    *(Setting(*each) for each in product(AGGREGATIONS, WEIGHTS, SMALLEST)),
)
SETTINGS = (*ALONE, *TOGETHER)


@final
@dataclass(frozen=True, slots=True)
class Ranked:
    """The ranks of the true answers under every setting: relation [N], rank [N, settings]."""

    relation: NDArray[np.int64]
    rank: Floats


@torch.no_grad()
def rank_by_rules(
    rules: RuleScores, engine: Engine, model: Model, triples: NDArray[np.int32], truth: Truth, device: torch.device
) -> tuple[Ranked, Ranked]:
    """Rank the true answers of both sides of facts [T, 3] among all entities that are not known answers; ties half.

    Beside rules stand the model's scores in the first ranks, and probabilities in the second.
    """
    queries = both_sides(triples, truth.graph.num_relations)
    relation = queries.path[:, 0].astype(np.int64)
    order = np.argsort(relation, kind="stable")
    cuts = np.flatnonzero(np.diff(relation[order])) + 1
    parts = [
        part[first : first + _TOGETHER] for part in np.split(order, cuts) for first in range(0, len(part), _TOGETHER)
    ]

    def said(first: int, last: int) -> dict[Aggregation, NDArray[np.float32]]:
        (part,) = parts[first:last]
        return rules.of(int(relation[part[0]]), queries.source[part])

    model, probabilities = model.to(device), hop_rows(engine, device)
    rank = np.zeros((2, len(queries), len(SETTINGS)))
    for part, scores in zip(parts, over_rows(said, len(parts), 1), strict=True):
        own, source = int(relation[part[0]]), queries.source[part].astype(np.int64)
        ids = torch.from_numpy(source).to(device), torch.full((len(part), 1), own, device=device)
        logits = (model.embed_paths(*ids) @ model.candidates().T).float()
        odds = torch.from_numpy(probabilities(source, own)).to(device).logit()
        target = torch.from_numpy(queries.target[part].astype(np.int64)).to(device)[:, None]
        known = torch.zeros_like(logits, dtype=torch.bool)
        for row, each in enumerate(source.tolist()):
            answers = truth.graph.adjacency.neighbours(each, own)
            known[row, torch.from_numpy(answers.astype(np.int64)).to(device)] = True
        found = {name: torch.from_numpy(each).to(device) for name, each in scores.items()}
        for way, beside in enumerate((logits, odds)):
            for place, score in enumerate(_combined(beside, found)):
                true = score.gather(1, target)
                rivals = score.masked_fill_(known, -torch.inf)
                above = (rivals > true).sum(dim=1) + 0.5 * (rivals == true).sum(dim=1)
                rank[way, part, place] = 1 + above.double().cpu().numpy()
    return Ranked(relation, rank[0]), Ranked(relation, rank[1])


def _combined(beside: torch.Tensor, said: dict[Aggregation, torch.Tensor]) -> Iterator[torch.Tensor]:
    """The scores of all entities under every setting, one after the other: [S, E] each, which may be written over."""
    rising = {(name, least): torch.log1p(said[name] / least) for name, least in product(AGGREGATIONS, SMALLEST)}
    for setting in SETTINGS:
        if setting.aggregation is None:
            yield beside.clone()
        elif np.isinf(setting.weight):
            yield said[setting.aggregation].clone()
        else:
            yield torch.add(beside, rising[setting.aggregation, setting.smallest], alpha=setting.weight)


def choose(valid: Ranked, own: float) -> dict[int, int]:
    """The setting of each relation and side among those together, as its place in `SETTINGS`."""
    among = np.arange(len(ALONE), len(SETTINGS))
    gain = 1 / valid.rank[:, among]
    overall = gain.mean(axis=0)
    chosen = {-1: int(among[overall.argmax()])}
    for relation in np.unique(valid.relation).tolist():
        mine = gain[valid.relation == relation]
        chosen[relation] = int(among[((mine.sum(axis=0) + own * overall) / (len(mine) + own)).argmax()])
    return chosen


def ranks_chosen(ranked: Ranked, chosen: dict[int, int]) -> Floats:
    """The ranks of queries, each under the setting of its relation: [N]."""
    place = np.array([chosen.get(relation, chosen[-1]) for relation in ranked.relation.tolist()])
    ranks: Floats = ranked.rank[np.arange(len(place)), place]
    return ranks


def best_own(valid: Ranked) -> float:
    """How much all relations count beside one, by choosing on one half of the queries and measuring on the other."""
    half = np.arange(len(valid.relation)) % 2 == 0

    def gained(own: float) -> float:
        folds = []
        for fold in (half, ~half):
            chosen = choose(Ranked(valid.relation[fold], valid.rank[fold]), own)
            folds.append(1 / ranks_chosen(Ranked(valid.relation[~fold], valid.rank[~fold]), chosen))
        return float(np.concatenate(folds).mean())

    return max(OWN, key=gained)


def measure_rules(
    engine: Engine, model: Model, data: DataSet, measured: NDArray[np.int32], chosen_on: NDArray[np.int32],
    truths: tuple[Truth, Truth], device: torch.device, *, candidates: int = CANDIDATES, most: int = MOST,
) -> dict[str, Any]:  # fmt: skip
    """Figures of rules alone, of the model alone, and of both, whose settings are chosen on other facts.

    `truths` are those of the facts measured and of the facts `chosen_on`.
    """
    began, graph = perf_counter(), data.split.graph("train")

    def say(line: str) -> None:
        print(f"{data.name}: {line}, {perf_counter() - began:.0f} s", file=sys.stderr, flush=True)

    mined = mine(Matrices.of(engine.vectors), Bodies(graph), candidates=candidates)
    say(f"{len(mined.head):,} rules mined")
    rules = RuleScores(mined, graph, most=most)
    say(f"{rules.count:,} rules applied")
    valid = rank_by_rules(rules, engine, model, chosen_on, truths[1], device)
    say("validation ranked")
    found = rank_by_rules(rules, engine, model, measured, truths[0], device)
    by_score, by_probability = map(_chosen_figures, valid, found)
    alone = {f"rules_{setting.aggregation}": found[0].rank[:, i] for i, setting in enumerate(ALONE)}
    return {
        "rules": rules.count,
        "mined": len(mined.head),
        "queries": len(found[0].rank),
        **{name: completion_figures(ranks) for name, ranks in alone.items()},
        **by_score,
        "mrr": by_score["together"]["mrr"],
        "hits_at_10": by_score["together"]["hits_at_10"],
        "by_probability": by_probability,
    }


def _chosen_figures(valid: Ranked, found: Ranked) -> dict[str, Any]:
    """Figures without rules and with them, by the settings that rank validation facts best."""
    own = best_own(valid)
    chosen = choose(valid, own)
    best = SETTINGS[chosen[-1]]
    return {
        "model": completion_figures(found.rank[:, len(ALONE)]),
        "together": completion_figures(ranks_chosen(found, chosen)),
        "together_alike": completion_figures(found.rank[:, chosen[-1]]),
        "chosen": {
            "aggregation": best.aggregation, "weight": best.weight, "smallest": best.smallest, "own": own,
            "valid_mrr": float((1 / ranks_chosen(valid, chosen)).mean()),
            "valid_model_mrr": float((1 / valid.rank[:, len(ALONE)]).mean()),
        },
    }  # fmt: skip


def completion_figures(rank: Floats) -> dict[str, float]:
    """MRR and Hits@k of ranks [N]."""
    return {"mrr": float((1 / rank).mean()), **{f"hits_at_{k}": float((rank <= k).mean()) for k in (1, 3, 10)}}
