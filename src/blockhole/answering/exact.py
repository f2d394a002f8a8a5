"""The exact index: the best candidates by one float32 product, decided in float64 where float32 cannot.

A product in float32 differs from the exact score by at most `slack`·‖query‖. So whatever float32 puts further than twice
that below the k-th best is surely not among the k best; the few that remain are scored in float64 by the caller.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GROUP = 64
"""Scores whose maximum stands for them when a threshold is sought."""


@final
class ExactIndex:
    """All candidate vectors, searched whole; shape [E, width] float32, read-only, often a view of a file."""

    kind = "exact"

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors
        self._longest: float | None = None

    def shortlist(self, query: Tensor, count: int, candidates: NDArray[np.int32] | None = None) -> NDArray[np.int64]:
        """Entities among which the `count` best of `candidates` (None: of all) surely are; query [width] float64."""
        if candidates is not None and len(candidates) <= count:
            return candidates.astype(np.int64)
        rough = self._products(query[None].float(), candidates)
        _, column = self._select(rough, query.norm()[None], count)
        return column if candidates is None else candidates[column].astype(np.int64)

    def shortlists(
        self, queries: Tensor, count: int, candidates: NDArray[np.int32] | None, hidden: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same for a block of queries [B, width]: pairs of a row and an entity, by row; shapes [S], [S].

        `hidden` are flat positions row·C + column that are no candidates for their row.
        """
        rough = self._products(queries.float(), candidates)
        if hidden is not None:
            rough.numpy().reshape(-1)[hidden] = -np.inf
        row, column = self._select(rough, queries.norm(dim=1), count)
        return row, column if candidates is None else candidates[column].astype(np.int64)

    def _products(self, queries: Tensor, candidates: NDArray[np.int32] | None) -> Tensor:
        """Scores in float32: [B, width] → [B, C]."""
        if candidates is None:
            return queries @ self.vectors.T
        chosen = torch.from_numpy(candidates.astype(np.int64))
        # Gathering a row takes about four times as long as multiplying with it where it stands, for one query.
        if len(queries) > 1 or 4 * len(candidates) < len(self.vectors):
            return queries @ self.vectors[chosen].T
        return (queries @ self.vectors.T)[:, chosen]

    def _select(self, rough: Tensor, norms: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns of all scores that may be among the `count` best of their row."""
        if count >= rough.shape[1]:
            low = torch.full((len(rough), 1), torch.finfo(torch.float32).min)
        else:
            low = _at_most_kth(rough, count) - 2 * self._slack() * norms.float()[:, None]
        row, column = np.nonzero(rough.numpy() >= low.clamp_min(torch.finfo(torch.float32).min).numpy())
        return row, column

    def _slack(self) -> float:
        """A bound on |float32 score - exact score| for a query of norm 1: (width + 4) u max‖c‖, u = 2⁻²⁴."""
        if self._longest is None:
            self._longest = max(float(part.norm(dim=1).max()) for part in torch.split(self.vectors, 2**16))
        return (self.vectors.shape[1] + 4) * 2.0**-24 * self._longest


def _at_most_kth(scores: Tensor, k: int) -> Tensor:
    """A bound below the k-th largest of each row, and close to it: [B, C] → [B, 1].

    The k-th largest of the maxima of groups: k groups have a member at least as large. It reads the scores once, where a
    partial sort moves them several times.
    """
    groups = scores.shape[1] // _GROUP
    if groups < 4 * k:
        return torch.topk(scores, k, dim=1).values[:, -1:]
    whole = scores[:, : groups * _GROUP].view(len(scores), _GROUP, groups)
    return torch.topk(whole.amax(dim=1), k, dim=1).values[:, -1:]
