"""What the graph itself knows: reachable entities, and the entities a relation takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.edges_by_relation import EdgesByRelation, edges_by_relation


@final
class KnownFacts:
    """The facts of a graph, arranged for one query after the other; relation ids in the space of 2R."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        self._candidates: dict[int, NDArray[np.int32]] = {}

    @cached_property
    def _edges(self) -> EdgesByRelation:
        return edges_by_relation(self.graph)

    def candidates(self, relation: int) -> NDArray[np.int32]:
        """T(r): the entities that the relation takes as object, ascending."""
        if relation not in self._candidates:
            self._candidates[relation] = self._distinct(self._edges.edges(relation)[1])
        return self._candidates[relation]

    def targets(self, sources: NDArray[np.integer], relation: int) -> NDArray[np.int32]:
        """Every entity that an edge of `relation` leads to from one of `sources`, ascending and distinct."""
        edges = self._edges
        first, last = edges.relation_start[relation], edges.relation_start[relation + 1]
        among = np.zeros(self.graph.num_entities, dtype=bool)
        among[sources] = True
        groups = first + np.flatnonzero(among[edges.group_source[first:last]])
        parts = [edges.target[edges.edge_start[group] : edges.edge_start[group + 1]] for group in groups]
        return self._distinct(np.concatenate([np.zeros(0, dtype=np.int32), *parts]))

    def answers(self, source: int, path: Sequence[int]) -> NDArray[np.int32]:
        """⟦s/r1/…/rk⟧, ascending."""
        reached = np.array([source], dtype=np.int32)
        for relation in path:
            reached = self.targets(reached, relation)
        return reached

    def _distinct(self, entities: NDArray[np.int32]) -> NDArray[np.int32]:
        """The entities once each, ascending; flags do it in less time than sorting or hashing."""
        flags = np.zeros(self.graph.num_entities, dtype=bool)
        flags[entities] = True
        return np.flatnonzero(flags).astype(np.int32)
