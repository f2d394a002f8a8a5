"""Many path queries (s, r1/…/rk, o) as integer arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class PathQueries:
    """N path queries with their answers.

    `path` is padded on the right with 0; `length` alone says how many hops count, so no id has a second meaning.
    Relation ids are in the graph's space of 2R. Shapes: source [N], path [N, K], length [N], target [N], int32.
    """

    source: NDArray[np.int32]
    path: NDArray[np.int32]
    length: NDArray[np.int32]
    target: NDArray[np.int32]

    def __post_init__(self) -> None:
        count = len(self.source)
        if not (self.path.ndim == 2 and len(self.path) == len(self.length) == len(self.target) == count):
            raise ValueError("source, path, length and target must have the same number of rows")
        for array in (self.source, self.path, self.length, self.target):
            array.setflags(write=False)

    @classmethod
    def from_triples(cls, triples: NDArray[np.int32]) -> PathQueries:
        """Facts [T, 3] as queries of length 1."""
        return cls(
            source=np.ascontiguousarray(triples[:, 0]),
            path=np.ascontiguousarray(triples[:, 1:2]),
            length=np.ones(len(triples), dtype=np.int32),
            target=np.ascontiguousarray(triples[:, 2]),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[PathQueries]) -> PathQueries:
        """All queries of `parts`, in order, padded to the longest path."""
        path = np.zeros((sum(map(len, parts)), max(part.path.shape[1] for part in parts)), dtype=np.int32)
        first = 0
        for part in parts:
            path[first : first + len(part), : part.path.shape[1]] = part.path
            first += len(part)
        return cls(
            source=np.concatenate([part.source for part in parts]),
            path=path,
            length=np.concatenate([part.length for part in parts]),
            target=np.concatenate([part.target for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.source)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> PathQueries:
        """The queries at `index` (positions, mask or slice)."""
        return PathQueries(self.source[index], self.path[index], self.length[index], self.target[index])

    @property
    def last_relation(self) -> NDArray[np.int32]:
        """r_k of each query; shape [N]."""
        return self.path[np.arange(len(self)), self.length - 1]

    def lengths(self) -> dict[int, int]:
        """How many queries there are of each length."""
        values, counts = np.unique(self.length, return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))
