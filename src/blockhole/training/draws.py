"""Random draws that are named, not remembered: a generator for every purpose, epoch and batch."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


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
