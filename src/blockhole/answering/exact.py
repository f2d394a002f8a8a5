"""The exact index: the best candidates by one float32 product, decided in float64 where float32 cannot.

A product in float32 differs from the exact score by at most `slack`·‖query‖. So whatever float32 puts further than
twice that below the k-th best is surely not among the k best; the few that remain are scored in float64 by the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GROUP = 64
"""Scores whose maximum stands for them when a threshold is sought."""
_TILE = 2**19
"""Scores computed at a time for many queries: 2 MiB, which stay near the processor until they have been scanned."""
_ROOM = 4
"""Scores that are kept of a query, before those that need not be are dropped: so many times those that are wanted."""
_LOWEST = torch.finfo(torch.float32).min


@final
class ExactIndex:
    """Candidate vectors, searched whole; shape [C, width] float32, read-only, often a view of a file."""

    def __init__(self, vectors: Tensor, of: ExactIndex | None = None) -> None:
        self.vectors = vectors
        self._of = of

    def subset(self, entities: NDArray[np.int32] | None) -> ExactIndex:
        """The index of some of the candidates, gathered once for many queries; None for all."""
        if entities is None:
            return self
        return ExactIndex(self.vectors[torch.from_numpy(entities.astype(np.int64))], of=self)

    def shortlist(self, query: Tensor, count: int, candidates: NDArray[np.int32] | None = None) -> NDArray[np.int64]:
        """Entities among which the `count` best of `candidates` (None: of all) surely are; query [width] float64."""
        if candidates is not None and len(candidates) <= count:
            return candidates.astype(np.int64)
        # Gathering a row takes about four times as long as multiplying with it where it stands.
        if candidates is not None and 4 * len(candidates) < len(self.vectors):
            rough = self.subset(candidates).vectors @ query.float()
            return candidates[self._near_best(rough, query, count)].astype(np.int64)
        return self.shortlist_of(self.vectors @ query.float(), query, count, candidates)

    def shortlist_of(
        self, rough: Tensor, query: Tensor, count: int, candidates: NDArray[np.int32] | None
    ) -> NDArray[np.int64]:
        """The same where the float32 products of the query with all vectors are at hand: `rough` [C]."""
        if candidates is None:
            return self._near_best(rough, query, count)
        rough = rough[torch.from_numpy(candidates.astype(np.int64))]
        return candidates[self._near_best(rough, query, count)].astype(np.int64)

    def shortlists(
        self, queries: Tensor, count: int, hidden: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns among which the `count` best of each query surely are, as pairs of a row and a column, by row.

        `hidden` are flat positions row·C + column that do not count. Shapes: [B, width] float64 → [S], [S].
        """
        from blockhole.answering.scan import Kept, finish, keep_best

        hidden = np.zeros(0, dtype=np.int64) if hidden is None else hidden
        kept = Kept.nothing(len(queries), min(_ROOM * (count + 16), len(self.vectors)))
        slack = (2 * self._slack * queries.norm(dim=1)).float().numpy()
        for first, tile in self._tiles(queries, hidden):
            keep_best(tile, first, count, slack, kept)
        finish(count, slack, kept)
        columns = [kept.column[row, : kept.size[row]] for row in range(len(queries))]
        for row in np.flatnonzero(kept.crowded).tolist():  # more near ties than there is room for
            own = hidden[hidden // len(self.vectors) == row] % len(self.vectors)
            visible = np.setdiff1d(np.arange(len(self.vectors), dtype=np.int32), own)
            columns[row] = self.shortlist(queries[row], count, visible)
        sizes = [len(column) for column in columns]
        return np.repeat(np.arange(len(queries)), sizes), np.concatenate([np.zeros(0, dtype=np.int64), *columns])

    def _tiles(self, queries: Tensor, hidden: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The scores of all queries for some columns after the other: the first of these, and [B, W] until the next."""
        rough = queries.float()
        size = max(1024, _TILE // max(len(queries), 1))
        buffer = torch.empty(len(queries) * min(size, len(self.vectors)))
        row, column = np.divmod(hidden, max(len(self.vectors), 1))
        order = np.argsort(column, kind="stable")
        row, column = row[order], column[order]
        for first in range(0, len(self.vectors), size):
            part = self.vectors[first : first + size]
            tile = torch.mm(rough, part.T, out=buffer[: len(queries) * len(part)].view(len(queries), len(part))).numpy()
            begin, end = np.searchsorted(column, (first, first + len(part)))
            tile[row[begin:end], column[begin:end] - first] = -np.inf
            yield first, tile

    def _near_best(self, rough: Tensor, query: Tensor, count: int) -> NDArray[np.int64]:
        """Positions of all scores that can be among the `count` best; [C] float32, [width] → [S]."""
        low = _at_most_kth(rough, count) - 2 * self._slack * float(query.norm())
        return np.flatnonzero(rough.numpy() >= np.float32(max(low, _LOWEST)))

    @cached_property
    def _slack(self) -> float:
        """A bound on |float32 score - exact score| for a query of norm 1: (width + 4) u max‖c‖, u = 2⁻²⁴."""
        if self._of is not None:
            return self._of._slack
        longest = max((float(part.norm(dim=1).max()) for part in torch.split(self.vectors, 2**16)), default=0.0)
        return (self.vectors.shape[1] + 4) * 2.0**-24 * longest


def _at_most_kth(scores: Tensor, k: int) -> float:
    """A number at most as large as the k-th largest score [C], and near to it.

    It is the k-th largest maximum of groups, for k groups have a member at least as large: so all scores are read once,
    where a partial sort moves them several times.
    """
    groups = len(scores) // _GROUP
    if groups >= 4 * k:
        scores = scores[: groups * _GROUP].reshape(_GROUP, groups).amax(dim=0)
    return float(torch.topk(scores, k).values[-1]) if k < len(scores) else _LOWEST
