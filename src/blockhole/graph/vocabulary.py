"""Names and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import UnknownName
from blockhole.graph.nearest_names import nearest_names
from blockhole.graph.stored_names import StoredNames

if TYPE_CHECKING:
    import polars as pl


@final
class Vocabulary:
    """An immutable list of distinct names; the id of a name is its position.

    `kind` ("entity" or "relation") is what errors call a name that is not here. Names in a file stay there.
    """

    def __init__(self, names: Iterable[str], kind: str = "entity") -> None:
        self._names: tuple[str, ...] | StoredNames = names if isinstance(names, StoredNames) else tuple(names)
        self.kind = kind

    @cached_property
    def _ids(self) -> dict[str, int]:
        ids = {name: i for i, name in enumerate(self._names)}
        if len(ids) != len(self._names):
            raise ValueError(f"the {self.kind} names are not distinct")
        return ids

    @property
    def names(self) -> Sequence[str]:
        """All names, in id order."""
        return self._names

    def column(self) -> pl.Series:
        """All names, in id order, as a column."""
        import polars as pl

        return self._names.column if isinstance(self._names, StoredNames) else pl.Series("name", self._names, pl.String)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getitem__(self, index: int) -> str:
        return self._names[index]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary) or len(self) != len(other):
            return False
        if isinstance(self._names, tuple) and isinstance(other._names, tuple):
            return self._names == other._names
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), *self._names[:1], *self._names[-1:]))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {self.kind} names)"

    def id(self, name: str) -> int:
        """The id of `name`; raises `UnknownName` with suggestions."""
        found = self._find(name)
        if found is None:
            raise UnknownName(self.kind, name, self.nearest(name))
        return found

    def ids(self, names: Iterable[str]) -> NDArray[np.int32]:
        """The ids of many names, shape [len(names)]."""
        if isinstance(self._names, tuple):
            return np.fromiter((self.id(name) for name in names), dtype=np.int32)
        names = list(names)
        found = self._names.find_many(names)
        for place in np.flatnonzero(found == len(self)):
            self.id(names[place])  # raises that it is unknown
        return found.astype(np.int32)

    def _find(self, name: str) -> int | None:
        return self._ids.get(name) if isinstance(self._names, tuple) else self._names.find(name)

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """The known names that look most like `name`, best first; empty when none is close."""
        return nearest_names(name, self._names, count)
