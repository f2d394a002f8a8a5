"""Entity names that what was typed may become."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest

from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from blockhole.graph.name_index import NameIndex

_CHUNK = 10_000
"""Names compared at a time: Python's lock is held for a few milliseconds, and then others have their turn."""
_SHORTEST = 3
_ALIKE = 0.7


def similar(index: NameIndex, typed: str, count: int) -> list[int]:
    """At most `count` ids of names that begin almost as `typed`: letters swapped, wrong, missing or too many.

    Beginnings one letter longer than what was typed are compared, for the rest of the name is yet to come.
    """
    wanted = typed.casefold()
    if not _SHORTEST <= len(wanted) <= 64:
        return []
    best = nlargest(count, _alike(index, wanted, count), key=lambda found: (found[0], -found[1]))
    return index.ids([place for _, place in best])


def _alike(index: NameIndex, wanted: str, count: int) -> Iterator[tuple[float, int]]:
    """The best of each chunk of names, as likeness and place."""
    for first in range(0, len(index), _CHUNK):
        beginnings = [name[: len(wanted) + 1] for name in index.folded[first : first + _CHUNK]]
        found = extract(wanted, beginnings, scorer=OSA.normalized_similarity, score_cutoff=_ALIKE, limit=count)
        for _, likeness, place in found:
            yield likeness, first + place
