"""How long an answer is looked for."""

from __future__ import annotations

from time import monotonic
from typing import final

from blockhole.errors import OutOfTime


@final
class Deadline:
    """A moment `seconds` from now; searches that can take long look at it as they go."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = monotonic() + seconds

    def check(self) -> None:
        """Raise `OutOfTime` when the moment has passed."""
        if monotonic() > self._end:
            raise OutOfTime(f"no answer was found within {self.seconds:g} s; ask for shorter paths, or again later.")
