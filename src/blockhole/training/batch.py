"""One batch of path queries, as tensors on the training device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Positives of one length: source [batch], path [batch, hop], target [batch], int64 ids on one device.

    All rows of a batch have the same number of hops (the trainer groups by length), so no mask is needed.
    `epoch` and `index` name the batch; together with the run's seed they determine every random draw made for it,
    which is what makes a resumed run equal to an undisturbed one.
    """

    source: Tensor
    path: Tensor
    target: Tensor
    epoch: int
    index: int
