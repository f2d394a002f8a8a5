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
    def of_paths(cls, sources: Sequence[int], paths: Sequence[Sequence[int]]) -> PathQueries:
        """Paths of any lengths from given sources, to be answered: their targets are 0 and mean nothing."""
        length = np.array([len(path) for path in paths], dtype=np.int32)
        padded = np.zeros((len(paths), length.max(initial=1)), dtype=np.int32)
        for row, path in enumerate(paths):
            padded[row, : len(path)] = path
        return cls(np.array(sources, dtype=np.int32), padded, length, np.zeros(len(paths), dtype=np.int32))

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


# One number for each path query, to sort and compare queries by

_MOST = np.iinfo(np.int64).max


def query_codes(queries: PathQueries) -> NDArray[np.int64]:
    """Equal for two queries just if (source, path, target) are equal, and in that order; shape [N].

    Codes of different calls cannot be compared.
    """
    return _fold([queries.source, *_hops(queries), queries.target])


def path_codes(queries: PathQueries) -> NDArray[np.int64]:
    """Equal for two queries just if their paths are equal, whatever their source and target; shape [N]."""
    return _fold(_hops(queries))


def _hops(queries: PathQueries) -> list[NDArray[np.int32]]:
    """Column j is 0 where a path has no hop j, else one more than the relation, so that padding differs from all."""
    return [
        np.where(queries.length > hop, queries.path[:, hop] + np.int32(1), np.int32(0))
        for hop in range(queries.path.shape[1])
    ]


def _fold(columns: Sequence[NDArray[np.int32]]) -> NDArray[np.int64]:
    """Read the columns as the digits of one number, first column highest; shape [N]."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    span = 1
    for column in columns:
        base = int(column.max(initial=0)) + 1
        if span * base > _MOST:
            # Too wide for 64 bits: ranks keep the order, and there are no more of them than rows.
            distinct, code = np.unique(code, return_inverse=True)
            span = len(distinct)
        code = code * base
        code += column
        span *= base
    return code
