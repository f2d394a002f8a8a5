"""Dropout whose masks are functions of names: seed, epoch, batch, positive and coordinate, on every device."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from blockhole.training.batch import Batch
from blockhole.training.draws import Purpose, generator
from blockhole.training.splitmix import shift, splitmix64

_BITS = 24


@final
class Dropout:
    """Sets a share `rate` of the coordinates of a query vector to 0 and scales the others by 1 / (1 - rate).

    A positive's mask hangs on the batch it stands in and on its ends, not on its row there, so that a batch cut into
    parts drops the same. The key of the batch lies on the device: a recorded step reads it where `begin` left it.
    """

    def __init__(self, rate: float, width: int, seed: int, device: torch.device) -> None:
        self._seed = seed
        self._scale = 1 / (1 - rate)
        self._threshold = round(rate * 2**_BITS)
        self._column = torch.arange(width, device=device)
        self._key = torch.zeros((), dtype=torch.int64, device=device)

    def begin(self, batch: Batch) -> None:
        """Fix the key of the draws that follow."""
        self._key.fill_(int(generator(self._seed, Purpose.DROPOUT, batch.epoch, batch.index).integers(2**63)))

    def draw(self, source: Tensor, target: Tensor) -> Tensor:
        """What the query vectors of these positives are multiplied with: [batch], [batch] → [batch, width]."""
        positive = splitmix64(self._key ^ ((source << 32) | target))
        drawn = shift(splitmix64(positive[:, None] + self._column), 64 - _BITS)
        return drawn.ge(self._threshold).float() * self._scale
