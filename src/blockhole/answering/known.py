"""What the graph itself knows: reachable entities, facts about one entity, and which relations may follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import EdgesByRelation, KnowledgeGraph, edges_by_relation
from blockhole.queries.exact import (
    AnswerSets,
    TypedCandidates,
    answer_sets,
    answers,
    edges_from,
    plan_answers,
    targets,
    typed_candidates,
)
from blockhole.queries.language import Hop, encode_entity, write_name
from blockhole.queries.paths import PathQueries
from blockhole.queries.plans import Both, Either, Follow, Plan, Start

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

    def edges_from(self, sources: NDArray[np.integer], relation: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The edges of a relation from `sources`, which ascend: their sources and their targets; [F], [F]."""
        return edges_from(self.edges, sources, relation)

    def objects(self, source: int, relation: int) -> NDArray[np.int32]:
        """⟦s/r⟧, ascending."""
        edges = self.edges
        first, last = edges.relation_start[relation : relation + 2]
        group = first + edges.group_source[first:last].searchsorted(source)
        if group == last or edges.group_source[group] != source:
            return edges.target[:0]
        return edges.target[edges.edge_start[group] : edges.edge_start[group + 1]]

    def object_counts(self, relation: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The entities that have objects of r, and how many each has: [S], [S]."""
        edges = self.edges
        first, last = edges.relation_start[relation : relation + 2]
        return edges.group_source[first:last], np.diff(edges.edge_start[first : last + 1])

    def facts_of(self, sources: NDArray[np.integer], relation: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The facts of a relation from distinct `sources`: the place of each source, and the object; [F], [F]."""
        place = np.full(self.graph.num_entities, -1, dtype=np.int64)
        place[sources] = np.arange(len(sources))
        source, target = self.edges.edges(relation)
        among = place[source] >= 0
        return place[source[among]], target[among].astype(np.int64)

    def answers(self, source: int, path: Sequence[int]) -> NDArray[np.int32]:
        """⟦s/r1/…/rk⟧, ascending."""
        return answers(self.graph, source, path, self.edges)

    def plan_answers(self, plan: Plan) -> NDArray[np.int32]:
        """⟦q⟧ of a query of any kind, ascending."""
        return plan_answers(self.graph, plan, self.edges)

    def answer_sets(self, queries: PathQueries, batch_size: int) -> Iterator[AnswerSets]:
        """The answers to many queries, `batch_size` at a time."""
        # Compiled loops take longer to load than a few queries to answer.
        compiled = None if len(queries) > _FEW else False
        return answer_sets(self.graph, queries, batch_size, edges=self.edges, compiled=compiled)

    def kind_shares(self, kind: int) -> NDArray[np.float32]:
        """Of the entities of each kind, the share that is of `kind` too: [2R]; one is of kind r if r leaves it."""
        adjacency = self.graph.adjacency
        members = np.zeros(self.graph.num_entities, dtype=bool)
        members[self.candidates(self.graph.inverse(kind))] = True
        of_members = adjacency.group_relation[np.repeat(members, np.diff(adjacency.group_start))]
        both = np.bincount(of_members, minlength=2 * self.graph.num_relations)
        shares: NDArray[np.float32] = (both / np.maximum(self.kind_sizes, 1)).astype(np.float32)
        return shares

    @cached_property
    def kind_sizes(self) -> NDArray[np.int64]:
        """How many entities are of each kind: [2R]."""
        return np.bincount(self.graph.adjacency.group_relation, minlength=2 * self.graph.num_relations)

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
    number = encode_entity(entity, graph.entities, graph.relations)
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
    """A relation in the space of 2R; `facts` of it lead on, and `entities` of the whole graph have a fact of it."""

    relation: int
    facts: int
    entities: int

    @property
    def known(self) -> bool:
        """Whether facts lead on over it."""
        return self.facts > 0


@final
class NextRelations:
    """Relations that may follow, by the kinds of entities: an edge that the graph misses is still of a kind it has.

    An entity is of kind r if a fact of r leaves it. After r1, any relation makes sense that leaves some entity r1 leads
    to, which is one of kind r1⁻¹. After a source alone, any does that leaves an entity of one of the source's kinds.
    """

    def __init__(self, known: KnownFacts) -> None:
        self._known = known
        self._graph = known.graph

    def after(self, plan: Plan) -> list[NextRelation]:
        """What makes sense after a query or its source, known ones first and then those that most entities have."""
        facts = self._facts_leaving(self._known.plan_answers(plan))
        return self._ordered(np.flatnonzero(self._sensible(plan) | (facts > 0)), facts)

    def _sensible(self, plan: Plan) -> NDArray[np.bool_]:
        """The relations that leave an entity of the kind of a query's answers: [2R]."""
        found: list[NDArray[np.bool_]] = []
        for step in plan.steps:
            match step:
                case Start(slot):
                    kinds = self._leaving(np.array([plan.ids[slot]], dtype=np.int32))
                    anything = np.ones(2 * self._graph.num_relations, dtype=bool)
                    found.append(self._together_with(kinds) if len(kinds) else anything)
                case Follow(_, slot):
                    found.append(self._together_with(np.array([self._graph.inverse(plan.ids[slot])])))
                case Both(keep, _):
                    found.append(np.logical_and.reduce([found[each] for each in keep]))
                case Either(of):
                    found.append(np.logical_or.reduce([found[each] for each in of]))
        return found[-1]

    def anywhere(self) -> list[NextRelation]:
        """Every relation and every inverse."""
        count = 2 * self._graph.num_relations
        return self._ordered(np.arange(count), np.zeros(count, dtype=np.int64))

    def _ordered(self, relations: NDArray[np.intp], facts: NDArray[np.int64]) -> list[NextRelation]:
        entities = self._known.kind_sizes[relations]
        order = np.lexsort((relations, -entities, facts[relations] == 0))
        return [NextRelation(int(relations[i]), int(facts[relations[i]]), int(entities[i])) for i in order]

    def _facts_leaving(self, entities: NDArray[np.int32]) -> NDArray[np.int64]:
        """How many facts of each relation leave `entities`: [2R]."""
        adjacency = self._graph.adjacency
        among = np.zeros(self._graph.num_entities, dtype=bool)
        among[entities] = True
        groups = np.repeat(among, np.diff(adjacency.group_start))
        sizes = np.diff(adjacency.edge_start)[groups]
        counts = np.bincount(adjacency.group_relation[groups], sizes, minlength=2 * self._graph.num_relations)
        return counts.astype(np.int64)

    def _leaving(self, entities: NDArray[np.int32]) -> NDArray[np.int32]:
        """The relations that leave one of `entities`, ascending."""
        adjacency = self._graph.adjacency
        among = np.zeros(self._graph.num_entities, dtype=bool)
        among[entities] = True
        return np.unique(adjacency.group_relation[np.repeat(among, np.diff(adjacency.group_start))])

    def _together_with(self, kinds: NDArray[np.integer]) -> NDArray[np.bool_]:
        """The relations that leave an entity of one of these kinds: [2R]."""
        sensible = np.zeros(2 * self._graph.num_relations, dtype=bool)
        members = [self._known.candidates(self._graph.inverse(kind)) for kind in kinds.tolist()]
        sensible[self._leaving(np.concatenate([np.zeros(0, dtype=np.int32), *members]))] = True
        return sensible
