"""Compiled loop behind the exact index: the best scores of each query, kept while all of them pass by in tiles.

A row keeps every score that is at most `slack` below the k-th best it has seen. Its threshold rises only when its
buffer is full, to what the k-th best of the buffer allows: so almost every score is dismissed by one comparison, many
of them at a time, and the few others cost little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockhole.compiled import njit

_LANE = 64
"""Scores compared together before any of them is looked at."""


class Kept(NamedTuple):
    """What B rows have kept: the first `size` of `score` and `column`, all of them at least `low`.

    `crowded` rows had more scores to keep than there was room for, and are not kept any further.
    Shapes: low [B] float32, size [B] int64, crowded [B] bool, score [B, room] float32, column [B, room] int64.
    """

    low: NDArray[np.float32]
    size: NDArray[np.int64]
    crowded: NDArray[np.bool_]
    score: NDArray[np.float32]
    column: NDArray[np.int64]

    @classmethod
    def nothing(cls, rows: int, room: int) -> Kept:
        """Room for so many scores of each row; minus infinity is no score."""
        return cls(
            low=np.full(rows, np.finfo(np.float32).min, dtype=np.float32),
            size=np.zeros(rows, dtype=np.int64),
            crowded=np.zeros(rows, dtype=bool),
            score=np.empty((rows, room), dtype=np.float32),
            column=np.empty((rows, room), dtype=np.int64),
        )


@njit
def keep_best(tile: NDArray[np.float32], first: int, count: int, slack: NDArray[np.float32], kept: Kept) -> None:
    """Go on with the scores of the columns from `first`: what can be among the `count` best is kept; [B, W], [B]."""
    rows, width = tile.shape
    room = kept.score.shape[1]
    for row in range(rows):
        for begin in range(0, width, _LANE):
            lane = tile[row, begin : min(begin + _LANE, width)]
            low = kept.low[row]
            # Written so that the compiler makes it one comparison of many numbers.
            passes = np.int32(0)
            for i in range(len(lane)):
                passes |= np.int32(lane[i] >= low)
            if not passes or kept.crowded[row]:
                continue
            for i in range(len(lane)):
                if kept.size[row] == room:
                    raise_threshold(row, count, slack[row], kept)
                if lane[i] >= kept.low[row]:
                    if kept.size[row] == room:
                        kept.crowded[row] = True
                        break
                    kept.score[row, kept.size[row]] = lane[i]
                    kept.column[row, kept.size[row]] = first + begin + i
                    kept.size[row] += 1


@njit
def raise_threshold(row: int, count: int, slack: float, kept: Kept) -> None:
    """Drop what a row need not keep: all that is more than `slack` below its `count`-th best."""
    score, column, size = kept.score[row], kept.column[row], kept.size[row]
    if size < count:
        return
    low = max(kept.low[row], np.float32(np.partition(score[:size], size - count)[size - count] - slack))
    left = 0
    for i in range(size):
        if score[i] >= low:
            score[left], column[left] = score[i], column[i]
            left += 1
    kept.low[row], kept.size[row] = low, left


@njit
def finish(count: int, slack: NDArray[np.float32], kept: Kept) -> None:
    """Drop what no row needs to keep, now that every score has been seen."""
    for row in range(len(slack)):
        raise_threshold(row, count, slack[row], kept)
