"""Edges grouped by relation, then by source: the other order of `Adjacency`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.adjacency import Adjacency
from blockhole.graph.knowledge_graph import KnowledgeGraph


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
