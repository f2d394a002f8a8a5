"""Names that stay in one column of a Parquet file, for vocabularies too large for Python strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, final, overload

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_TOGETHER = 1 << 16
"""Names turned into Python strings at a time."""


@final
class StoredNames(Sequence[str]):
    """The column `name` of a Parquet file of `count` rows, in id order; read when a name is first asked for.

    A column takes 16 bytes a name, and its letters where these are more than 12; a tuple of Python strings and the
    dictionary of their ids take 200. Finding a name means looking at all of them: 20 ms over ten million.
    """

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._count = count

    @cached_property
    def column(self) -> pl.Series:
        """All names, in id order."""
        import polars as pl

        try:
            column = pl.read_parquet(self._path, columns=["name"])["name"]
        except (OSError, pl.exceptions.PolarsError) as failure:
            reason = str(failure).splitlines()[0]
            raise DataError(f"{self._path}: cannot be read ({reason}); pack the graph again.") from None
        if len(column) != self._count:
            raise DataError(f"{self._path}: holds {len(column):,} names, not {self._count:,}; pack the graph again.")
        return column

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for first in range(0, self._count, _TOGETHER):
            yield from self.column[first : first + _TOGETHER].to_list()

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            part: list[str] = self.column[index].to_list()
            return part
        return str(self.column[int(index)])  # NumPy's integers too

    def find(self, name: str) -> int | None:
        """The id of a name; absent where there is no such name."""
        hit = self.column == name
        place = hit.arg_max()
        return place if place is not None and hit[place] else None

    def find_many(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The ids of names [len(names)], and the number of all names for one that is not there."""
        import polars as pl

        wanted = pl.DataFrame({"name": pl.Series(names, dtype=pl.String)})
        ids = pl.DataFrame({"name": self.column, "id": np.arange(self._count)})
        found = wanted.join(ids, on="name", how="left", maintain_order="left")["id"]
        return found.fill_null(self._count).to_numpy()
