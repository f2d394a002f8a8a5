"""One batch of path queries, as tensors on the training device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from blockhole.training.corruptions import Corruptions


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Positives of one length: source [batch], path [batch, hop], target [batch], int64 ids on one device.

    All rows of a batch have the same number of hops (the trainer groups by length), so no mask is needed.
    `epoch` and `index` name the batch; together with the run's seed they determine every random draw made for it,
    which is what makes a resumed run equal to an undisturbed one. `corruptions` are there where each positive has its
    own, checked beforehand.
    """

    source: Tensor
    path: Tensor
    target: Tensor
    epoch: int
    index: int
    corruptions: Corruptions | None = None

    def tensors(self) -> list[Tensor]:
        """All tensors of the batch, in an order of their own."""
        own = [self.source, self.path, self.target]
        return own if self.corruptions is None else [*own, self.corruptions.paths, self.corruptions.false]

    def clone(self) -> Batch:
        """The same batch in memory of its own."""
        source, path, target, *corruptions = (
            ids.clone(memory_format=torch.contiguous_format) for ids in self.tensors()
        )
        return Batch(source, path, target, self.epoch, self.index, Corruptions(*corruptions) if corruptions else None)
