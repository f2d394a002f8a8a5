"""What the bodies of rules say over the facts of a graph: r1/…/rk ⇒ r, k ≤ 3, counted against every head at once.

A body says (x, y) where a path r1/…/rk leads from x to y over facts and meets no entity twice: else r/s/s⁻¹ would say
r of every pair of r by way of the fact itself. Facts of an entity with itself count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.compiled import numba_installed, over_rows
from blockhole.graph.knowledge_graph import EdgesByRelation, KnowledgeGraph, edges_by_relation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from blockhole.queries.answer_loops import Edges

LONGEST = 3
"""Hops of a body, at most: that no entity is met twice is counted for so many."""
MOST_WORK = 2**24
"""Edges that a body is followed over; of one that has more, only a part of its sources is looked at."""
_TOGETHER = 64
"""Bodies that are counted, and relations whose followers are looked for, at a time."""

Body = tuple[int, ...]


@final
@dataclass(frozen=True, slots=True)
class Counts:
    """What bodies say, and how often that is right: B bodies, R heads.

    `share` [B] is the part of a body's sources that was looked at, and all numbers are of that part: `said` [B] the
    pairs that the body says; `right` [B, R] those that are facts of the head; `of_subjects` [B, R] those whose x has a
    fact of the head; `new_right` [B, R] those that are validation facts; `new` [B, R] those that are no facts, and
    whose x has a validation fact of the head.
    """

    bodies: tuple[Body, ...]
    share: NDArray[np.float64]
    said: NDArray[np.int64]
    right: NDArray[np.int64]
    of_subjects: NDArray[np.int64]
    new_right: NDArray[np.int64]
    new: NDArray[np.int64]


@final
class Bodies:
    """The bodies of rules over a `graph`; `valid` are facts that were held out, [T, 3], in the graph's ids.

    Of these, facts that the graph has too are left out: what is known, a rule does not predict.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        valid: NDArray[np.int32] | None = None,
        edges: EdgesByRelation | None = None,
        *,
        most_work: int = MOST_WORK,
    ) -> None:
        self.graph = graph
        facts = np.zeros((0, 3), dtype=np.int32) if valid is None else valid
        if len(facts):
            entities = graph.num_entities
            new = ~np.isin(_keys(facts, entities), _keys(graph.triples, entities))
            facts = facts[new & (facts[:, 0] != facts[:, 2])]
        self.valid = KnowledgeGraph(graph.entities, graph.relations, facts)
        self._edges = edges
        self._most_work = most_work

    @cached_property
    def edges(self) -> EdgesByRelation:
        """The edges of the graph by relation."""
        return edges_by_relation(self.graph) if self._edges is None else self._edges

    # Which bodies there are

    @cached_property
    def degrees(self) -> csr_array:
        """How many edges of each relation leave an entity: [E, 2R]."""
        from scipy.sparse import csr_array

        adjacency = self.graph.adjacency
        count = np.diff(adjacency.edge_start).astype(np.float64)  # of ways there can be more than integers hold
        shape = self.graph.num_entities, 2 * self.graph.num_relations
        return csr_array((count, adjacency.group_relation, adjacency.group_start), shape=shape)

    @cached_property
    def inverses(self) -> NDArray[np.int64]:
        """The inverse of each relation: [2R]."""
        return np.roll(np.arange(2 * self.graph.num_relations), self.graph.num_relations)

    @cached_property
    def shared(self) -> NDArray[np.bool_]:
        """Whether some entity has edges of both of two relations: [2R, 2R]."""
        leaves = self.degrees.astype(bool)
        of_relation = leaves.T.tocsr()
        shared = np.empty((len(self.inverses), len(self.inverses)), dtype=np.bool_)
        for first in range(0, len(shared), _TOGETHER):  # a sparse product takes up to nine bytes for each of these
            shared[first : first + _TOGETHER] = (of_relation[first : first + _TOGETHER] @ leaves).toarray()
        return shared

    @cached_property
    def _reach(self) -> csr_array:
        """How many edges of each relation reach an entity: [2R, E]."""
        return self.degrees[:, self.inverses].T.tocsr()

    def _ways(self) -> Iterator[csr_array]:
        """In how many ways a fact of one relation follows one of another, back to its beginning too: [some of 2R, 2R].

        Of many relations most may follow most, so these are never all in memory.
        """
        for first in range(0, len(self.inverses), _TOGETHER):
            yield self._reach[first : first + _TOGETHER] @ self.degrees

    def most_bodies(self, length: int) -> int:
        """How many bodies of a length there are at most, by which relations follow which."""
        reached = np.ones(len(self.inverses), dtype=np.int64)  # enough for the number up to a million relations
        for _ in range(length - 1):
            reached = np.concatenate([ways.astype(bool).astype(np.int64) @ reached for ways in self._ways()])
        return int(reached.sum())

    def with_ways(self, length: int, least: int) -> Iterator[NDArray[np.int32]]:
        """The bodies of a length that say something in at least so many ways: arrays [N, length]."""
        relations = 2 * self.graph.num_relations
        if length == 1:
            yield np.flatnonzero(np.asarray(self.degrees.sum(axis=0)) >= least).astype(np.int32)[:, None]
        elif length == 2:
            for first, some in zip(range(0, relations, _TOGETHER), self._ways(), strict=True):
                ways = some.tocoo()
                yield np.stack((first + ways.row, ways.col), axis=1)[ways.data >= least].astype(np.int32)
        else:
            for middle in range(relations):
                ways = (self._reach @ (self.matrix(middle) @ self.degrees)).tocoo()
                enough = ways.data >= least
                first, last = ways.row[enough], ways.col[enough]
                yield np.stack((first, np.full_like(first, middle), last), axis=1).astype(np.int32)

    # What they say

    def counted(
        self, bodies: Sequence[Body] | NDArray[np.int32], *, compiled: bool | None = None, threads: int | None = None
    ) -> Iterator[Counts]:
        """Count all bodies, some at a time, in order; by `compiled` loops where there is Numba, in so many threads.

        Those of one length may come as an array [B, length].
        """
        lengths = {bodies.shape[1]} if isinstance(bodies, np.ndarray) else set(map(len, bodies))
        if not lengths <= set(range(1, LONGEST + 1)):
            raise ValueError(f"bodies have 1 to {LONGEST} hops")
        count = self._by_loops if (numba_installed() if compiled is None else compiled) else self._by_products

        def part(first: int, last: int) -> Counts:
            some = bodies[first:last]
            return count(tuple(map(tuple, some.tolist() if isinstance(some, np.ndarray) else some)))

        return over_rows(part, len(bodies), _TOGETHER, threads) if len(bodies) else iter(())

    def _by_loops(self, bodies: tuple[Body, ...]) -> Counts:
        from blockhole.queries.answer_loops import count_bodies

        ids = np.zeros((len(bodies), LONGEST), dtype=np.int64)
        for row, body in enumerate(bodies):
            ids[row, : len(body)] = body
        share, said = np.zeros(len(bodies)), np.zeros(len(bodies), dtype=np.int64)
        facts = np.zeros((len(bodies), self.graph.num_relations, 4), dtype=np.int64)
        length = np.array([len(body) for body in bodies], dtype=np.int64)
        count_bodies(*self._flat, ids, length, self._most_work, share, said, facts)
        return Counts(bodies, share, said, *np.ascontiguousarray(facts.transpose(2, 0, 1)))

    @cached_property
    def _flat(self) -> tuple[Edges, Edges]:
        from blockhole.queries.exact import flat_edges

        return flat_edges(self.graph, self.edges), flat_edges(self.valid, edges_by_relation(self.valid))

    # The same by sparse products, where there is no compiler

    def _by_products(self, bodies: tuple[Body, ...]) -> Counts:
        entities, heads = self.graph.num_entities, self.graph.num_relations
        share, said = np.ones(len(bodies)), np.zeros(len(bodies), dtype=np.int64)
        facts = np.zeros((4, len(bodies), heads), dtype=np.int64)
        known, held_out = self._tables
        for row, body in enumerate(bodies):
            sources, share[row] = self._looked_at(body)
            pairs = self.pairs(body, sources)
            pairs.sort_indices()
            of_source = np.zeros(entities, dtype=np.int64)
            of_source[sources] = np.diff(pairs.indptr)
            # A pair's key ascends with its row and column, as sources do.
            key = np.repeat(sources, np.diff(pairs.indptr)) * np.int64(entities) + pairs.indices
            said[row] = len(key)
            right = known.facts[_contains(key, known.facts, entities, of_source > 0)]
            new = held_out.facts[_contains(key, held_out.facts, entities, of_source > 0)]
            asked = held_out.is_subject(right)
            facts[0, row] = np.bincount(right[:, 1], minlength=heads)
            facts[1, row] = np.asarray(known.subjects @ of_source)
            facts[2, row] = np.bincount(new[:, 1], minlength=heads)
            already = np.bincount(right[asked, 1], minlength=heads)
            facts[3, row] = np.asarray(held_out.subjects @ of_source) - already
        return Counts(bodies, share, said, *facts)

    def _looked_at(self, body: Body) -> tuple[NDArray[np.int64], float]:
        """The sources of a body, or as many as `most_work` allows, in the order of the compiled loops; and their share.

        Work is counted in ways here, in edges there.
        """
        sources = np.unique(self.edges.edges(body[0])[0]).astype(np.int64)
        ways: NDArray[np.float64] = np.ones(self.graph.num_entities)
        for relation in reversed(body):
            ways = np.asarray(self.matrix(relation) @ ways)
        step = max(int(len(sources) * 0.6180339887), 1)
        while len(sources) and gcd(step, len(sources)) > 1:
            step += 1
        order = np.arange(len(sources)) * step % max(len(sources), 1)
        enough = max(int(np.searchsorted(np.cumsum(ways[sources[order]]), self._most_work)) + 1, 1)
        return np.sort(sources[order[:enough]]), min(enough / max(len(sources), 1), 1.0)

    @cached_property
    def _tables(self) -> tuple[_Facts, _Facts]:
        return _Facts(self.graph), _Facts(self.valid)

    @cached_property
    def _matrices(self) -> dict[int, csr_array]:
        return {}

    def matrix(self, relation: int) -> csr_array:
        """The facts of a relation between two entities as ones: [E, E]."""
        if relation not in self._matrices:
            from scipy.sparse import csr_array

            source, target = self.edges.edges(relation)
            two = source != target
            ones, shape = np.ones(int(two.sum()), dtype=np.int32), (self.graph.num_entities,) * 2
            self._matrices[relation] = csr_array((ones, (source[two], target[two])), shape=shape)
        return self._matrices[relation]

    def pairs(self, body: Body, sources: NDArray[np.integer]) -> csr_array:
        """In how many ways a body says each pair of some `sources`: [S, E].

        With x → z → w → y over A, B, C, ways that come back to x or z are taken away: N = (AB - diag) C - A diag(BC) +
        A ∘ Bᵀ ∘ C, and then the diagonal.
        """
        first, *others = (self.matrix(relation) for relation in body)
        first = first[sources]
        ways = first
        for step in others:
            ways = _without_returns(ways, sources) @ step
        if len(body) == LONGEST:
            second, third = others
            round_trips = np.asarray(second.multiply(third.T).sum(axis=1))
            if round_trips.any():
                there_and_back = second.T.tocsr()[sources].multiply(third[sources])
                ways = ways - first.multiply(round_trips[None, :]) + first.multiply(there_and_back)
        ways = _without_returns(ways.tocsr(), sources)
        ways.eliminate_zeros()
        return ways


@final
class _Facts:
    """The facts of a graph between two entities, [T, 3], and which entities are subjects of each relation, [R, E]."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        from scipy.sparse import csr_array

        facts = np.unique(graph.triples[graph.triples[:, 0] != graph.triples[:, 2]], axis=0).astype(np.int64)
        self.facts = facts
        pairs = np.unique(facts[:, :2], axis=0)
        ones, shape = np.ones(len(pairs), dtype=np.int64), (graph.num_relations, graph.num_entities)
        self.subjects = csr_array((ones, (pairs[:, 1], pairs[:, 0])), shape=shape)
        self._keys = np.sort(pairs[:, 1] * graph.num_entities + pairs[:, 0])
        self._entities = graph.num_entities

    def is_subject(self, facts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of other facts have a subject that is one of their relation here too: [T, 3] → [T]."""
        return np.isin(facts[:, 1] * self._entities + facts[:, 0], self._keys)


def _keys(facts: NDArray[np.integer], entities: int) -> NDArray[np.int64]:
    """One number for each fact: [T, 3] → [T]."""
    source, relation, target = facts.astype(np.int64).T
    keys: NDArray[np.int64] = (relation * entities + source) * entities + target
    return keys


def _contains(
    key: NDArray[np.int64], facts: NDArray[np.int64], entities: int, subjects: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Which facts [T, 3] are among pairs, whose keys [P] ascend; only those of some `subjects` [E] can be."""
    among = np.flatnonzero(subjects[facts[:, 0]])
    wanted = facts[among, 0] * entities + facts[among, 2]
    place = np.searchsorted(key, wanted)
    return among[key[np.minimum(place, len(key) - 1)] == wanted] if len(key) else among[:0]


def _without_returns(ways: csr_array, begin: NDArray[np.integer]) -> csr_array:
    """The ways that do not end where they began; `begin` [S] says where each row did."""
    own = ways.copy()
    own.data[own.indices == np.repeat(begin, np.diff(own.indptr))] = 0
    return own
