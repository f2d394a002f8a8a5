"""The facts about one entity, grouped by relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.language import Hop, write_name


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
    number = graph.entities.id(entity)
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
