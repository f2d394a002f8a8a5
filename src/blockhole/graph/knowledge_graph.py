"""The knowledge graph G(F) = (E, R, F) of Section 3 of the paper: its facts, its edges by entity, its splits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import counted
from blockhole.graph.vocabulary import Vocabulary

SplitName = Literal["train", "valid", "test"]


@final
class KnowledgeGraph:
    """Entities, relations, and the observed facts F; immutable.

    Relation ids live in one space of 2R: r in 0 … R-1 is a named relation, r + R its inverse, and inverting twice
    is the identity. `triples` holds the facts in file order, named relations only, duplicates kept; shape [T, 3],
    columns source, relation, target, int32. An `adjacency` that was made of them before, such as one on disk, is
    taken as it is.
    """

    def __init__(
        self,
        entities: Vocabulary,
        relations: Vocabulary,
        triples: NDArray[np.int32],
        adjacency: Adjacency | None = None,
    ) -> None:
        triples = np.ascontiguousarray(triples, dtype=np.int32).reshape(-1, 3)
        if len(triples) and adjacency is None:
            low, high = triples.min(axis=0), triples.max(axis=0)
            limits = (len(entities), len(relations), len(entities))
            if low.min() < 0 or any(value >= limit for value, limit in zip(high, limits, strict=True)):
                raise ValueError("triples hold ids outside the vocabularies")
        if triples.flags.writeable:
            triples = triples.copy()  # whoever made the array may still write to it
            triples.setflags(write=False)
        self.entities = entities
        self.relations = relations
        self.triples = triples
        self._given_adjacency = adjacency

    @property
    def num_entities(self) -> int:
        """|E|."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """R, the number of named relations; ids run to 2R because each has an inverse."""
        return len(self.relations)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The distinct edges, inverses included, by (entity, relation)."""
        if self._given_adjacency is not None:
            return self._given_adjacency
        return build_adjacency(self.triples, self.num_entities, self.num_relations)

    def inverse(self, relation: int) -> int:
        """The id of r⁻¹: r + R for a named relation, r - R for an inverse."""
        return (relation + self.num_relations) % (2 * self.num_relations)

    def relation_id(self, name: str, inverse: bool = False) -> int:
        """The id of a relation or of its inverse."""
        return self.relations.id(name) + inverse * self.num_relations

    def relation_name(self, relation: int) -> tuple[str, bool]:
        """The name of a relation id, and whether it is an inverse."""
        inverse, named = divmod(relation, self.num_relations)
        return self.relations[named], bool(inverse)

    def __len__(self) -> int:
        """The number of facts, duplicates included."""
        return len(self.triples)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, KnowledgeGraph)
            and self.entities == other.entities
            and self.relations == other.relations
            and np.array_equal(self.triples, other.triples)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        entities, relations = counted(self.num_entities, "entity", "entities"), counted(self.num_relations, "relation")
        return f"KnowledgeGraph({entities}, {relations}, {counted(len(self), 'fact')})"


def _no_triples() -> NDArray[np.int32]:
    return np.zeros((0, 3), dtype=np.int32)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplitGraph:
    """One pair of vocabularies over three sets of facts, each in file order, duplicates kept; shapes [T, 3].

    `valid_negatives` and `test_negatives` are the lines labelled -1 where a data set has them (WN11, FB13): they
    serve triple classification only and never belong to a graph. A packed graph brings the adjacency of its train
    facts; all its arrays then lie on disk.
    """

    entities: Vocabulary
    relations: Vocabulary
    train: NDArray[np.int32]
    valid: NDArray[np.int32] = field(default_factory=_no_triples)
    test: NDArray[np.int32] = field(default_factory=_no_triples)
    valid_negatives: NDArray[np.int32] = field(default_factory=_no_triples)
    test_negatives: NDArray[np.int32] = field(default_factory=_no_triples)
    train_adjacency: Adjacency | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for triples in (self.train, self.valid, self.test, self.valid_negatives, self.test_negatives):
            if triples.ndim != 2 or triples.shape[1] != 3 or triples.dtype != np.int32:
                raise ValueError("facts must be int32 arrays of shape [T, 3]")
            triples.setflags(write=False)

    @property
    def packed(self) -> bool:
        """Whether the facts lie on disk, to be worked on there."""
        return self.train_adjacency is not None

    def graph(self, *splits: SplitName) -> KnowledgeGraph:
        """The graph of the named splits together; `graph("train", "test")` is Guu's test graph."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        if self.packed and [split for split in splits if len(parts[split])] == ["train"]:
            return KnowledgeGraph(self.entities, self.relations, self.train, self.train_adjacency)
        facts = np.concatenate([_no_triples(), *(parts[split] for split in splits)])
        facts.setflags(write=False)
        return KnowledgeGraph(self.entities, self.relations, facts)


# Edges, in the two orders that are needed: by entity, then relation; and by relation, then entity.


@final
@dataclass(frozen=True, slots=True)
class Adjacency:
    """The distinct edges of a graph in both directions, sorted by (source, relation, target).

    The groups of entity e are `group_start[e] : group_start[e + 1]`, one for each distinct relation leaving e
    (inverses included); the targets of group g are `target[edge_start[g] : edge_start[g + 1]]`.
    A table over all (entity, relation) pairs would be simpler to index, but at Wikidata's 100 million entities
    and thousands of relations it is nearly empty and does not fit; two levels cost 12 bytes a group.

    Shapes: group_start [E + 1] int64, group_relation [G] int32, edge_start [G + 1] int64, target [D] int32.
    """

    group_start: NDArray[np.int64]
    group_relation: NDArray[np.int32]
    edge_start: NDArray[np.int64]
    target: NDArray[np.int32]

    def neighbours(self, entity: int, relation: int) -> NDArray[np.int32]:
        """The targets t with (entity, relation, t) in the graph, ascending; shape [count]."""
        first, last = self.group_start[entity], self.group_start[entity + 1]
        group = first + np.searchsorted(self.group_relation[first:last], relation)
        if group == last or self.group_relation[group] != relation:
            return self.target[:0]
        return self.target[self.edge_start[group] : self.edge_start[group + 1]]

    def relations(self, entity: int) -> NDArray[np.int32]:
        """The distinct relations leaving `entity`, inverses included, ascending."""
        return self.group_relation[self.group_start[entity] : self.group_start[entity + 1]]


def build_adjacency(triples: NDArray[np.int32], num_entities: int, num_relations: int) -> Adjacency:
    """Group `triples` [T, 3] and their inverses (t, r + R, s); duplicate edges count once."""
    source = np.concatenate([triples[:, 0], triples[:, 2]])
    relation = np.concatenate([triples[:, 1], triples[:, 1] + np.int32(num_relations)])
    target = np.concatenate([triples[:, 2], triples[:, 0]])
    source, relation, target = _sort_distinct(source, relation, target, num_entities, 2 * num_relations)

    new_group = np.ones(len(source), dtype=bool)
    new_group[1:] = (source[1:] != source[:-1]) | (relation[1:] != relation[:-1])
    first = np.flatnonzero(new_group)
    group_start = np.zeros(num_entities + 1, dtype=np.int64)
    np.cumsum(np.bincount(source[first], minlength=num_entities), out=group_start[1:])
    arrays = (group_start, relation[first], np.append(first, len(source)), target)
    for array in arrays:
        array.setflags(write=False)
    return Adjacency(*arrays)


def _sort_distinct(
    source: NDArray[np.int32], relation: NDArray[np.int32], target: NDArray[np.int32], E: int, R2: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    if E * R2 * E < 2**63:
        # One 64-bit key sorts three times faster than a lexical sort over three columns.
        # np.unique hashes integers since NumPy 2.3, which takes ten times as long as this sort.
        key = np.sort((source.astype(np.int64) * R2 + relation) * E + target)
        key = np.concatenate([key[:1], key[1:][key[1:] != key[:-1]]])
        pair, target64 = np.divmod(key, E)
        source64, relation64 = np.divmod(pair, R2)
        return source64.astype(np.int32), relation64.astype(np.int32), target64.astype(np.int32)
    order = np.lexsort((target, relation, source))
    source, relation, target = source[order], relation[order], target[order]
    keep = np.ones(len(source), dtype=bool)
    keep[1:] = (source[1:] != source[:-1]) | (relation[1:] != relation[:-1]) | (target[1:] != target[:-1])
    return source[keep], relation[keep], target[keep]


@final
@dataclass(frozen=True, slots=True)
class EdgesByRelation:
    """The distinct edges of a graph in both directions, sorted by (relation, source, target).

    The groups of relation r are `relation_start[r] : relation_start[r + 1]`, one for each distinct source of r; the
    targets of group g are `target[edge_start[g] : edge_start[g + 1]]`.

    Shapes: relation_start [2R + 1] int64, group_source [G] int32, edge_start [G + 1] int64, target [D] int32.
    """

    relation_start: NDArray[np.int64]
    group_source: NDArray[np.int32]
    edge_start: NDArray[np.int64]
    target: NDArray[np.int32]

    def edges(self, relation: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The sources and the targets of all edges of `relation`; shapes [count], [count]."""
        first, last = self.relation_start[relation], self.relation_start[relation + 1]
        start = self.edge_start[first : last + 1]
        return np.repeat(self.group_source[first:last], np.diff(start)), self.target[start[0] : start[-1]]


def edges_by_relation(graph: KnowledgeGraph) -> EdgesByRelation:
    """Regroup the adjacency of `graph`."""
    adjacency: Adjacency = graph.adjacency
    # Groups are sorted by entity already, so a stable sort by relation leaves them sorted by (relation, entity).
    order = np.argsort(adjacency.group_relation, kind="stable")
    group_entity = np.repeat(np.arange(graph.num_entities, dtype=np.int32), np.diff(adjacency.group_start))
    size = np.diff(adjacency.edge_start)[order]
    edge_start = np.zeros(len(order) + 1, dtype=np.int64)
    np.cumsum(size, out=edge_start[1:])
    # Edge j of a group stands at the group's old start plus j.
    shift = np.repeat(adjacency.edge_start[:-1][order] - edge_start[:-1], size)
    relation_start = np.zeros(2 * graph.num_relations + 1, dtype=np.int64)
    np.cumsum(np.bincount(adjacency.group_relation, minlength=2 * graph.num_relations), out=relation_start[1:])
    arrays = (relation_start, group_entity[order], edge_start, adjacency.target[np.arange(len(shift)) + shift])
    for array in arrays:
        array.setflags(write=False)
    return EdgesByRelation(*arrays)
