"""Why a missing fact is likely: a path of known facts that leads from its source to its target.

A path of one hop or two tells something of r if it is often right: of the answers that it has from subjects of r, the
share that are objects of r too. It is counted over some subjects of r; a path is a reason if that share is not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.known import KnownFacts
from blockhole.errors import shortened
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.bodies import LONGEST, Body
from blockhole.queries.language import Hop, write_name
from blockhole.queries.paths import PathQueries

_LONGEST = 2
"""Hops of a path that is a reason."""
_MEASURED = 32
"""Paths of a relation that are measured: those that most of the pairs have."""
_SUBJECTS = 64
"""Subjects that a path is measured on."""
_JOINED = 4096
"""Neighbours of an entity that are looked at."""


class PathReason(NamedTuple):
    """A path as queries write it, the entity it leads over, and of its answers the share that is right where known."""

    path: str
    over: str | None
    right: float

    def __str__(self) -> str:
        over = "" if self.over is None else f" over {self.over}"
        return f"{self.path}{over}, which is {in_known_cases(self.right)}"


def in_known_cases(share: float) -> str:
    """How often a path is right, in words."""
    return f"right in {share:.0%} of known cases"


def path_reasons(
    known: KnownFacts, relation: int, source: NDArray[np.integer], target: NDArray[np.integer], *, facts: bool = False
) -> list[PathReason | None]:
    """For each pair the path that is right most often, and None where there is none: [N], [N] → N.

    Pairs that are `facts` of the relation speak of no path for themselves.
    """
    paths = [
        connecting_bodies(known.graph, s, o, _LONGEST) for s, o in zip(source.tolist(), target.tolist(), strict=True)
    ]
    for own in paths:
        own.pop((relation,), None)
    frequency = Counter(path for each in paths for path in each)
    usual = [path for path, _ in sorted(frequency.items(), key=lambda item: (-item[1], item[0]))[:_MEASURED]]
    measured = _measured(known, relation, usual)
    return [
        _best(known, each, measured.shares(s if facts else None))
        for s, each in zip(source.tolist(), paths, strict=True)
    ]


def _best(known: KnownFacts, paths: dict[Body, tuple[int, ...]], right: dict[Body, float]) -> PathReason | None:
    among = [path for path in paths if right.get(path, 0.0) > 0]
    if not among:
        return None
    path = min(among, key=lambda path: (-right[path], len(path), path))
    over = [shortened(write_name(known.graph.entities[entity])) for entity in paths[path]]
    return PathReason(written(path, known.graph), over[0] if over else None, right[path])


def written(body: Body, graph: KnowledgeGraph) -> str:
    """A path of relations as queries write it."""
    return "/".join(str(Hop(*graph.relation_name(relation))) for relation in body)


_BETWEEN = 256
"""Entities next to a source that are looked at for paths of three hops: those with the fewest edges."""


def connecting_bodies(
    graph: KnowledgeGraph, source: int, target: int, longest: int = LONGEST
) -> dict[Body, tuple[int, ...]]:
    """The paths of one to `longest` hops, at most three, from source to target that meet no entity twice.

    With each stand entities that it leads over.
    """
    found: dict[Body, tuple[int, ...]] = {}
    if source == target:
        return found
    hop, reached = _edges_of(graph, source)
    found |= {(each,): () for each in hop[reached == target].tolist()}
    keep = (reached != source) & (reached != target)
    hop, reached = hop[keep], reached[keep]
    ends = _Ends.of(graph, source, target)
    found |= {body: (entity,) for body, entity in ends.joined(hop, reached).items()}
    if longest < LONGEST:
        return found
    first: dict[int, list[int]] = {}
    for relation, entity in zip(hop.tolist(), reached.tolist(), strict=True):
        first.setdefault(entity, []).append(relation)
    size = np.diff(graph.adjacency.group_start)
    for entity in sorted(first, key=lambda each: (size[each], each))[:_BETWEEN]:
        middle, then = _edges_of(graph, entity)
        own = then != entity
        for (relation, end), other in ends.joined(middle[own], then[own]).items():
            for begin in first[entity]:
                found.setdefault((begin, relation, end), (entity, other))
    return found


class _Ends(NamedTuple):
    """The last hops of paths from a source to a target: from which entities, ascending, and over which relations."""

    entity: NDArray[np.int32]
    relation: NDArray[np.int32]
    relations: int

    @classmethod
    def of(cls, graph: KnowledgeGraph, source: int, target: int) -> _Ends:
        """Those that begin at neither."""
        back, before = _edges_of(graph, target)
        keep = (before != source) & (before != target)
        order = np.argsort(before[keep], kind="stable")
        twice = 2 * graph.num_relations
        return cls(before[keep][order], ((back[keep][order] + graph.num_relations) % twice).astype(np.int32), twice)

    def joined(self, hop: NDArray[np.int32], reached: NDArray[np.int32]) -> dict[Body, int]:
        """The two last hops of paths whose hop before the last is one of `hop`, and an entity between them."""
        first, last = np.searchsorted(self.entity, reached, "left"), np.searchsorted(self.entity, reached, "right")
        count = last - first
        there = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        here = np.repeat(np.arange(len(reached)), count)
        keys, place = np.unique(hop[here].astype(np.int64) * self.relations + self.relation[there], return_index=True)
        return {
            divmod(key, self.relations): entity
            for key, entity in zip(keys.tolist(), reached[here][place].tolist(), strict=True)
        }


def _edges_of(graph: KnowledgeGraph, entity: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The edges that leave an entity: their relations and targets; at most so many."""
    adjacency = graph.adjacency
    groups = slice(adjacency.group_start[entity], adjacency.group_start[entity + 1])
    starts = adjacency.edge_start[groups.start : groups.stop + 1]
    if len(starts) < 2:
        return adjacency.group_relation[:0], adjacency.target[:0]
    relation = np.repeat(adjacency.group_relation[groups], np.diff(starts))
    step = max(1, -(-len(relation) // _JOINED))
    return relation[::step], adjacency.target[starts[0] : starts[-1]][::step]


class _Measured(NamedTuple):
    """How many answers paths have from some subjects, and how many of them are right; shapes [P], [P]."""

    paths: Sequence[Body]
    subjects: frozenset[int]
    said: NDArray[np.float64]
    right: NDArray[np.float64]

    def shares(self, without: int | None) -> dict[Body, float]:
        """How often each path is right, where it is for one of the subjects `without` the answer that it has there."""
        own = 1 if without in self.subjects else 0
        share = np.maximum(self.right - own, 0) / np.maximum(self.said - own, 1)
        return dict(zip(self.paths, share.tolist(), strict=True))


def _measured(known: KnownFacts, relation: int, paths: Sequence[Body]) -> _Measured:
    """Every path measured over the same subjects."""
    if not paths:
        return _Measured((), frozenset(), np.zeros(0), np.zeros(0))
    graph = known.graph
    subjects = known.candidates(graph.inverse(relation)).astype(np.int64)
    if len(subjects) > _SUBJECTS:
        subjects = np.random.default_rng(relation).choice(subjects, _SUBJECTS, replace=False)
    source, target = known.edges.edges(relation)
    facts = source.astype(np.int64) * graph.num_entities + target  # ascending, as edges are
    queries = PathQueries.of_paths(np.tile(subjects, len(paths)).tolist(), [path for path in paths for _ in subjects])
    said, right = np.zeros(len(paths)), np.zeros(len(paths))
    for sets in known.answer_sets(queries, 4096):
        query = sets.first + sets.row
        asked = subjects[query % len(subjects)]
        wanted = asked * graph.num_entities + sets.entities
        place = np.minimum(np.searchsorted(facts, wanted), len(facts) - 1)
        own = sets.entities != asked  # that a path comes back tells nothing
        np.add.at(said, query[own] // len(subjects), 1)
        np.add.at(right, query[own] // len(subjects), facts[place[own]] == wanted[own])
    return _Measured(paths, frozenset(subjects.tolist()), said, right)
