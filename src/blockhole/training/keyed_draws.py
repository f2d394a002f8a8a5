"""Draws made where the batch is, from a key that lies there: a recorded step draws anew whenever its key changes."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from blockhole.training.draws import Purpose, generator
from blockhole.training.splitmix import below


@final
class KeyedDraws:
    """Uniform numbers for one purpose: functions of seed, epoch, batch and their order, the same on every device.

    `begin` leaves the key of a batch on its device; what is drawn afterwards reads nothing of the host.
    """

    def __init__(self, seed: int, purpose: Purpose) -> None:
        self._seed = seed
        self._purpose = purpose
        self._key = torch.zeros((), dtype=torch.int64)
        self._drawn = 0

    def begin(self, device: torch.device, epoch: int = 0, batch: int = 0) -> None:
        """Fix the key of the draws that follow."""
        if self._key.device != device:
            self._key = self._key.to(device)
        self._key.fill_(int(generator(self._seed, self._purpose, epoch, batch).integers(2**63)))
        self._drawn = 0

    @property
    def key(self) -> int:
        """Where the numbers of this batch begin: number n, from 0, stands at `key` + n; see `splitmix.below`."""
        return int(self._key)

    def draw(self, choices: int, *shape: int) -> Tensor:
        """The next numbers 0 … choices - 1: int64 of `shape`."""
        first, count = self._drawn, torch.Size(shape).numel()
        self._drawn += count
        return below(self._key + torch.arange(first, first + count, device=self._key.device), choices).view(shape)
