"""The exact index: the best candidates by one float32 product, decided in float64 where float32 cannot.

A product in float32 differs from the exact score by at most `slack`·‖query‖. So whatever float32 puts further than
twice that below the k-th best is surely not among the k best; the few that remain are scored in float64 by the caller.
"""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GROUP = 64
"""Scores whose maximum stands for them when a threshold is sought."""
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
        if candidates is None:
            return self.shortlists(query[None], count)[1]
        if len(candidates) <= count:
            return candidates.astype(np.int64)
        # Gathering a row takes about four times as long as multiplying with it where it stands.
        if 4 * len(candidates) < len(self.vectors):
            column = self.subset(candidates).shortlists(query[None], count)[1]
            return candidates[column].astype(np.int64)
        return self.shortlist_of(query[None].float() @ self.vectors.T, query, count, candidates)

    def shortlist_of(
        self, rough: Tensor, query: Tensor, count: int, candidates: NDArray[np.int32] | None
    ) -> NDArray[np.int64]:
        """The same where the float32 products of the query with all vectors are at hand: `rough` [1, C]."""
        if candidates is None:
            return self._select(rough, query[None], count)[1]
        column = self._select(rough[:, torch.from_numpy(candidates.astype(np.int64))], query[None], count)[1]
        return candidates[column].astype(np.int64)

    def shortlists(
        self, queries: Tensor, count: int, hidden: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns among which the `count` best of each query surely are, as pairs of a row and a column, by row.

        `hidden` are flat positions row·C + column that do not count. Shapes: [B, width] float64 → [S], [S].
        """
        rough = queries.float() @ self.vectors.T
        if hidden is not None:
            rough.numpy().reshape(-1)[hidden] = -np.inf
        return self._select(rough, queries, count)

    def _select(self, rough: Tensor, queries: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        slack = 2 * self._slack * queries.norm(dim=1, keepdim=True).float()
        groups = rough.shape[1] // _GROUP
        if groups >= 4 * count:
            return _above_kth_maximum(rough, slack, count, groups)
        if count < rough.shape[1]:
            low = (torch.topk(rough, count, dim=1).values[:, -1:] - slack).clamp_min(_LOWEST)
        else:
            low = torch.full((len(rough), 1), _LOWEST)
        return _positions(rough >= low)

    @cached_property
    def _slack(self) -> float:
        """A bound on |float32 score - exact score| for a query of norm 1: (width + 4) u max‖c‖, u = 2⁻²⁴."""
        if self._of is not None:
            return self._of._slack
        longest = max((float(part.norm(dim=1).max()) for part in torch.split(self.vectors, 2**16)), default=0.0)
        return (self.vectors.shape[1] + 4) * 2.0**-24 * longest


def _above_kth_maximum(
    scores: Tensor, slack: Tensor, k: int, groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of all scores [B, C] that are at most `slack` [B, 1] below the k-th largest, and a few others.

    The k-th largest maximum of groups of columns is at most the k-th largest score, for k groups have a member at least
    as large, and only groups whose maximum reaches it need a closer look. So the scores are read once, where a partial
    sort moves them several times.
    """
    whole = groups * _GROUP
    maxima = scores[:, :whole].reshape(len(scores), _GROUP, groups).amax(dim=1)
    low = (torch.topk(maxima, k, dim=1).values[:, -1:] - slack).clamp_min(_LOWEST)
    row, group = _positions(maxima >= low)
    members = group[:, None] + groups * np.arange(_GROUP)
    place, member = np.nonzero(scores.numpy()[row[:, None], members] >= low.numpy()[row])
    tail_row, tail = _positions(scores[:, whole:] >= low)
    rows, columns = np.concatenate([row[place], tail_row]), np.concatenate([members[place, member], whole + tail])
    order = np.argsort(rows, kind="stable")
    return rows[order], columns[order]


def _positions(flags: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    row, column = np.nonzero(flags.numpy())
    return row.astype(np.int64), column.astype(np.int64)
