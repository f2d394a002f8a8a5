"""Random draws that are named, not remembered: functions of seed, purpose, epoch and batch, on every device."""

from __future__ import annotations

from enum import IntEnum
from typing import final

import numpy as np
import torch
from torch import Tensor


class Purpose(IntEnum):
    """What a draw is for; draws for different purposes are independent of one another."""

    ORDER = 1
    NEGATIVES = 2
    CORRUPTION = 3
    WALKS = 4
    DROPOUT = 5


def generator(seed: int, purpose: Purpose, epoch: int = 0, batch: int = 0) -> np.random.Generator:
    """The generator of one batch's draws for one purpose.

    Philox turns (key, counter) into random numbers directly, so nothing has to be saved to continue a run: epoch and
    batch are the upper words of the counter, and the draws of one batch count through the lower two.
    """
    return np.random.Generator(np.random.Philox(counter=[0, 0, batch, epoch], key=[seed, int(purpose)]))


def draw_key(seed: int, purpose: Purpose, epoch: int = 0, batch: int = 0) -> int:
    """Where the numbers of one batch begin that are drawn by counting: number n, from 0, stands at the key + n."""
    return int(generator(seed, purpose, epoch, batch).integers(2**63))


# SplitMix64 on tensors, the same bits on every device. `queries/walks.py` has it for NumPy, without torch, and compiled
# from there for the fused step: torch knows no unsigned shift, so neither can serve the other.


def splitmix64(counter: Tensor) -> Tensor:
    """64 random bits for each counter, an unsigned number stored as a signed one; arithmetic wraps."""
    z = counter * -0x61C8864680B583EB
    z = (z ^ shift(z, 30)) * -0x40A7B892E31B1A47
    z = (z ^ shift(z, 27)) * -0x6B2FB644ECCEEE15
    return z ^ shift(z, 31)


def shift(z: Tensor, bits: int) -> Tensor:
    """z >> bits of an unsigned number that is stored as a signed one."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def below(counter: Tensor, choices: Tensor | int) -> Tensor:
    """The numbers 0 … choices - 1 that stand at `counter`: the upper 32 of its bits, scaled."""
    return (shift(splitmix64(counter), 32) * choices) >> 32


# Draws made where the batch is, from a key that lies there: a recorded step draws anew whenever its key changes.


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
        self._key.fill_(draw_key(self._seed, self._purpose, epoch, batch))
        self._drawn = 0

    def draw(self, choices: int, *shape: int) -> Tensor:
        """The next numbers 0 … choices - 1: int64 of `shape`."""
        first, count = self._drawn, torch.Size(shape).numel()
        self._drawn += count
        return below(self._key + torch.arange(first, first + count, device=self._key.device), choices).view(shape)
