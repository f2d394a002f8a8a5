"""Names found by how they begin, or by what they hold, in capitals or not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

_BETWEEN = "\0"


@final
class NameIndex:
    """The names of a vocabulary in alphabetical order, case folded; all results are ids.

    Sorted once, a beginning is found by bisection. What lies within a name is found by reading all of them as one
    text, which takes about 10 ms for a million names.
    """

    def __init__(self, names: Sequence[str]) -> None:
        folded = [name.casefold() for name in names]
        order = sorted(range(len(names)), key=lambda i: (folded[i], names[i]))
        self._order = np.array(order, dtype=np.int32)
        self.folded = [folded[i] for i in order]

    def __len__(self) -> int:
        return len(self.folded)

    def beginning(self, typed: str, count: int) -> list[int]:
        """At most `count` names that begin with `typed`, in order."""
        start = typed.casefold()
        first = last = bisect_left(self.folded, start)
        while last < min(first + count, len(self)) and self.folded[last].startswith(start):
            last += 1
        return self.ids(range(first, last))

    def holding(self, typed: str, count: int) -> list[int]:
        """At most `count` names that hold `typed` behind their beginning, in order."""
        wanted = typed.casefold()
        if not wanted or _BETWEEN in wanted:
            return []
        found: list[int] = []
        at = self._text.find(wanted)
        while at >= 0 and len(found) < count:
            place = int(np.searchsorted(self._starts, at, side="right")) - 1
            if not self.folded[place].startswith(wanted):
                found.append(place)
            if place + 1 == len(self):
                break
            at = self._text.find(wanted, int(self._starts[place + 1]))
        return self.ids(found)

    def ids(self, places: Sequence[int]) -> list[int]:
        """The ids of the names at these places of the order."""
        ids: list[int] = self._order[np.asarray(places, dtype=np.int64)].tolist()
        return ids

    @cached_property
    def _text(self) -> str:
        return _BETWEEN.join(self.folded)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where each name begins in the text of all: [count]."""
        lengths = np.fromiter((len(name) + len(_BETWEEN) for name in self.folded), dtype=np.int64, count=len(self))
        return np.cumsum(lengths) - lengths
