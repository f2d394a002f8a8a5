"""What the run-time figure times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blockhole.errors import ConfigError, nearest_or_all

TIMED_DATA = "wn11"

DIMENSIONS = (128, 256, 384, 512, 640)
"""Multiples of 128: m is at least 16 for every b, below which the compiler leaves a hop's loops unvectorised."""

BLOCKS: dict[str, int | None] = {
    "blockhole-b1": 1,
    "blockhole-b2": 2,
    "blockhole-b4": 4,
    "blockhole-b8": 8,
    "rescal": None,
}
"""The curves: b of BlockHolE; RESCAL has no blocks."""

ROUNDS = 5


class TimingPlan(NamedTuple):
    """Which curves, at which n, and how many rounds, of which the best counts."""

    columns: tuple[str, ...]
    dimensions: tuple[int, ...]
    rounds: int

    @classmethod
    def of(
        cls, columns: Sequence[str] | None = None, dimensions: Sequence[int] | None = None, rounds: int | None = None
    ) -> TimingPlan:
        """The plan of the paper's figure, but for what is given."""
        chosen, sizes = tuple(columns or BLOCKS), tuple(sorted(set(dimensions or DIMENSIONS)))
        for column in chosen:
            if column not in BLOCKS:
                hint = nearest_or_all(column, BLOCKS, "its columns are")
                raise ConfigError(f"the table time has no column {column!r}; {hint}")
            for n in sizes:
                if n % (BLOCKS[column] or 1):
                    raise ConfigError(f"n = {n} cannot be cut into the {BLOCKS[column]} blocks of {column}.")
        if len(sizes) < 2:
            raise ConfigError("how time grows with n needs two different n at least; give --dimension twice.")
        return cls(chosen, sizes, rounds or ROUNDS)
