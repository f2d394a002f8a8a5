"""What the graph itself knows: reachable entities, facts about one entity, and which relations may follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import EdgesByRelation, KnowledgeGraph, edges_by_relation
from blockhole.queries.exact import AnswerSets, TypedCandidates, answer_sets, answers, targets, typed_candidates
from blockhole.queries.language import Hop, encode_entity, write_name
from blockhole.queries.paths import PathQueries

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_FEW = 64
"""Queries whose answers are found without compiled loops."""


@final
class KnownFacts:
    """The facts of a graph, arranged for one query after the other; relation ids in the space of 2R."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph

    @cached_property
    def edges(self) -> EdgesByRelation:
        """The edges by relation."""
        return edges_by_relation(self.graph)

    def candidates(self, relation: int) -> NDArray[np.int32]:
        """T(r): the entities that the relation takes as object, ascending."""
        return self._typed[relation]

    @property
    def candidate_counts(self) -> NDArray[np.int64]:
        """|T(r)| of every relation: [2R]."""
        return np.diff(self._typed.start)

    def targets(self, sources: NDArray[np.integer], relation: int) -> NDArray[np.int32]:
        """Every entity that an edge of `relation` leads to from one of `sources`, ascending and distinct."""
        return targets(self.edges, self.graph.num_entities, sources, relation)

    def answers(self, source: int, path: Sequence[int]) -> NDArray[np.int32]:
        """⟦s/r1/…/rk⟧, ascending."""
        return answers(self.graph, source, path, self.edges)

    def answer_sets(self, queries: PathQueries, batch_size: int) -> Iterator[AnswerSets]:
        """The answers to many queries, `batch_size` at a time."""
        # Compiled loops take longer to load than a few queries to answer.
        compiled = None if len(queries) > _FEW else False
        return answer_sets(self.graph, queries, batch_size, edges=self.edges, compiled=compiled)

    @cached_property
    def _typed(self) -> TypedCandidates:
        return typed_candidates(self.graph, self.edges)


# The facts about one entity


@final
@dataclass(frozen=True, slots=True)
class Neighbours:
    """The entities that one relation leads to: those from place `offset` on, of `total`; `text` as queries write it."""

    name: str
    inverse: bool
    text: str
    total: int
    offset: int
    entities: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """An entity and its `facts`: relations that leave it first, then inverses, which are the facts that lead to it."""

    entity: str
    text: str
    facts: int
    relations: tuple[Neighbours, ...]


def neighbourhood(
    graph: KnowledgeGraph, entity: str, *, limit: int = 20, relation: int | None = None, offset: int = 0
) -> Neighbourhood:
    """The facts about `entity`, at most `limit` of each relation; of one `relation` alone where it is given."""
    number = encode_entity(entity, graph.entities)
    entity = graph.entities[number]
    relations = graph.adjacency.relations(number).tolist()
    found = {each: graph.adjacency.neighbours(number, each) for each in relations}
    shown = relations if relation is None else [relation]
    groups = []
    for each in shown:
        name, inverse = graph.relation_name(each)
        others = found.get(each, graph.adjacency.target[:0])
        entities = tuple(graph.entities[other] for other in others[offset : offset + limit].tolist())
        groups.append(Neighbours(name, inverse, str(Hop(name, inverse)), len(others), offset, entities))
    return Neighbourhood(entity, write_name(entity), sum(map(len, found.values())), tuple(groups))


# What may come next in a path


class NextRelation(NamedTuple):
    """A relation in the space of 2R; `known` if facts lead on over it, `entities` how many have a fact of it."""

    relation: int
    known: bool
    entities: int


@final
class NextRelations:
    """Relations that may follow, by the kinds of entities: an edge that the graph misses is still of a kind it has.

    An entity is of kind r if a fact of r leaves it. After r1, any relation makes sense that leaves some entity r1 leads
    to, which is one of kind r1⁻¹. After a source alone, any does that leaves an entity of one of the source's kinds.
    """

    def __init__(self, known: KnownFacts) -> None:
        self._known = known
        self._graph = known.graph

    def after(self, source: int, path: list[int]) -> list[NextRelation]:
        """What makes sense after source and path, known ones first and then those that most entities have."""
        graph = self._graph
        reached = self._known.answers(source, path)
        known = self._leaving(reached)
        kinds = np.array([graph.inverse(path[-1])]) if path else known
        sensible = self._together_with(kinds) if len(kinds) else np.ones(2 * graph.num_relations, dtype=bool)
        sensible[known] = True
        is_known = np.zeros(len(sensible), dtype=bool)
        is_known[known] = True
        return self._ordered(np.flatnonzero(sensible), is_known)

    def anywhere(self) -> list[NextRelation]:
        """Every relation and every inverse."""
        count = 2 * self._graph.num_relations
        return self._ordered(np.arange(count), np.zeros(count, dtype=bool))

    def _ordered(self, relations: NDArray[np.intp], known: NDArray[np.bool_]) -> list[NextRelation]:
        entities = self._entities[relations]
        order = np.lexsort((relations, -entities, ~known[relations]))
        return [NextRelation(int(relations[i]), bool(known[relations[i]]), int(entities[i])) for i in order]

    def _leaving(self, entities: NDArray[np.int32]) -> NDArray[np.int32]:
        """The relations that leave one of `entities`, ascending."""
        adjacency = self._graph.adjacency
        among = np.zeros(self._graph.num_entities, dtype=bool)
        among[entities] = True
        return np.unique(adjacency.group_relation[np.repeat(among, np.diff(adjacency.group_start))])

    def _together_with(self, kinds: NDArray[np.integer]) -> NDArray[np.bool_]:
        """The relations that leave an entity of one of these kinds: [2R]."""
        sensible = np.zeros(2 * self._graph.num_relations, dtype=bool)
        for kind in kinds.tolist():
            first, last = self._shared.indptr[kind : kind + 2]
            sensible[self._shared.indices[first:last]] = True
        return sensible

    @cached_property
    def _entities(self) -> NDArray[np.int64]:
        """How many entities each relation leaves: [2R]."""
        return np.bincount(self._graph.adjacency.group_relation, minlength=2 * self._graph.num_relations)

    @cached_property
    def _shared(self) -> csr_array:
        """How many entities two relations both leave: [2R, 2R]."""
        from scipy.sparse import csr_array

        adjacency, graph = self._graph.adjacency, self._graph
        leaves = csr_array(
            (np.ones(len(adjacency.group_relation), dtype=np.int64), adjacency.group_relation, adjacency.group_start),
            shape=(graph.num_entities, 2 * graph.num_relations),
        )
        return csr_array(leaves.T @ leaves)
