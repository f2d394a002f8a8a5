"""Known names that look like an unknown one: typing errors, other case, a missing prefix."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

BUCKETS = 64  # letter pairs are counted in this many buckets
CHUNK = 20_000  # names compared at a time: bounds the memory
SHORTLIST = 60  # names compared letter by letter
SIMILAR = 0.6  # difflib's own cutoff
WITHIN = 0.3  # added where the unknown name occurs inside a known one: a prefix was left away


def nearest_names(name: str, names: Sequence[str], count: int) -> list[str]:
    """At most `count` of `names`, most alike first; none where none is alike.

    Comparing letter by letter takes seconds for 75,000 names, so the names with the most letter pairs in common,
    counted with numpy, are compared, and those in which `name` occurs as it is.
    """
    wanted = name.casefold()
    if not wanted or not names:
        return []
    folded = [known.casefold() for known in names]
    holding = nsmallest(
        SHORTLIST,
        (index for index, known in enumerate(folded) if wanted in known),
        key=lambda index: len(folded[index]),
    )
    shortlist = {*holding, *_with_common_pairs(wanted, folded)}
    likeness = {index: _likeness(wanted, folded[index]) for index in shortlist}
    alike = [index for index in shortlist if likeness[index] >= SIMILAR]
    alike.sort(key=lambda index: (-likeness[index], len(names[index]), names[index]))
    return [names[index] for index in alike[:count]]


def _likeness(wanted: str, known: str) -> float:
    """From 0 to 1; 1 for names that differ in case alone."""
    if 2 * len(known) < SIMILAR * (len(wanted) + len(known)):
        return 0.0  # at most this alike by length; comparing a text of megabytes letter by letter would take minutes
    ratio = SequenceMatcher(None, wanted, known).ratio()
    if wanted != known and len(wanted) >= 3 and wanted in known:
        return min(max(ratio + WITHIN, SIMILAR), 0.99)
    return ratio


def _with_common_pairs(wanted: str, names: Sequence[str]) -> list[int]:
    """The positions of the `SHORTLIST` names whose letter pairs differ least from those of `wanted`."""
    pairs = _count_pairs([wanted])
    difference = np.concatenate(
        [
            np.abs(_count_pairs(names[first : first + CHUNK]) - pairs).sum(axis=1)
            for first in range(0, len(names), CHUNK)
        ]
    )
    return [int(index) for index in np.argsort(difference, kind="stable")[:SHORTLIST]]


def _count_pairs(names: Sequence[str]) -> NDArray[np.int64]:
    """How often each bucket of neighbouring bytes occurs in each name; shape [len(names), BUCKETS]."""
    encoded = [f" {name} ".encode(errors="replace") for name in names]
    text = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int64)
    owner = np.repeat(np.arange(len(names)), [len(name) for name in encoded])
    inside = owner[1:] == owner[:-1]
    bucket = (text[:-1] * 31 + text[1:]) % BUCKETS
    flat = np.bincount((owner[1:] * BUCKETS + bucket)[inside], minlength=len(names) * BUCKETS)
    return flat.reshape(len(names), BUCKETS)
