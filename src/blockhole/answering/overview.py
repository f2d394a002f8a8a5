"""What a set of entities has in common, what a relation is, and which type an entity has: the graph seen from above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.known import KnownFacts
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.language import Hop, encode_hop, write_name

Ids: TypeAlias = NDArray[np.integer]

_FACETS = 12
_OF_ONE_RELATION = 4
_EXAMPLES = 12
_TYPES = ("type", "instanceof", "instance_of", "isa", "is_a", "a", "class", "category", "generalizations")
"""Last words of relations that name an entity's type, where a graph has one."""
OTHER = "other"


# What entities have in common


@final
@dataclass(frozen=True, slots=True)
class Shared:
    """A fact that `count` of some entities have: `text` leads from each to `entity`; `branch` is the way back."""

    name: str
    inverse: bool
    text: str
    entity: str
    branch: str
    count: int


def shared_facts(graph: KnowledgeGraph, entities: Ids, *, top: int = _FACETS) -> list[Shared]:
    """The facts that most of `entities`, which are distinct, have in common, a few of each relation: [N] → at most top.

    A fact of one entity alone is shared by nobody, unless there is only one.
    """
    relation, target = _edges_of(graph, entities)
    keys, count = np.unique(relation.astype(np.int64) * graph.num_entities + target, return_counts=True)
    enough = count >= min(2, len(entities))
    keys, count = keys[enough], count[enough]
    taken: dict[int, int] = {}
    found: list[Shared] = []
    for at in np.lexsort((keys, -count)).tolist():
        kind, entity = divmod(int(keys[at]), graph.num_entities)
        taken[kind] = taken.get(kind, 0) + 1
        if taken[kind] > _OF_ONE_RELATION:
            continue
        hop, name = Hop(*graph.relation_name(kind)), graph.entities[entity]
        back = Hop(hop.relation, not hop.inverse)
        found.append(Shared(hop.relation, hop.inverse, str(hop), name, f"{write_name(name)}/{back}", int(count[at])))
        if len(found) == top:
            break
    return found


def _edges_of(graph: KnowledgeGraph, entities: Ids) -> tuple[Ids, Ids]:
    """The relations and targets of all edges that leave `entities`, inverses included: [F], [F]."""
    adjacency = graph.adjacency
    groups = _ranges(adjacency.group_start, entities)
    edges = _ranges(adjacency.edge_start, groups)
    relation = np.repeat(adjacency.group_relation[groups], np.diff(adjacency.edge_start)[groups])
    return relation, adjacency.target[edges]


def _ranges(start: NDArray[np.int64], rows: Ids) -> NDArray[np.int64]:
    """All of start[r] : start[r + 1] for each of `rows`, one after the other."""
    sizes = start[np.asarray(rows) + 1] - start[rows]
    before = np.cumsum(sizes) - sizes
    places: NDArray[np.int64] = np.arange(int(sizes.sum())) + np.repeat(start[rows] - before, sizes)
    return places


# A relation


@final
@dataclass(frozen=True, slots=True)
class Beside:
    """Another relation of the entities at one end: `share` of them have a fact of it."""

    name: str
    inverse: bool
    text: str
    share: float


@final
@dataclass(frozen=True, slots=True)
class End:
    """The entities at one end of a relation: how many, which relations leave them too, and what many of them share."""

    entities: int
    beside: tuple[Beside, ...]
    shared: tuple[Shared, ...]


@final
@dataclass(frozen=True, slots=True)
class Fact:
    """Two entities that a relation holds between."""

    source: str
    target: str


@final
@dataclass(frozen=True, slots=True)
class RelationOverview:
    """A relation: its facts, what it leads from and to, and examples of it."""

    name: str
    text: str
    facts: int
    domain: End
    range: End
    examples: tuple[Fact, ...]


def relation_overview(known: KnownFacts, relation: str) -> RelationOverview:
    """What the graph says of a relation; an inverse is the same relation, read backwards."""
    graph = known.graph
    number = encode_hop(relation, graph.relations) % graph.num_relations
    source, target = known.edges.edges(number)
    chosen = np.linspace(0, len(source) - 1, min(_EXAMPLES, len(source))).round().astype(int)
    examples = tuple(Fact(graph.entities[int(source[i])], graph.entities[int(target[i])]) for i in chosen)
    hop = Hop(*graph.relation_name(number))
    ends = [
        _end(known, np.unique(entities), skipped)
        for entities, skipped in ((source, number), (target, graph.inverse(number)))
    ]
    return RelationOverview(hop.relation, str(hop), len(source), ends[0], ends[1], examples)


def _end(known: KnownFacts, entities: Ids, skipped: int) -> End:
    """What the entities at one end have, besides the relation itself."""
    graph = known.graph
    relations = graph.adjacency.group_relation[_ranges(graph.adjacency.group_start, entities)]
    count = np.bincount(relations, minlength=2 * graph.num_relations)
    count[skipped] = 0
    best = [int(each) for each in np.argsort(-count, kind="stable")[:_FACETS] if count[each] > 0]
    hops = [(each, Hop(*graph.relation_name(each))) for each in best]
    beside = tuple(Beside(hop.relation, hop.inverse, str(hop), int(count[each]) / len(entities)) for each, hop in hops)
    own = str(Hop(*graph.relation_name(skipped)))
    shared = [each for each in shared_facts(graph, entities) if each.text != own]
    return End(len(entities), beside, tuple(shared))


# Types of entities


class EntityTypes(NamedTuple):
    """The types of entities: their names, which each entity has, [N], and the relation that says it, None for none."""

    names: list[str]
    of_entity: NDArray[np.int64]
    relation: str | None


def entity_types(graph: KnowledgeGraph, entities: Ids, *, most: int = 9) -> EntityTypes:
    """The types of entities, at most so many and one for all others.

    A type is what a relation such as type or instance_of says; where a graph has none, the relation that an entity has
    most facts of.
    """
    words = {name: name.replace("#", "/").rstrip("/").rpartition("/")[2].casefold() for name in graph.relations.names}
    named = next((i for i, name in enumerate(words) if words[name] in _TYPES), None)
    kinds = np.full(len(entities), -1, dtype=np.int64)
    adjacency = graph.adjacency
    for place, entity in enumerate(np.asarray(entities).tolist()):
        if named is not None:
            own = adjacency.neighbours(entity, named)
            kinds[place] = own[0] if len(own) else -1
        else:
            first, last = adjacency.group_start[entity : entity + 2]
            sizes = np.diff(adjacency.edge_start[first : last + 1])
            kinds[place] = adjacency.group_relation[first + int(sizes.argmax())] if len(sizes) else -1
    found, count = np.unique(kinds[kinds >= 0], return_counts=True)
    kept = found[np.argsort(-count, kind="stable")][:most].tolist()
    index = {kind: place for place, kind in enumerate(kept)}
    names = [_type_name(graph, kind, named is not None) for kind in kept]
    types = np.array([index.get(kind, len(kept)) for kind in kinds.tolist()], dtype=np.int64)
    relation = None if named is None else graph.relations[named]
    return EntityTypes([*names, OTHER] if (types == len(kept)).any() else names, types, relation)


def _type_name(graph: KnowledgeGraph, kind: int, is_entity: bool) -> str:
    return graph.entities[kind] if is_entity else str(Hop(*graph.relation_name(kind)))


def most_connected(graph: KnowledgeGraph, count: int) -> Sequence[int]:
    """The entities with the most edges, at most so many, in order of their ids."""
    degree = np.add.reduceat(np.append(np.diff(graph.adjacency.edge_start), 0), graph.adjacency.group_start[:-1])
    degree[np.diff(graph.adjacency.group_start) == 0] = 0
    return sorted(np.argsort(-degree, kind="stable")[:count].tolist())
