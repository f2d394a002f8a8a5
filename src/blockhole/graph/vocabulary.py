"""Names and their ids: found by id, by name, by how a name begins, and by what it looks like."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, final, overload
from unicodedata import is_normalized, normalize

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, UnknownName, counted, why
from blockhole.graph.parquet import reading_parquet

if TYPE_CHECKING:
    import polars as pl


@final
class Vocabulary:
    """An immutable list of distinct names; the id of a name is its position.

    `kind` ("entity" or "relation") is what errors call a name that is not here. Names in a file stay there. A name is
    also found if it is the same in Unicode's composed form (NFC), or if it begins with one of the `prefixes` of RDF:
    `ex:a` finds `http://example.org/a`. Names stay as they are.
    """

    def __init__(self, names: Iterable[str], kind: str = "entity", prefixes: Mapping[str, str] | None = None) -> None:
        self._names: tuple[str, ...] | StoredNames = names if isinstance(names, StoredNames) else tuple(names)
        self.kind = kind
        self.prefixes = dict(prefixes or {})

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

    @cached_property
    def alphabetical(self) -> NDArray[np.int32]:
        """The place of each name among all names in order: [N]."""
        places = np.empty(len(self), dtype=np.int32)
        if isinstance(self._names, StoredNames):
            order = self._names.column.arg_sort().to_numpy()  # by UTF-8, which is in order of characters
        else:  # without polars, which a machine lent for its GPU does not have
            order = np.array(sorted(range(len(self)), key=self._names.__getitem__), dtype=np.int64)
        places[order] = np.arange(len(self))
        return places

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
        return isinstance(name, str) and self.find(name) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary) or len(self) != len(other):
            return False
        if isinstance(self._names, tuple) and isinstance(other._names, tuple):
            return self._names == other._names
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), *self._names[:1], *self._names[-1:]))

    def __repr__(self) -> str:
        return f"Vocabulary({counted(len(self), f'{self.kind} name')})"

    def id(self, name: str) -> int:
        """The id of `name`; raises `UnknownName` with suggestions."""
        found = self.find(name)
        if found is None:
            raise UnknownName(self.kind, name, self.nearest(name))
        return found

    def ids(self, names: Iterable[str]) -> NDArray[np.int32]:
        """The ids of many names, shape [len(names)]."""
        if isinstance(self._names, tuple):
            return np.fromiter((self.id(name) for name in names), dtype=np.int32)
        names = list(names)
        found = self._names.find_many(names).copy()
        for place in np.flatnonzero(found == len(self)):
            found[place] = self.id(names[place])  # or raises that it is unknown
        return found.astype(np.int32)

    def find(self, name: str) -> int | None:
        """The id of `name`, if it has one."""
        found = self._find(name)
        if found is None and (iri := self.expanded(name)) is not None:
            found = self._find(iri)
        return self._find_composed(name) if found is None and not name.isascii() else found

    def _find(self, name: str) -> int | None:
        return self._ids.get(name) if isinstance(self._names, tuple) else self._names.find(name)

    def _find_composed(self, name: str) -> int | None:
        """The only name that is equal to `name` once accents are composed with their letters."""
        composed = normalize("NFC", self.expanded(name) or name)
        found = self._find(composed)
        return self._decomposed.get(composed) if found is None else found

    @cached_property
    def _decomposed(self) -> dict[str, int]:
        """The ids of names that are not composed, by what they are then; none that two names are."""
        found: dict[str, list[int]] = {}
        for i, name in enumerate(self._names):
            if not is_normalized("NFC", name):
                found.setdefault(normalize("NFC", name), []).append(i)
        return {name: ids[0] for name, ids in found.items() if len(ids) == 1}

    def expanded(self, name: str) -> str | None:
        """What a name with a prefix stands for; None where it has none that is known."""
        prefix, colon, local = name.partition(":")
        return self.prefixes[prefix] + local if colon and prefix in self.prefixes else None

    def shortened(self, name: str) -> str:
        """A name with the longest prefix that it begins with, or as it is: the inverse of `expanded`."""
        fitting = [(len(iri), prefix) for prefix, iri in self.prefixes.items() if iri and name.startswith(iri)]
        for length, prefix in sorted(fitting, reverse=True):
            short = f"{prefix}:{name[length:]}"
            if len(name) > length and self._find(short) is None:
                return short
        return name

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """The known names that look most like `name`, its prefix written out, best first; empty when none is close."""
        return nearest_names(self.expanded(name) or name, self._names, count)


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
            with reading_parquet(self._path):
                column = pl.read_parquet(self._path, columns=["name"])["name"]
        except (OSError, pl.exceptions.PolarsError) as failure:
            raise DataError(f"{self._path}: cannot be read ({why(failure)}); pack the graph again.") from None
        if column.dtype != pl.String or column.null_count():
            raise DataError(f"{self._path}: holds names that are not text; pack the graph again.")
        if len(column) != self._count:
            raise DataError(
                f"{self._path}: holds {counted(len(column), 'name')}, not {self._count:,}; pack the graph again."
            )
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


# Names found by how they begin, or by what they hold, in capitals or not.


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


# Known names that look like an unknown one: typing errors, other case, a missing prefix.


BUCKETS = 64  # letter pairs are counted in this many buckets
CHUNK = 20_000  # names compared at a time: bounds the memory
SHORTLIST = 60  # names compared letter by letter
SIMILAR = 0.6  # difflib's own cutoff
WITHIN = 0.3  # added where the unknown name occurs inside a known one: a prefix was left out


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
