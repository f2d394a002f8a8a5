"""Where each entity occurs in a batch: occurrences sorted by row, so that every row has one owner."""

from __future__ import annotations

import numpy as np

from blockhole.compiled import njit
from blockhole.training.kernels.fused_arrays import Keys, Positives

ROW_SHIFT = np.uint64(32)
"""A key is row << 32 | occurrence."""

DIGIT_BITS = 11
"""Most bits of a row that one pass looks at: 2048 counters fit the nearest cache."""


@njit
def sort_occurrences(batch: Positives, keys: Keys, spare: Keys, num_entities: int) -> Keys:
    """The keys of a batch, ascending by row; they end in `keys` or in `spare`.

    Occurrence x·slots + slot is an object of positive x, and batch·slots + x its source. A radix sort, lowest digit
    first: two passes over 16 bits of WN11's ids, a third of the time of a comparison sort.
    """
    source, objects = batch.source, batch.objects
    count, slots = objects.shape
    for x in range(count):
        for slot in range(slots):
            keys[x * slots + slot] = (np.uint64(objects[x, slot]) << ROW_SHIFT) | np.uint64(x * slots + slot)
        keys[count * slots + x] = (np.uint64(source[x]) << ROW_SHIFT) | np.uint64(count * slots + x)
    bits = 1
    while (num_entities - 1) >> bits:
        bits += 1
    passes = (bits + DIGIT_BITS - 1) // DIGIT_BITS
    digit_bits = (bits + passes - 1) // passes
    mask = np.uint64((1 << digit_bits) - 1)
    start = np.empty((1 << digit_bits) + 1, np.int64)
    for number in range(passes):
        shift = ROW_SHIFT + np.uint64(number * digit_bits)
        start[:] = 0
        for key in keys:
            start[((key >> shift) & mask) + np.uint64(1)] += 1
        for value in range(1 << digit_bits):
            start[value + 1] += start[value]
        for key in keys:
            digit = (key >> shift) & mask
            spare[start[digit]] = key
            start[digit] += 1
        keys, spare = spare, keys
    return keys
