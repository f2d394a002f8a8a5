"""Edges grouped by entity, then by relation: a two-level CSR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray


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
