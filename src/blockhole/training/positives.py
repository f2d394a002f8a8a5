"""Where the positives of an epoch come from: edges, a stored path set, or fresh walks."""

from __future__ import annotations

from typing import Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.queries import PathQueries
from blockhole.training.draws import Purpose, generator

WALKS_PER_EDGE = 20
"""Walks sampled for each edge of train, as in Guu et al.'s path sets."""


Reverse = Literal["none", "edges", "paths"]
"""Which positives are also read backwards."""


class Positives(Protocol):
    """The true queries of each epoch."""

    def __len__(self) -> int:
        """How many an epoch has."""

    def epoch(self, epoch: int) -> PathQueries:
        """The positives of an epoch; equal for equal numbers, and the same object where they do not change."""

    def ends(self) -> NDArray[np.int32]:
        """The sources and targets that positives of any epoch can have, in any order and number; shape [count]."""


@final
class StoredPositives:
    """The same queries every epoch."""

    def __init__(self, queries: PathQueries) -> None:
        self._queries = queries

    def __len__(self) -> int:
        return len(self._queries)

    def epoch(self, epoch: int) -> PathQueries:
        """See Positives."""
        return self._queries

    def ends(self) -> NDArray[np.int32]:
        """See Positives."""
        return np.concatenate([self._queries.source, self._queries.target])


@final
class FreshWalks:
    """The edges of a graph, and walks over it that are sampled anew for every epoch."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        seed: int,
        reverse: Reverse,
        lengths: tuple[int, int] = (2, 5),
    ) -> None:
        self._graph = graph
        self._seed = seed
        self._reverse = reverse
        self._lengths = lengths

    def __len__(self) -> int:
        edges, walks = len(self._graph), WALKS_PER_EDGE * len(self._graph)
        return {"none": edges + walks, "edges": 2 * edges + walks, "paths": 2 * (edges + walks)}[self._reverse]

    def epoch(self, epoch: int) -> PathQueries:
        """See Positives."""
        from blockhole.paths.walks import sample_walks

        seed = int(generator(self._seed, Purpose.WALKS, epoch).integers(2**63))
        walks = sample_walks(self._graph, WALKS_PER_EDGE * len(self._graph), lengths=self._lengths, seed=seed)
        edges = PathQueries.from_triples(self._graph.triples)
        return with_reversed(PathQueries.concatenate([edges, walks]), self._reverse, self._graph.num_relations)

    def ends(self) -> NDArray[np.int32]:
        """See Positives."""
        return self._graph.triples[:, [0, 2]].ravel()


def with_reversed(queries: PathQueries, which: Reverse, num_relations: int) -> PathQueries:
    """The queries, and after them (o, r_k⁻¹/…/r_1⁻¹, s) for none of them, for those of length 1, or for all."""
    if which == "none":
        return queries
    chosen = queries if which == "paths" else queries.take(queries.length == 1)
    step = np.arange(queries.path.shape[1])
    position = chosen.length[:, None] - 1 - step
    inverse = (np.take_along_axis(chosen.path, np.maximum(position, 0), axis=1) + num_relations) % (2 * num_relations)
    path = np.where(position >= 0, inverse, 0).astype(np.int32)
    return PathQueries.concatenate([queries, PathQueries(chosen.target, path, chosen.length, chosen.source)])
