"""Where each entity occurs in a batch: occurrences sorted by row, so that every row has one owner."""

from __future__ import annotations

import numpy as np

from blockhole.compiled import njit
from blockhole.training.kernels.fused_arrays import Keys, Rows

ROW_SHIFT, PLACE_MASK = np.uint64(32), np.uint64(2**32 - 1)
"""A key is entity << 32 | place, and a place is x << slot_bits | slot: slot `slot` of row x of the batch."""

DIGIT_BITS = 11
"""Most bits of a row that one pass looks at: 2048 counters fit the nearest cache."""


@njit(inline="always")
def slot_bits(slots: int) -> np.uint64:
    """How many bits the slots of a row take: its objects 0 … slots - 1, and `slots` for its source."""
    bits = np.uint64(0)
    while slots >> bits:
        bits += np.uint64(1)
    return bits


def count_occurrences(rows: int, positives: int, slots: int) -> int:
    """How many keys a batch has: all slots and the source of a positive, the target and the source of other rows."""
    return positives * (slots + 1) + (rows - positives) * 2


@njit
def sort_occurrences(batch: Rows, keys: Keys, spare: Keys, num_entities: int) -> Keys:
    """The keys of a batch, ascending by entity, then by place; they end in `keys` or in `spare`.

    A radix sort, lowest digit first: two passes over the 16 bits of WN11's ids.
    """
    source, objects = batch.source, batch.objects
    count, slots = objects.shape
    shift = slot_bits(slots)
    at = 0
    for x in range(count):
        place = np.uint64(x) << shift
        for slot in range(slots if x < batch.positives else 1):
            keys[at] = (np.uint64(objects[x, slot]) << ROW_SHIFT) | place | np.uint64(slot)
            at += 1
        keys[at] = (np.uint64(source[x]) << ROW_SHIFT) | place | np.uint64(slots)
        at += 1
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
