"""One number for each path query, to sort and compare queries by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blockhole.paths.queries import PathQueries

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
