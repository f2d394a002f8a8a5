"""Random walks over a graph, each a path query with one of its answers."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.compiled import over_rows
from blockhole.errors import DataError
from blockhole.graph.knowledge_graph import Adjacency, KnowledgeGraph
from blockhole.queries.paths import PathQueries

# One hop of this many walks is one gather: large enough that the look-ups of many walks overlap, small enough for
# the cache. A compiled loop that takes each walk to its end waits for every look-up in turn and is slower.
_CHUNK = 1 << 15


def sample_walks(graph: KnowledgeGraph, count: int, lengths: tuple[int, int] = (2, 5), seed: int = 0) -> PathQueries:
    """`count` walks, sampled as Guu et al. 2015 do.

    The length is uniform in `lengths`, both ends included, and the start uniform over the entities that have an edge.
    Each step takes a relation uniformly among the distinct ones that leave the entity, inverses included, then a
    target uniformly among that relation's distinct neighbours. Walks may come back to where they were.

    Draw j of walk i is a function of (seed, i, j) alone: the same seed gives the same walks on any number of threads,
    and more walks begin with the same ones.
    """
    return Walker(graph).sample(0, count, lengths, seed)


@final
class Walker:
    """Samples walks over one graph, any part of the sequence that `sample_walks` begins."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._adjacency = graph.adjacency
        self._starts = np.flatnonzero(np.diff(self._adjacency.group_start)).astype(np.int32)

    def sample(self, begin: int, count: int, lengths: tuple[int, int], seed: int) -> PathQueries:
        """The walks number `begin` … begin + count - 1 of a seed."""
        shortest, longest = lengths
        if not 1 <= shortest <= longest:
            raise ValueError(f"lengths must be 1 ≤ shortest ≤ longest, not {lengths}")
        starts = self._starts
        if count and not len(starts):
            raise DataError("the graph has no edges, so there is nothing to walk on; give it at least one triple.")
        source, target, length = (np.empty(count, dtype=np.int32) for _ in range(3))
        path = np.zeros((count, longest), dtype=np.int32)
        key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]

        def fill(first: int, last: int) -> None:
            rows = slice(first, last)
            counter = key + np.arange(begin + first, begin + last, dtype=np.uint64) * np.uint64(2 + 2 * longest)
            source[rows] = starts[_draw(counter, len(starts))]
            length[rows] = shortest + _draw(counter + np.uint64(1), longest - shortest + 1)
            target[rows] = _walk(self._adjacency, source[rows], length[rows], counter + np.uint64(2), path[rows])

        for _ in over_rows(fill, count, _CHUNK):
            pass
        return PathQueries(source, path, length, target)


def _walk(
    adjacency: Adjacency,
    source: NDArray[np.int32],
    length: NDArray[np.int32],
    counter: NDArray[np.uint64],
    path: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Walk from each source, write the relations taken into `path`, and give where the walks end; shape [rows]."""
    target = source.copy()
    for hop in range(path.shape[1]):
        going = np.flatnonzero(length > hop)
        entity, draw = target[going], counter[going] + np.uint64(2 * hop)
        group = adjacency.group_start[entity]
        group += _draw(draw, adjacency.group_start[entity + 1] - group)
        edge = adjacency.edge_start[group]
        edge += _draw(draw + np.uint64(1), adjacency.edge_start[group + 1] - edge)
        path[going, hop] = adjacency.group_relation[group]
        target[going] = adjacency.target[edge]
    return target


def _draw(counter: NDArray[np.uint64], choices: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """The numbers 0 … choices - 1 that stand at `counter`: `split_mix`, scaled.

    Scaling its upper 32 bits favours no choice over another by more than choices / 2³², which no sample will show.
    """
    scaled = ((split_mix(counter) >> np.uint64(32)) * np.asarray(choices, dtype=np.uint64)) >> np.uint64(32)
    return scaled.astype(np.int64)


def split_mix(counter: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Random bits for each counter: SplitMix64 (Steele, Lea, Flood 2014)."""
    z = counter * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
