"""How many facts the easiest proof of an answer lacks.

A proof puts an entity at every variable of a query; its facts are the edges between them. Let c(e) be the least number
of facts not known among those of a proof of e, over a graph that holds them all:

    an entity e              0 at e, ∞ elsewhere
    q/r at o                 min over facts (h, r, o) of c(h) + 1 if the fact is not known, c(h) if it is
    q1 & q2 & !q3            c1 + c2, and ∞ where q3 holds: a negation needs no fact
    q1 | q2                  min(c1, c2)

It is the pass of the tropical semiring over the plan. A fact that stands at two places of a proof counts twice.
"""

from __future__ import annotations

from functools import reduce
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph, edges_by_relation
from blockhole.queries.plans import Both, Either, Follow, Plan, Start

Counts = NDArray[np.int16]

NO_PROOF = 2**13
"""What stands for ∞; sums of two fit int16, and are brought back to it."""


@final
class MissingFacts:
    """The facts of `truth` that `known` lacks, and how many of them answers need."""

    def __init__(self, known: KnowledgeGraph, truth: KnowledgeGraph) -> None:
        self._known = edges_by_relation(known)
        self._truth = edges_by_relation(truth)
        self._size = truth.num_entities
        self._edges: dict[int, tuple[NDArray[np.int32], NDArray[np.int32], Counts]] = {}

    def least(self, plan: Plan) -> Counts:
        """For every entity the least number of facts that a proof of it lacks, `NO_PROOF` where it has none: [E]."""
        found: list[Counts] = []
        for step in plan.steps:
            match step:
                case Start(slot):
                    own = np.full(self._size, NO_PROOF, dtype=np.int16)
                    own[plan.ids[slot]] = 0
                case Follow(of, slot):
                    own = self._followed(found[of], plan.ids[slot])
                case Both(keep, drop):
                    own = reduce(_added, (found[each] for each in keep))
                    for each in drop:
                        own = np.where(found[each] < NO_PROOF, np.int16(NO_PROOF), own)
                case Either(of):
                    own = reduce(np.minimum, (found[each] for each in of))
            found.append(own)
        return found[-1]

    def _followed(self, before: Counts, relation: int) -> Counts:
        source, target, lacks = self._edges_of(relation)
        own = np.full(self._size, NO_PROOF, dtype=np.int16)
        met = np.flatnonzero(before[source] < NO_PROOF)
        np.minimum.at(own, target[met], before[source[met]] + lacks[met])
        return own

    def _edges_of(self, relation: int) -> tuple[NDArray[np.int32], NDArray[np.int32], Counts]:
        """The edges of a relation, and of each 1 where it is not known: [F], [F], [F]."""
        if relation not in self._edges:
            source, target = self._truth.edges(relation)
            missing = missing_among((source, target), self._known.edges(relation), self._size)
            self._edges[relation] = source, target, missing.astype(np.int16)
        return self._edges[relation]


def missing_among(
    edges: tuple[NDArray[np.int32], NDArray[np.int32]], known: tuple[NDArray[np.int32], NDArray[np.int32]], size: int
) -> NDArray[np.bool_]:
    """Which of some edges (sources, targets) of one relation are not among the known ones: [F]."""
    pairs, held = (source.astype(np.int64) * size + target for source, target in (edges, known))
    return ~np.isin(pairs, held, assume_unique=True)


def _added(one: Counts, other: Counts) -> Counts:
    both: Counts = np.minimum(one + other, np.int16(NO_PROOF))
    return both
