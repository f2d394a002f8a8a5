"""The probability of a hop (s, r, o): what every answer's probability is made of.

A model gives two shares: f = softmax over o of α φ(s, r, o), that of o among all objects of (s, r), and b, that of s
among all subjects of (r, o), which the inverse relation gives. n_f and n_b are the numbers of known ones, at least one.
η_o is how often an entity with as many known subjects of r as o has more of them, η_s the same of the objects of s: a
child whose father is known has room for no other. σ is 1 but for o = s: how often a fact of r leads from an entity to
itself. τ is 1 but for relations of whose likely objects hardly any is true. Then

    x = ½ (n_f f + n_b b) η_s η_o σ τ + 1 / 10 E

and the curve of `calibration` makes a probability p(s, r, o) of x and of κ_o, which says whether o is of a kind that r
takes, and how often r takes new objects; the odds against there being one more, 1/η - 1 of s and of o, are added to
those against o, so that p is below both η. Where no object of (s, r) is known and others have L at most, rivals exclude
each other, and p is at most L (f η_o σ τ + 1 / 10 E). A fact has p = 1. Read backwards,
(o, r⁻¹, s) has the same x but for τ, another κ and another L: what a question names is taken to be of the right kind,
and to have what is asked for. A witness, which it does not name, counts ω, the square root of its κ as a subject of r.
`calibrating` fits α, τ, κ and the curve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.normalisers import Normalisers
from blockhole.answering.vectors import WALKED, diverged
from blockhole.answering.vectors import Floats as Floats
from blockhole.answering.vectors import Table as Table
from blockhole.machine import one_blas_thread

if TYPE_CHECKING:
    from blockhole.answering.calibration import Curve
    from blockhole.answering.known import KnownFacts
    from blockhole.answering.vectors import Vectors

Ids = NDArray[np.integer]
Mask = NDArray[np.bool_]

SURE = 0.9999
"""No prediction is surer than this: only a fact is certain."""
LANES = 4
"""Vectors are multiplied in blocks of this many, the last padded: a number is then the same in whatever company, and
wherever in memory. The product of a single vector would depend on how the table is aligned."""
_FULL = 0.05
"""A count is a limit where fewer than this share of those that reach it pass it; all other counts leave room."""
HIGHEST = np.float32(60)
"""The largest logarithm of a share, for a sampled normaliser may be much too small; float32 ends at 88."""
NEW_OBJECTS = 1.0
"""c, where no calibration has fitted it."""
NO_DOUBTS: Mapping[int, float] = MappingProxyType({})
"""τ of relations, where no calibration has fitted any."""
NEW = -1e-3
"""log κ of an object that is new to a relation, at most."""
UNLIKE = 1e-3
"""ε: how much of an entity counts that is like none which a relation takes."""
_LIKELY = 0.01
"""κ of an entity that is new to a relation and like those that it has, at least."""
_WALKED = 4096
_CACHED = 2**17
"""Numbers of a table that stay in a processor's cache while rows are multiplied with them: 512 KiB."""
_WHOLE = 12
"""Candidates are multiplied by so many: libraries sum up what remains beside whole tiles in another order, and the last
bits of a number would depend on how many others there are. It is a multiple of all tiles that OpenBLAS has here."""
_SMALL = 10**6
"""Products of numbers in a small matrix product: libraries compute it from the matrices where they lie, and pack those
of larger ones anew for each, which takes as long again as a lane's product."""
_TOGETHER = 2**23
"""Numbers of candidates that are put together once for all rows of a relation: 32 MiB."""
_KEPT = 2**25
"""Numbers of typed candidates that stay put together for later questions: 128 MiB."""
_LOOKED = 2**20
"""Shares in memory together where none but the largest of a row is wanted."""
_ROWS = 2**24
"""Numbers in rows that stay for later searches: 64 MiB."""
_WIDE = 2**12
"""Numbers in a row that is worth keeping: relations with so many objects leave from few entities, which often recur."""
_ROUNDING = 1e-3
"""How far the logarithm of a share may be off by rounding, beside what the products of vectors are."""


def log_room_of(more: Ids, as_many: Ids) -> Floats:
    """log η where of `as_many` entities with at least as many objects so many have `more`: [N], [N] → [N].

    To take a count for a limit, two entities that have more are added, so that one which few reach proves nothing; to η
    itself, a quarter of one.
    """
    limit = (more + 2) / (as_many + 2) < _FULL
    room: Floats = np.where(limit, np.log((more + 0.25) / (as_many + 0.25)), 0.0)
    return room


def limit_of(counts: Ids) -> float:
    """L, the number of objects that hardly any entity passes, by the counts of those that have some; inf if none.

    It is the least count whose η is below 1.
    """
    ascending = np.sort(counts)
    count, first, having = np.unique(ascending, return_index=True, return_counts=True)
    as_many = len(ascending) - first
    limits = count[log_room_of(as_many - having, as_many) < 0]
    return float(limits[0]) if len(limits) else np.inf


def log_self_of(loops: Ids, facts: Ids) -> Floats:
    """log σ where of so many `facts` so many lead from an entity to itself: [N], [N] → [N].

    As with η, a quarter of one is added, and it counts where fewer than one in twenty do.
    """
    own: Floats = np.where(loops < _FULL * facts, np.log((loops + 0.25) / (facts + 0.25)), 0.0)
    return own


@final
@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The entities that rows of one relation lead to, ascending, or all, and what is the same in every row.

    Candidates that are few are put together in `table` once; many are where a row is computed, part by part.
    Shapes: table [C, width], behind [C] log n_b minus the normaliser of b, room [C] log η_o, kind [C] log κ_o, full [C]
    1/η_o - 1, absent where all have room; `doubt` is log τ.
    """

    relation: int
    inverse: int
    entities: Ids | None
    table: Table | None
    behind: Table
    room: Table
    kind: Table
    full: Table | None
    doubt: np.float32

    def __len__(self) -> int:
        return len(self.behind)

    def themselves(self, sources: Ids) -> tuple[Ids, Ids]:
        """Where sources stand among the columns: rows and columns, [N], [N]."""
        if self.entities is None:
            return np.arange(len(sources)), sources
        if not len(self.entities):
            return sources[:0], sources[:0]
        place = np.minimum(self.entities.searchsorted(sources), len(self.entities) - 1)
        row = np.flatnonzero(self.entities[place] == sources)
        return row, place[row]

    @property
    def index(self) -> Ids | slice:
        """Where they stand among all entities."""
        return slice(None) if self.entities is None else self.entities


@final
class _KeptRows:
    """Rows of hops for the searches to come; where there is no more room, those go that were wanted longest ago."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], Table] = {}
        self._numbers = 0
        self._lock = Lock()

    def of(self, relation: int, sources: Ids, compute: Callable[[Ids], Table]) -> Table:
        """The rows of a relation from some entities, of which those that are not kept are computed: [S, C]."""
        keys = [(relation, source) for source in sources.tolist()]
        found = {key: row for key in keys if (row := self._rows.get(key)) is not None}
        missing = [key for key in keys if key not in found]
        if missing:
            rows = compute(np.array([source for _, source in missing]))
            found |= {key: row.copy() for key, row in zip(missing, rows, strict=True)}  # a view would keep them all
        with self._lock:
            for key, row in found.items():
                self._numbers += row.size if self._rows.pop(key, None) is None else 0
                self._rows[key] = row
            while self._numbers > _ROWS:
                self._numbers -= self._rows.pop(next(iter(self._rows))).size
        return np.stack([found[key] for key in keys])


@final
class Hops:
    """The probabilities of hops, by rows: from some entities to all, or to some, along one relation."""

    def __init__(
        self,
        vectors: Vectors,
        candidates: Table,
        known: KnownFacts,
        scale: float | Floats,
        curve: Curve | None,
        table: Table | None = None,
        new_objects: float = NEW_OBJECTS,
        doubts: Mapping[int, float] = NO_DOUBTS,
    ) -> None:
        self._vectors = vectors
        self._known = known
        self._new_objects = new_objects
        self._doubts = doubts
        self._kinds: dict[int, Table] = {}
        self._leaving: dict[int, Floats] = {}
        self.scale = scale
        self.curve = curve
        self._candidates = candidates
        self.normalisers = Normalisers(vectors, candidates, known, scale, table)
        self._counts: dict[int, Table] = {}
        self._selves: dict[int, float] = {}
        self._room: dict[int, Table] = {}
        self._spare: dict[int, Table | None] = {}
        self._typed: dict[int, Columns] = {}
        self._rows = _KeptRows()
        self._limits: dict[int, Table] = {}
        self._stretches: dict[int, float] = {}

    def forget(self, relation: int) -> None:
        """Let go of the numbers of every entity that rows of a relation and of its inverse are computed with."""
        kept: tuple[dict[int, Any], ...] = (self._counts, self._room, self._spare, self._kinds, self.normalisers.rows)
        for each in (relation, self._known.graph.inverse(relation)):
            for tables in kept:
                tables.pop(each, None)

    def known_counts(self, relation: int) -> Table:
        """log max(n, 1) for the number n of known objects of (s, r), every s: [E]."""
        if relation not in self._counts:
            sources, objects = self._known.object_counts(relation)
            size = np.zeros(self._vectors.num_entities, dtype=np.float32)
            size[sources] = np.log(objects)
            self._counts[relation] = size
        return self._counts[relation]

    def log_room(self, relation: int) -> Table:
        """log η of every s: of the entities with at least as many known objects of r, the share that has more; [E].

        It is 0 for an s that has none: what is not known at all is missing.
        """
        if relation not in self._room:
            sources, size = self._known.object_counts(relation)
            room = np.zeros(self._vectors.num_entities, dtype=np.float32)
            if len(size):
                ascending = np.sort(size)
                more = len(size) - np.searchsorted(ascending, size, side="right")
                as_many = len(size) - np.searchsorted(ascending, size, side="left")
                room[sources] = log_room_of(more, as_many)
            self._room[relation] = room
        return self._room[relation]

    def spare(self, relation: int) -> Table | None:
        """L of every s that has no known object of r, inf of every other; [E], or None where nothing limits them."""
        if relation not in self._spare:
            sources, objects = self._known.object_counts(relation)
            limit, spare = limit_of(objects), None
            if np.isfinite(limit):
                spare = np.full(self._vectors.num_entities, limit, dtype=np.float32)
                spare[sources] = np.inf
            self._spare[relation] = spare
        return self._spare[relation]

    def log_doubt(self, relation: int) -> np.float32:
        """log τ: how much less often a relation's likely objects are true than others' that look as likely."""
        return np.float32(np.log(self._doubts.get(relation, 1.0)))

    def log_self(self, relation: int) -> float:
        """log σ of a hop from an entity to itself: nobody is his own brother, as facts have it, however alike both ends
        are.
        """
        if relation not in self._selves:
            source, target = self._known.edges.edges(relation)
            loops, facts = np.array([(source == target).sum()]), np.array([len(source)])
            self._selves[relation] = float(log_self_of(loops, facts)[0])
        return self._selves[relation]

    def log_kind(self, relation: int) -> Table:
        """log κ of every o: whether it is of a kind that r takes; [E].

        κ is 1 where r takes o in the graph. Elsewhere it is c ν_r (a + ε), where a is the largest share that r takes of
        the entities of one of o's kinds: of those that have a capital, say, hardly any is someone's father.
        """
        if relation not in self._kinds:
            adjacency, count = self._known.graph.adjacency, self._vectors.num_entities
            inverse = self._known.graph.inverse(relation)
            shares = self._known.kind_shares(inverse)[adjacency.group_relation]
            likeness = np.zeros(count, dtype=np.float32)
            with_facts = np.flatnonzero(np.diff(adjacency.group_start))
            if len(with_facts):
                likeness[with_facts] = np.maximum.reduceat(shares, adjacency.group_start[:-1][with_facts])
            kind = self.log_unlike(likeness, self._known.object_counts(inverse)[1])
            kind[self._known.candidates(relation)] = 0.0
            self._kinds[relation] = kind
        return self._kinds[relation]

    def leaving(self, relation: int, named: Sequence[int] = ()) -> Floats:
        """ω of every s: how much it counts as a witness that r leaves from, 1 where the query has `named` it; [E].

        It is √κ, with the κ that s has as an object of r⁻¹: 1 where r leaves s in the graph. The share of a hop from s
        tells its kind too, and κ itself, which says what the odds of an object are, would count that twice.
        """
        if relation not in self._leaving:
            kind = self.log_kind(self._known.graph.inverse(relation))
            self._leaving[relation] = np.exp(0.5 * kind.astype(np.float64))
        own = self._leaving[relation]
        if named:
            own = own.copy()
            own[list(named)] = 1.0
        return own

    def kinds(self, relation: int) -> tuple[Mask, Mask]:
        """Which entities r takes in the graph, and which are like them though it does not: [E], [E]."""
        typed = np.zeros(self._vectors.num_entities, dtype=bool)
        typed[self._known.candidates(relation)] = True
        return typed, ~typed & (self.log_kind(relation) >= np.log(_LIKELY))

    def log_unlike(self, likeness: Table, counts: Ids, one_less: bool = False) -> Table:
        """log c ν (a + ε): log κ of entities that a relation does not take, by a: [N] → [N].

        ν is how often the next fact has an object that the relation never had, which Good and Turing estimate by how
        often a fact has one that no other has; `counts` are the facts of each object, [O], one of them with `one_less`.
        An object that is new to r never has the κ of one that is not, however alike they are.
        """
        once, facts = int((counts == 1).sum()) - one_less, int(counts.sum()) - one_less
        new = np.float32(self._new_objects * (once + 0.5) / (facts + 1))
        kind: Table = np.log(new * (likeness + np.float32(UNLIKE)))
        return np.minimum(kind, np.float32(NEW), out=kind)

    def columns(self, relation: int, targets: Ids | None = None) -> Columns:
        """What rows of a relation are computed with, for hops to some entities or to every one."""
        index = slice(None) if targets is None else targets
        inverse = self._known.graph.inverse(relation)
        table = self._candidates if targets is None else None
        if targets is not None and len(targets) * self._candidates.shape[1] <= _TOGETHER:
            table = self._candidates.take(targets, axis=0)  # which is faster than brackets
        behind = self.known_counts(inverse)[index] - self.normalisers.of(inverse)[index]
        room = self.log_room(inverse)[index]
        full = np.expm1(-room) if room.any() else None
        kind, doubt = self.log_kind(relation)[index], self.log_doubt(relation)
        return Columns(relation, inverse, targets, table, behind, room, kind, full, doubt)

    def typed_columns(self, relation: int) -> Columns:
        """The columns of T(r), kept for the next question while there is room."""
        columns = self._typed.get(relation)
        if columns is None:
            columns = self.columns(relation, self._known.candidates(relation))
            size = 0 if columns.table is None else columns.table.size
            while (
                self._typed
                and size + sum(each.table.size for each in self._typed.values() if each.table is not None) > _KEPT
            ):
                self._typed.pop(next(iter(self._typed)), None)  # the one that was put together first
            self._typed[relation] = columns
        return columns

    @np.errstate(over="ignore", invalid="ignore")
    def values(self, sources: Ids, columns: Columns) -> Table:
        """p of the hop from each source to each column, facts as if they were none: [S, C].

        Without a curve it is x κ. Each number is the same bit for bit whatever sources come with it.
        """
        forward, backward = self._halves(*self._scores(sources, columns), sources, columns)
        most = None if self.curve is None else self._left_by_rivals(forward, sources, columns.relation)
        return self._probabilities(self._joined(forward, backward), sources, columns, most)

    def kept_values(self, sources: Ids, columns: Columns) -> Table:
        """The same for a search, by rows of earlier ones where these are kept; not to be written to."""
        if len(columns) < _WIDE or columns is not self._typed.get(columns.relation):
            return self.values(sources, columns)
        return self._rows.of(columns.relation, sources, lambda missing: self.values(missing, columns))

    def _probabilities(self, share: Table, sources: Ids, columns: Columns, most: Table | None = None) -> Table:
        """p by x, which is written over, and by what rivals leave: [S, C] → [S, C]."""
        if self.curve is not None:
            room = self.log_room(columns.relation)[sources]
            full = np.expm1(-room)[:, None] if room.any() else None
            share = self.curve.probability(share, columns.kind, full, columns.full)
        else:
            share *= np.exp(columns.kind)
        if most is not None:
            np.minimum(share, most, out=share)
        return np.minimum(share, np.float32(SURE), out=share)

    def _left_by_rivals(self, forward: Table, sources: Ids, relation: int, times: float = 1.0) -> Table | None:
        """What p cannot pass beside rivals that exclude each other, by f η_o σ τ or so many `times` it: [S, C].

        None where nothing is limited.
        """
        spare = self.spare(relation)
        if spare is None:
            return None
        own = spare[sources]
        rows = np.flatnonzero(np.isfinite(own))
        if not len(rows):
            return None
        even, most = np.float32(0.1 / self._vectors.num_entities), np.full_like(forward, np.inf)
        most[rows] = (np.float32(times) * forward[rows] + even) * own[rows, None]
        return most

    @property
    def has_limits(self) -> bool:
        """Whether hops can be bounded: the model walks back, and is asked with the rows of entities as they are."""
        model = self._vectors.model
        return model.has_matrices and model.plain_candidates

    def limits(self, relation: int) -> Table:
        """What p of a hop from s to any object in T(r), known ones apart, cannot pass, by s; 1 if not looked at: [E].

        What `look` finds stays, as long as the engine: a number for each entity and relation that searches come by.
        """
        if relation not in self._limits:
            self._limits.setdefault(relation, np.ones(self._vectors.num_entities, dtype=np.float32))
        return self._limits[relation]

    def look(self, sources: Ids, relation: int) -> int:
        """Work out the `limits` of some entities, in a third of the time of their rows; how many numbers were seen."""
        return sum(self.looks(sources, relation))

    def looks(self, sources: Ids, relation: int) -> Iterator[int]:
        """The same, a few milliseconds at a time."""
        columns, every = self.typed_columns(relation), np.sort(sources)
        assert columns.entities is not None
        any_column = replace(columns, kind=np.zeros(1, dtype=np.float32), full=None)
        size = max(LANES, _LOOKED // max(len(columns), 1))
        for first in range(0, len(every), size):
            part = every[first : first + size]
            fact, target = self._known.edges_from(part, relation)
            facts = part.searchsorted(fact), columns.entities.searchsorted(target)
            most = self._largest_share(part, columns, facts)[:, None]
            self.limits(relation)[part] = self._probabilities(most, part, any_column)[:, 0]
            yield len(part) * len(columns)

    def at_most(self, sources: Ids, columns: Columns) -> tuple[Table, float]:
        """What p of each hop cannot pass, and the share of it that p surely reaches: [S, C]; columns are of T(r)."""
        share, rivals = self._largest_shares(sources, columns)
        most = self._probabilities(share, sources, columns, rivals)
        curve = self.curve
        steepest = 1.0 if curve is None else max(curve.low_slope, curve.slope, curve.top_slope, 1.0)
        # p grows no faster than x to the power of the steepest slope.
        return most, float(np.exp(-2.0 * steepest * self._slack(sources, columns).max(initial=0.0)))

    @np.errstate(over="ignore", invalid="ignore")
    def _largest_shares(self, sources: Ids, columns: Columns) -> tuple[Table, Table | None]:
        """What x of the hop from each source to each column, and p beside rivals, cannot pass: [S, C].

        It is `_halves` in as few passes as there can be, for its last bits do not matter.
        """
        (forward, ahead), (backward, here) = self._rough_halves(sources, columns)
        forward += ahead[:, None]
        backward += here[:, None]
        np.exp(forward, out=forward)
        most = None if self.curve is None else self._left_by_rivals(forward, sources, columns.relation, 2.0)
        forward += np.exp(backward, out=backward)
        return self._rough(forward), most

    @np.errstate(over="ignore", invalid="ignore")
    def _largest_share(self, sources: Ids, columns: Columns, facts: tuple[Ids, Ids]) -> Table:
        """What x of no hop from each source can pass, those at `facts` apart: [S].

        The largest of each half may be of two columns; but an exponential is taken for each source, not for each hop.
        """
        share = np.zeros(len(sources), dtype=np.float32)
        for score, own in self._rough_halves(sources, columns):
            score[facts] = -np.inf
            share += np.exp(score.max(axis=1, initial=-np.inf) + own)
        return self._rough(share)

    def _rough_halves(self, sources: Ids, columns: Columns) -> list[tuple[Table, Table]]:
        """The logarithms of both halves of x, rounding counted in, as sums: [S, C] of hops and [S] of sources."""
        relation = columns.relation
        forward, backward = self._rough_scores(sources, columns)
        own = self.log_self(relation)
        if own:
            row, column = columns.themselves(sources)
            for score in (forward, backward):
                score[row, column] += np.float32(own)
        forward += columns.room
        backward += columns.behind + columns.room
        here = (
            self.log_room(relation)[sources] + self._slack(sources, columns) + columns.doubt + np.float32(np.log(0.5))
        )
        ahead = here + self.known_counts(relation)[sources] - self.normalisers.of(relation)[sources]
        return [(forward, ahead), (backward, here)]

    def _rough(self, share: Table) -> Table:
        """x with the tenth of an even share that every hop has, which is written over."""
        share += np.float32(0.1 / self._vectors.num_entities)
        if np.isnan(share.min(initial=0.0)):
            raise diverged("the model's scores for this query")
        return share

    def _slack(self, sources: Ids, columns: Columns) -> Table:
        """How far two products of the same vectors, in whatever order they are summed up, may be apart: [S].

        Each is off by less than width · 2⁻²³ of the product of norms, and no vector is longer than its entity's
        stretched by the relation, whichever side is walked.
        """
        stretch = max(self._stretch(columns.relation), self._stretch(columns.inverse)) * float(np.max(self.scale))
        targets = self._norms if columns.entities is None else self._norms[columns.entities]
        slack: Table = self._norms[sources] * np.float32(
            2.0**-22 * self._candidates.shape[1] * stretch * targets.max(initial=0.0)
        )
        return slack + np.float32(_ROUNDING)

    @cached_property
    def _norms(self) -> Table:
        """The norm of every entity's vector: [E]."""
        norms: Table = np.sqrt(np.einsum("ij,ij->i", self._candidates, self._candidates))
        return norms

    def _stretch(self, relation: int) -> float:
        """How many times longer a vector may be after a hop: √(‖W‖₁ ‖W‖∞), at least the largest singular value."""
        if relation not in self._stretches:
            width = self._vectors.entity.shape[1]
            operator = np.abs(self._vectors.model.hop(np.eye(width), np.full(width, relation)))
            largest = operator.sum(axis=0).max() * operator.sum(axis=1).max()
            self._stretches[relation] = float(np.sqrt(largest))
        return self._stretches[relation]

    @np.errstate(over="ignore", invalid="ignore")
    def into(self, target: int, relation: int) -> Table:
        """p of the hop from every entity to one, facts as if they were none: [E].

        It is a row of the inverse, but for κ, τ and the rivals of the one, which are the other objects of each source.
        """
        columns = self.columns(self._known.graph.inverse(relation))
        kind = np.full_like(columns.kind, self.log_kind(relation)[target])
        columns = replace(columns, kind=kind, doubt=self.log_doubt(relation))
        here = np.array([target])
        forward, backward = self._halves(*self._scores(here, columns), here, columns)
        most = None
        if self.curve is not None:
            most = self._left_by_rivals(backward.T, np.arange(self._vectors.num_entities), relation)
        share = self._joined(forward, backward)
        row: Table = self._probabilities(share, here, columns, None if most is None else most.T)[0]
        return row

    @np.errstate(over="ignore", invalid="ignore")
    def shares(self, sources: Ids, columns: Columns) -> Table:
        """x of the hop from each source to each column: [S, C].

        A tenth of an even share is added: no model is so sure that something is wrong as its exponents make it seem.
        """
        return self._joined(*self._halves(*self._scores(sources, columns), sources, columns))

    @np.errstate(over="ignore", invalid="ignore")
    def _halves(self, forward: Table, backward: Table, sources: Ids, columns: Columns) -> tuple[Table, Table]:
        """n_f f and n_b b, times η_s η_o σ τ, by both scores, which are written over: [S, C], [S, C]."""
        relation = columns.relation
        ahead = self.known_counts(relation)[sources] - self.normalisers.of(relation)[sources]
        room = self.log_room(relation)[sources] + columns.doubt
        own = self.log_self(relation)
        if own:
            row, column = columns.themselves(sources)
            for score in (forward, backward):
                score[row, column] += np.float32(own)
        forward += (ahead + room)[:, None]
        forward += columns.room
        backward += columns.behind + columns.room
        backward += room[:, None]
        for score in (forward, backward):
            np.exp(np.minimum(score, HIGHEST, out=score), out=score)
        return forward, backward

    def _joined(self, forward: Table, backward: Table) -> Table:
        """x by its halves, the first of which is written over: [S, C], [S, C] → [S, C]."""
        forward += backward
        if np.isnan(forward.min(initial=0.0)):
            raise diverged("the model's scores for this query")
        forward *= np.float32(0.5)
        forward += np.float32(0.1 / self._vectors.num_entities)
        return forward

    @np.errstate(over="ignore", invalid="ignore")
    def composed(self, vector: Floats, scale: float | Floats) -> Floats:
        """α times the scores of one query vector with every candidate: [1, width] → [E]."""
        lane = _upright(np.repeat(scale * vector, LANES, axis=0))
        score = np.empty(len(self._candidates))
        with one_blas_thread():
            for first in range(0, len(score), _CACHED):
                score[first : first + _CACHED] = (self._candidates[first : first + _CACHED] @ lane)[:, 0]
        return score

    def _scores(self, sources: Ids, columns: Columns) -> tuple[Table, Table]:
        """α φ(s, r, o) and α φ(o, r⁻¹, s): [S, C], [S, C]."""
        count = len(sources)
        padded = np.concatenate([sources, np.repeat(sources[-1:], -count % LANES)])
        lanes = list(self._lanes(padded, columns))
        forward, backward = (np.empty((count, len(columns)), dtype=np.float32) for _ in range(2))
        with one_blas_thread():  # products so small are over before other threads would have begun
            for own, part in self._parts(columns, _SMALL // (2 * LANES)):
                for place, (vectors, behind) in enumerate(lanes):
                    rows = slice(place * LANES, min((place + 1) * LANES, count))
                    used = rows.stop - rows.start
                    score = (part @ vectors)[: own.stop - own.start]  # twice as fast as what lies the other way
                    forward[rows, own] = score[:, :used].T
                    backward[rows, own] = score[:, -LANES:][:, :used].T if behind is None else behind[:used, own]
        return forward, backward

    def products(self, sources: Ids, columns: Columns) -> tuple[Table, Table]:
        """α φ(s, r, o) and α φ(o, r⁻¹, s) of many sources in one product: [C, S], [C, S].

        It is much faster than lanes; the last bits of a number depend on its company.
        """
        vectors, behind = self._lane(sources, columns)
        score = np.empty((len(columns) + -len(columns) % _WHOLE, vectors.shape[1]), dtype=np.float32)
        for own, part in self._parts(columns, _CACHED):
            np.matmul(part, vectors, out=score[own.start : own.start + len(part)])
        score = score[: len(columns)]
        forward, backward = score[:, : len(sources)], score[:, -len(sources) :]
        return forward, backward if behind is None else behind.T

    def _rough_scores(self, sources: Ids, columns: Columns) -> tuple[Table, Table]:
        """The same scores up to rounding, for a model that walks back; the smaller side is walked: [S, C], [S, C]."""
        model, scale = self._vectors.model, self.scale
        with one_blas_thread():
            if columns.entities is None or len(sources) <= len(columns):
                forward, backward = self.products(sources, columns)
                return forward.T, backward.T.copy() if model.tied else backward.T
            rows = self._candidates[columns.entities].astype(np.float64)
            walked = [scale * model.hop_back(rows, np.full(len(rows), columns.relation))]
            if not model.tied:
                walked.append(scale * model.hop(rows, np.full(len(rows), columns.inverse)))
            score = self._vectors.entity[sources] @ _upright(np.concatenate(walked))
        backward = score[:, -len(rows) :]
        return score[:, : len(rows)], backward.copy() if model.tied else backward

    def _parts(self, columns: Columns, numbers: int) -> Iterator[tuple[slice, Table]]:
        """The candidates of columns, in parts of so many numbers, few enough to stay in the cache between lanes.

        What is left beside whole dozens is a part of its own, filled up with its last candidate.
        """
        size = max(_WHOLE, numbers // self._candidates.shape[1] // _WHOLE * _WHOLE)
        whole = len(columns) // _WHOLE * _WHOLE
        for own in (slice(first, min(first + size, whole)) for first in range(0, whole, size)):
            if columns.table is not None:
                yield own, columns.table[own]
            else:
                assert columns.entities is not None
                yield own, self._candidates.take(columns.entities[own], axis=0)
        if whole < len(columns):
            rest = np.minimum(np.arange(whole, whole + _WHOLE), len(columns) - 1)
            table = self._candidates if columns.table is None else columns.table
            index = rest if columns.table is not None or columns.entities is None else columns.entities[rest]
            yield slice(whole, len(columns)), table.take(index, axis=0)

    def _lanes(self, sources: Ids, columns: Columns) -> Iterator[tuple[Table, Table | None]]:
        """What `_lane` gives for each eight of the sources; many are walked together, as far as no bit changes."""
        model = self._vectors.model
        together = WALKED // self._vectors.entity.shape[1] // LANES * LANES or LANES
        if not (model.tied or model.has_matrices):
            together = LANES  # scores behind are products too, whose last bits depend on how wide they are
        for first in range(0, len(sources), together):
            part = sources[first : first + together]
            vectors, behind = self._lane(part, columns)
            ahead, back = vectors[:, : len(part)], vectors[:, len(part) :]
            for place in range(0, len(part), LANES):
                own = slice(place, place + LANES)
                lane = ahead[:, own] if not back.shape[1] else np.concatenate([ahead[:, own], back[:, own]], axis=1)
                yield np.ascontiguousarray(lane), None if behind is None else behind[own]

    def _lane(self, sources: Ids, columns: Columns) -> tuple[Table, Table | None]:
        """What a table of candidates is multiplied with for the scores of a lane ahead, and then behind: [width, ·].

        Where the model says nothing of how to walk back, the scores behind come as they are.
        """
        model, start = self._vectors.model, self._vectors.rows(sources)
        forward = self.scale * self._vectors.walk(start, [columns.relation])
        if model.tied:
            return _upright(forward), None
        if model.has_matrices:
            backward = self.scale * model.hop_back(start, np.full(len(sources), columns.inverse))
            return _upright(np.concatenate([forward, backward])), None
        # Every target asks for the sources.
        targets = np.arange(self._vectors.num_entities) if columns.entities is None else columns.entities
        answer = _upright(self.scale * self._vectors.candidates(sources))
        asked = [
            self._vectors.walk(self._vectors.rows(targets[first : first + _WALKED]), [columns.inverse]).astype(
                np.float32
            )
            @ answer
            for first in range(0, len(targets), _WALKED)
        ]
        return _upright(forward), np.concatenate(asked).T


def _upright(vectors: Floats) -> Table:
    """Vectors as the columns of a matrix, rounded: [N, width] → [width, N]."""
    return np.ascontiguousarray(vectors.astype(np.float32).T)
