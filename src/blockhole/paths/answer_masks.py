"""Exact answers as dense masks on a torch device, for queries and scores that live there."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.edges_by_relation import edges_by_relation


@final
class AnswerMasks:
    """The edges of a graph on a device, and the answer masks of query batches over them.

    One hop of all queries that share a relation r is a product of 0/1 matrices, [reached] ← [A_rᵀ · reached > 0],
    where A_r is sparse [E, E] and `reached` dense [E, queries]. `memory` bounds the bytes of those dense matrices;
    the answer itself, one byte for each query and entity, comes on top.
    """

    def __init__(self, graph: KnowledgeGraph, device: torch.device | str = "cpu", memory: int = 2**29) -> None:
        self.device = torch.device(device)
        self._num_entities = graph.num_entities
        edges = edges_by_relation(graph)
        self._hop = [self._matrix(*edges.edges(relation)) for relation in range(2 * graph.num_relations)]
        # A chunk holds two float32 matrices and, for a moment, the columns of one relation gathered from the first.
        self._chunk = max(1, memory // (3 * 4 * max(1, graph.num_entities)))

    def _matrix(self, sources: NDArray[np.int32], targets: NDArray[np.int32]) -> Tensor:
        """A_rᵀ: row t, column s is 1 for each edge (s, r, t)."""
        index = torch.stack([torch.tensor(targets), torch.tensor(sources)]).to(torch.int64)
        ones = torch.ones(index.shape[1], dtype=torch.float32)
        size = (self._num_entities, self._num_entities)
        return torch.sparse_coo_tensor(index, ones, size, check_invariants=False).coalesce().to(self.device)

    def __call__(self, source: Tensor, path: Tensor, length: Tensor) -> Tensor:
        """Which entities answer each query; shapes [B], [B, K], [B] → [B, E] bool, on the device."""
        # Which relations a hop has decides what is launched, so these small arrays are read on the host.
        source, path, length = source.cpu().long(), path.cpu().long(), length.cpu().long()
        mask = torch.empty(len(source), self._num_entities, dtype=torch.bool, device=self.device)
        for first in range(0, len(source), self._chunk):
            rows = slice(first, first + self._chunk)
            mask[rows] = self._reached(source[rows], path[rows], length[rows]).T
        return mask

    def _reached(self, source: Tensor, path: Tensor, length: Tensor) -> Tensor:
        """The mask of one chunk, transposed; [E, B] bool."""
        columns = torch.arange(len(source))
        reached = torch.zeros(self._num_entities, len(source), device=self.device)
        reached[source.to(self.device), columns.to(self.device)] = 1.0
        for hop in range(int(length.max()) if len(length) else 0):
            going = length > hop
            for relation in sorted(set(path[going, hop].tolist())):
                chosen = columns[going & (path[:, hop] == relation)].to(self.device)
                moved = torch.sparse.mm(self._hop[relation], reached[:, chosen])
                reached[:, chosen] = (moved > 0).to(reached.dtype)
        return reached > 0
