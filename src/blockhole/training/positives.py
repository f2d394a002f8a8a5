"""Where the positives of an epoch come from: edges, a stored path set, or fresh walks."""

from __future__ import annotations

from typing import Literal, Protocol, final

import numpy as np
import torch
from torch import Tensor

from blockhole.errors import DataError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.paths import PathQueries
from blockhole.training.batches import Corruptions, EpochOrder, PathTensors, Plan
from blockhole.training.draws import Purpose, below, generator

# Random walks sampled on a GPU: those of `queries/walks.py`, bit for bit.


CHUNK = 1 << 22
"""Walks that are taken together: enough to fill a GPU, at some 200 MB of memory."""


@final
class WalkSampler:
    """Samples walks over one graph as `sample_walks` does; on a CPU the latter is five times as fast."""

    def __init__(self, graph: KnowledgeGraph, device: torch.device) -> None:
        if not len(graph):
            raise DataError("the graph has no edges, so there is nothing to walk on; give it at least one triple.")
        adjacency = graph.adjacency
        starts = np.flatnonzero(np.diff(adjacency.group_start)).astype(np.int32)
        self._device = device
        self._starts, self._group_start, self._group_relation, self._edge_start, self._target = (
            torch.tensor(array, device=device)
            for array in (
                starts,
                adjacency.group_start,
                adjacency.group_relation,
                adjacency.edge_start,
                adjacency.target,
            )
        )

    def sample(self, count: int, lengths: tuple[int, int], seed: int) -> PathTensors:
        """`count` walks of `lengths`, both ends included: draw j of walk i is a function of (seed, i, j) alone."""
        key = int(np.random.SeedSequence(seed).generate_state(1, np.uint64).view(np.int64)[0])
        bounds = [(first, min(first + CHUNK, count)) for first in range(0, max(count, 1), CHUNK)]
        return PathTensors.concatenate([self._sample(first, last, lengths, key) for first, last in bounds])

    def _sample(self, first: int, last: int, lengths: tuple[int, int], key: int) -> PathTensors:
        shortest, longest = lengths
        counter = key + torch.arange(first, last, device=self._device) * (2 + 2 * longest)
        source = self._starts[below(counter, len(self._starts))]
        length = shortest + below(counter + 1, longest - shortest + 1)
        target, hops = source, []
        for hop in range(longest):
            # Walks that are at their end step on as well, which is thrown away: that costs less than to sort them out.
            group = self._group_start[target]
            group = group + below(counter + (2 + 2 * hop), self._group_start[target + 1] - group)
            edge = self._edge_start[group]
            edge = edge + below(counter + (3 + 2 * hop), self._edge_start[group + 1] - edge)
            going = length > hop
            hops.append(torch.where(going, self._group_relation[group], 0))
            target = torch.where(going, self._target[edge], target)
        return PathTensors(source, torch.stack(hops, dim=1), length.int(), target)


# Where the positives of an epoch come from: edges, a stored path set, or fresh walks.


WALKS_PER_EDGE = 20
"""Walks sampled for each edge of train, as in Guu et al.'s path sets."""

Reverse = Literal["none", "edges", "paths"]
"""Which positives are also read backwards."""


class Positives(Protocol):
    """The true queries of each epoch, in batches on the training device."""

    def __len__(self) -> int:
        """How many an epoch has."""

    def plan(self, epoch: int) -> Plan:
        """The batches of an epoch; equal for equal numbers."""

    def ends(self) -> Tensor:
        """The sources and targets of any epoch, in any order and number: [count]; those of train facts may lack."""


@final
class StoredPositives:
    """The same queries every epoch, in another order; `corruptions` of each, where they were drawn beforehand."""

    def __init__(
        self,
        paths: PathTensors,
        seed: int,
        batch_size: int,
        *,
        by_last_relation: bool = False,
        corruptions: Corruptions | None = None,
    ) -> None:
        self._paths = paths
        self._order = EpochOrder(
            paths,
            batch_size,
            seed,
            paths.source.device,
            by_last_relation=by_last_relation,
            corruptions=corruptions,
        )

    def __len__(self) -> int:
        return len(self._paths)

    def plan(self, epoch: int) -> Plan:
        """See Positives."""
        return self._order.plan(epoch)

    def ends(self) -> Tensor:
        """See Positives."""
        return torch.cat([self._paths.source, self._paths.target])


@final
class FreshWalks:
    """The edges of a graph, and walks over it that are sampled anew for every epoch.

    Walks are a function of seed and epoch, the same on every device. A GPU samples its own: an epoch of FB13 trains in
    less time than the host takes for six million walks.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        seed: int,
        reverse: Reverse,
        batch_size: int,
        device: torch.device,
        *,
        by_last_relation: bool = False,
        lengths: tuple[int, int] = (2, 5),
    ) -> None:
        self._graph = graph
        self._seed = seed
        self._reverse = reverse
        self._batch_size = batch_size
        self._device = device
        self._by_last_relation = by_last_relation
        self._lengths = lengths
        self._edges = PathTensors.of(PathQueries.from_triples(graph.triples), device)
        self._sampler = WalkSampler(graph, device) if device.type == "cuda" else None

    def __len__(self) -> int:
        edges, walks = len(self._graph), WALKS_PER_EDGE * len(self._graph)
        return {"none": edges + walks, "edges": 2 * edges + walks, "paths": 2 * (edges + walks)}[self._reverse]

    def plan(self, epoch: int) -> Plan:
        """See Positives."""
        order = EpochOrder(
            self.epoch(epoch), self._batch_size, self._seed, self._device, by_last_relation=self._by_last_relation
        )
        return order.plan(epoch)

    def epoch(self, epoch: int) -> PathTensors:
        """The edges and walks of an epoch."""
        walks = self._walks(WALKS_PER_EDGE * len(self._graph), _walk_seed(self._seed, epoch))
        paths = PathTensors.concatenate([self._edges, walks])
        return with_reversed(paths, self._reverse, self._graph.num_relations)

    def _walks(self, count: int, seed: int) -> PathTensors:
        if self._sampler is not None:
            return self._sampler.sample(count, self._lengths, seed)
        from blockhole.queries.walks import sample_walks

        return PathTensors.of(sample_walks(self._graph, count, lengths=self._lengths, seed=seed), self._device)

    def ends(self) -> Tensor:
        """See Positives: walks lead from facts to facts."""
        return torch.zeros(0, dtype=torch.int64)


def added_walks(graph: KnowledgeGraph, seed: int) -> PathQueries:
    """The walks that are added to a stored path set: `WALKS_PER_EDGE` for each edge of the graph."""
    from blockhole.queries.walks import sample_walks

    return sample_walks(graph, WALKS_PER_EDGE * len(graph), seed=_walk_seed(seed, epoch=0))


def _walk_seed(seed: int, epoch: int) -> int:
    return int(generator(seed, Purpose.WALKS, epoch).integers(2**63))


def with_reversed(paths: PathTensors, which: Reverse, num_relations: int) -> PathTensors:
    """The queries, and after them (o, r_k⁻¹/…/r_1⁻¹, s) for none of them, for those of length 1, or for all."""
    if which == "none":
        return paths
    chosen = paths if which == "paths" else paths.take(paths.length == 1)
    return PathTensors.concatenate([paths, chosen.reversed(num_relations)])
