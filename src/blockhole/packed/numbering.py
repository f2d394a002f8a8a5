"""Names numbered without holding them: 128 bits of each stay in memory, its letters go to a Parquet file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

import numpy as np
from numpy.typing import NDArray

from blockhole.compiled import njit

if TYPE_CHECKING:
    import polars as pl


_TOGETHER = 1 << 20
"""Names that are written in one go."""
_FIRST_SLOTS = 1 << 16
_SEEDS = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F


@final
class PackedNames:
    """Names numbered in order of first appearance, `listed` names first, and written to `path` when it is closed.

    Name i has row i of `_fingerprint` [capacity, 2], two hashes of its letters: among 100 million names two share both
    with a chance of 1e-23. `_slots` hold numbers from 1 where a name may be, found by linear probing, and 0 elsewhere.
    That makes 22 to 29 bytes a name, however long; in a table that also holds its letters it takes over 100.
    """

    def __init__(self, path: Path, listed: Sequence[str] = ()) -> None:
        import polars as pl

        self._path = path
        self._parts = Path(tempfile.mkdtemp(prefix=f".{path.stem}.", dir=path.parent))
        self._waiting: list[pl.Series] = []
        self._written = self._count = 0
        self._slots = np.zeros(_FIRST_SLOTS, dtype=np.uint32)
        self._fingerprint = np.empty((_FIRST_SLOTS, 2), dtype=np.uint64)
        self.number(pl.Series(listed, dtype=pl.String))

    def __len__(self) -> int:
        return self._count

    def number(self, names: pl.Series) -> NDArray[np.uint32]:
        """The ids of a column of names, new names added; shape [len(names)]."""
        first, second = (names.hash(seed).to_numpy() for seed in _SEEDS)
        ids, new = np.empty(len(names), dtype=np.uint32), np.zeros(len(names), dtype=np.bool_)
        done = 0
        while True:
            done, self._count = _number(first, second, self._slots, self._fingerprint, self._count, ids, new, done)
            if done == len(names):
                break
            self._grow()
        self._waiting.append(names.filter(new))
        if self._count - self._written >= _TOGETHER:
            self._write_part()
        return ids

    def _grow(self) -> None:
        """Make room for more names: fingerprints by an eighth, in place, and twice the slots where these are full."""
        if self._count == len(self._fingerprint):
            self._fingerprint.resize((self._count + max(_FIRST_SLOTS, self._count // 8), 2), refcheck=False)
        if self._count == _most(len(self._slots)):
            self._slots = np.zeros(2 * len(self._slots), dtype=np.uint32)
            _fill(self._slots, self._fingerprint[: self._count])

    def _write_part(self) -> None:
        import polars as pl

        ids = np.arange(self._written, self._count, dtype=np.int32)
        names = pl.concat([pl.Series("name", dtype=pl.String), *(part.rename("name") for part in self._waiting)])
        # Parts are put together in the order of their names, so these must sort as numbers do.
        pl.DataFrame({"id": ids, "name": names}).write_parquet(self._parts / f"{self._written:012}.parquet")
        self._written, self._waiting = self._count, []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import polars as pl

        if kind is None:
            self._write_part()
            pl.scan_parquet(self._parts / "*.parquet").sink_parquet(self._path)
        for part in self._parts.iterdir():
            part.unlink()
        self._parts.rmdir()


@njit
def _most(slots: int) -> int:
    """Names that so many slots may hold: where they are fuller, looking a name up takes long."""
    return slots - slots // 4


@njit
def _number(
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    slots: NDArray[np.uint32],
    fingerprint: NDArray[np.uint64],
    count: int,
    ids: NDArray[np.uint32],
    new: NDArray[np.bool_],
    begin: int,
) -> tuple[int, int]:
    """Number names from `begin` on, as far as there is room; the first that is left, and how many names there are."""
    mask = np.uint64(len(slots) - 1)
    room = min(_most(len(slots)), len(fingerprint))
    for place in range(begin, len(first)):
        at = first[place] & mask
        while True:
            held = slots[at]
            if held == 0:
                if count == room:
                    return place, count
                slots[at] = count + 1
                fingerprint[count, 0], fingerprint[count, 1] = first[place], second[place]
                ids[place] = count
                new[place] = True
                count += 1
                break
            if fingerprint[held - 1, 0] == first[place] and fingerprint[held - 1, 1] == second[place]:
                ids[place] = held - 1
                break
            at = (at + np.uint64(1)) & mask
    return len(first), count


@njit
def _fill(slots: NDArray[np.uint32], fingerprint: NDArray[np.uint64]) -> None:
    """Put names 0, 1, … into empty slots."""
    mask = np.uint64(len(slots) - 1)
    for number in range(len(fingerprint)):
        at = fingerprint[number, 0] & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number + 1
