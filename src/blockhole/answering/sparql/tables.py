"""Solutions as tables: a column a variable, a row a solution, with its probability and whether it is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import QueryTooCostly

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

UNBOUND = -1
MOST_ROWS = 1_000_000
"""Solutions that any part of a query may have."""
_LARGEST_KEY = 2**62


@final
class TooManyRows(QueryTooCostly):
    """A part of a query, which brings these `variables` in, has more solutions than may be held."""

    def __init__(self, rows: int, variables: Sequence[str] = ()) -> None:
        self.rows = rows
        self.variables = tuple(variables)
        super().__init__(
            f"a part of the query has {rows:,} solutions, and {MOST_ROWS:,} are allowed; "
            "join its patterns by a variable they share, or name an entity in it."
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Solutions: ids [N, V] of terms, `UNBOUND` where a variable has none, p [N], known [N]."""

    variables: tuple[str, ...]
    ids: Ids
    p: Floats
    known: Mask

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, variables: Sequence[str], ids: Ids, p: Floats | None = None, known: Mask | None = None) -> Table:
        """A table whose rows are certain where nothing else is said."""
        count = len(ids)
        return cls(
            tuple(variables),
            ids.reshape(count, len(variables)),
            np.ones(count) if p is None else p,
            np.ones(count, dtype=bool) if known is None else known,
        )

    @classmethod
    def unit(cls) -> Table:
        """The one solution that binds nothing."""
        return cls.of((), np.zeros((1, 0), dtype=np.int64))

    @classmethod
    def empty(cls, variables: Sequence[str]) -> Table:
        """No solution."""
        return cls.of(variables, np.zeros((0, len(variables)), dtype=np.int64))

    def column(self, variable: str) -> Ids:
        """What a variable is bound to in each row: [N]."""
        found: Ids = self.ids[:, self.variables.index(variable)]
        return found

    def take(self, rows: Ids | Mask) -> Table:
        """Some rows, in the order given."""
        return Table(self.variables, self.ids[rows], self.p[rows], self.known[rows])

    def times(self, p: Floats, known: Mask) -> Table:
        """The same solutions under further conditions, which hold with probability p [N]."""
        return Table(self.variables, self.ids, self.p * p, self.known & known)

    def project(self, variables: Iterable[str]) -> Table:
        """The columns of some variables; one that the table lacks is unbound."""
        wanted = tuple(variables)
        columns = [
            self.column(name) if name in self.variables else np.full(len(self), UNBOUND, dtype=np.int64)
            for name in wanted
        ]
        ids = np.stack(columns, axis=1) if columns else np.zeros((len(self), 0), dtype=np.int64)
        return Table(wanted, ids, self.p, self.known)

    def best(self) -> Table:
        """Each solution once, with its largest probability."""
        key = keys(self.ids)
        order = np.lexsort((-self.p, key))
        first = order[_starts(key[order])]
        known = np.zeros(len(first), dtype=bool)
        if len(first):
            known = np.logical_or.reduceat(self.known[order], _starts(key[order]))
        return Table(self.variables, self.ids[first], self.p[first], known)

    def plausible(self, floor: float) -> Table:
        """The rows of at least a probability, and those that are known."""
        keep = (self.p >= floor) | self.known
        return self if keep.all() else self.take(keep)


def keys(ids: Ids) -> Ids:
    """A number for every row, equal for equal rows: [N, V] → [N]."""
    key = np.zeros(len(ids), dtype=np.int64)
    size = 1
    for column in ids.T:
        values = column - column.min(initial=0)
        count = int(values.max(initial=0)) + 1
        if size * count >= _LARGEST_KEY:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            size = len(ids)
        if size * count >= _LARGEST_KEY:
            values = np.unique(values, return_inverse=True)[1].astype(np.int64)
            count = len(ids)
        key, size = key * count + values, size * count
    return key


def _starts(ordered: Ids) -> Ids:
    """Where the runs of equal numbers begin: [N] → [G]."""
    begins = np.ones(len(ordered), dtype=bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(begins)


def stacked(tables: Sequence[Table], variables: Sequence[str]) -> Table:
    """The rows of several tables, one after the other, over all these variables."""
    if not tables:
        return Table.empty(variables)
    parts = [table.project(variables) for table in tables]
    check_rows(sum(map(len, parts)))
    return Table(
        tuple(variables),
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.p for part in parts]),
        np.concatenate([part.known for part in parts]),
    )


def check_rows(rows: int) -> None:
    """Refuse more rows than may be held."""
    if rows > MOST_ROWS:
        raise TooManyRows(rows)


# Joins


def join(left: Table, right: Table, floor: float = 0.0) -> Table:
    """The compatible pairs of rows, p being the product; those below `floor` are left out unless they are known."""
    more = [name for name in right.variables if name not in left.variables]
    try:
        first, second = matches(left, right)
    except TooManyRows as failure:
        raise TooManyRows(failure.rows, more) from None
    p, known = left.p[first] * right.p[second], left.known[first] & right.known[second]
    if floor > 0:
        keep = (p >= floor) | known
        first, second, p, known = first[keep], second[keep], p[keep], known[keep]
    own, other = left.ids[first], right.ids[second]
    columns = []
    for place, name in enumerate(left.variables):
        column = own[:, place]
        if name in right.variables:
            column = np.where(column == UNBOUND, other[:, right.variables.index(name)], column)
        columns.append(column)
    columns += [other[:, right.variables.index(name)] for name in more]
    ids = np.stack(columns, axis=1) if columns else np.zeros((len(p), 0), dtype=np.int64)
    return Table((*left.variables, *more), ids, p, known)


def matches(left: Table, right: Table, *, sharing: bool = False) -> tuple[Ids, Ids]:
    """The rows of two tables that are compatible: equal wherever both are bound; [P], [P].

    With `sharing`, they must be bound in at least one variable together, as MINUS asks for.
    """
    shared = [name for name in left.variables if name in right.variables]
    own, other = left.project(shared).ids, right.project(shared).ids
    found: list[tuple[Ids, Ids]] = []
    total = 0
    for mask, rows in _by_bound(own):
        for their_mask, their_rows in _by_bound(other):
            both = np.flatnonzero(mask & their_mask)
            if sharing and not len(both):
                continue
            pairs = _equal_pairs(own[rows][:, both], other[their_rows][:, both], MOST_ROWS - total)
            total += len(pairs[0])
            found.append((rows[pairs[0]], their_rows[pairs[1]]))
    if not found:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    first, second = (np.concatenate(each) for each in zip(*found, strict=True))
    return first, second


def _by_bound(ids: Ids) -> list[tuple[Mask, Ids]]:
    """Rows by which of their columns are bound."""
    bound = ids != UNBOUND
    if bound.all():
        return [(np.ones(ids.shape[1], dtype=bool), np.arange(len(ids)))] if len(ids) else []
    masks, place = np.unique(bound, axis=0, return_inverse=True)
    return [(mask, np.flatnonzero(place.reshape(-1) == number)) for number, mask in enumerate(masks)]


def _equal_pairs(left: Ids, right: Ids, most: int) -> tuple[Ids, Ids]:
    """The pairs of equal rows: [N, V], [M, V] → [P], [P]."""
    key = keys(np.concatenate([left, right]))
    own, other = key[: len(left)], key[len(left) :]
    order = np.argsort(other, kind="stable")
    first = np.searchsorted(other[order], own, side="left")
    count = np.searchsorted(other[order], own, side="right") - first
    total = int(count.sum())
    if total > most:
        raise TooManyRows(total)
    rows = np.repeat(np.arange(len(left)), count)
    within = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    return rows, order[np.repeat(first, count) + within]
