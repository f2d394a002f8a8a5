"""The objects of positives, drawn by a compiled loop: the numbers that `KeyedDraws.draw` gives, without its tensors.

Seven tensors of the batch's size are what `splitmix.below` writes on its way to one; where the loops of a step take a
tenth of a second per epoch, they took a tenth of that, on one thread.
"""

from __future__ import annotations

import numpy as np

from blockhole.compiled import njit
from blockhole.training.kernels.fused_arrays import Ids

STEP, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
HALF = np.uint64(32)


@njit
def draw_objects(key: int, entities: Ids, target: Ids, out: Ids) -> None:
    """out [positive, 1 + k]: the target, then k of the `entities`, all as likely; see `splitmix.below`."""
    choices = np.uint64(len(entities))
    counter = np.uint64(key)
    for x in range(len(target)):
        out[x, 0] = target[x]
        for slot in range(1, out.shape[1]):
            z = counter * STEP
            z = (z ^ (z >> np.uint64(30))) * FIRST
            z = (z ^ (z >> np.uint64(27))) * SECOND
            z = z ^ (z >> np.uint64(31))
            out[x, slot] = entities[((z >> HALF) * choices) >> HALF]
            counter += np.uint64(1)
