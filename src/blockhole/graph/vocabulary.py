"""Names and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import UnknownName


@final
class Vocabulary:
    """An immutable list of distinct names; the id of a name is its position.

    `kind` ("entity" or "relation") is what errors call a name that is not here.
    """

    def __init__(self, names: Iterable[str], kind: str = "entity") -> None:
        self._names: Sequence[str] = tuple(names)
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

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getitem__(self, index: int) -> str:
        return self._names[index]

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {self.kind} names)"

    def id(self, name: str) -> int:
        """The id of `name`; raises `UnknownName` with suggestions."""
        try:
            return self._ids[name]
        except KeyError:
            raise UnknownName(self.kind, name, self.nearest(name)) from None

    def ids(self, names: Iterable[str]) -> NDArray[np.int32]:
        """The ids of many names, shape [len(names)]."""
        return np.fromiter((self.id(name) for name in names), dtype=np.int32)

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """The known names that look most like `name`, best first; empty when none is close."""
        from blockhole.graph.nearest_names import nearest_names

        return nearest_names(name, self._names, count)
