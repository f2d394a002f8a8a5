"""How probable every entity is as an answer to many queries of one shape, or to single hops: what an evaluation ranks.

The values are those of `search`, but all of them are wanted and not the best alone, so nearly every plausible witness
has to be opened. Queries that follow the same relation share the rows: each is computed once, put to use and let go.
A last hop ends early once what is left can change no place of the entities `sought`. Each relation is followed by a
thread of its own, so torch should have no further ones (`machine.torch_threads`).

A step opens at most its `_NUMBERS` / E most probable witnesses. What the others could add is bounded as in `search`, so
a place that hangs on them is known to lie between two others, and whoever ranks can say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.hops import SURE, Columns, Ids, Table
from blockhole.answering.search import (
    PLAUSIBLE,
    Best,
    Bounds,
    Candidates,
    Evidence,
    combined,
    leaving_of,
    parts_of,
    weighed,
)
from blockhole.compiled import available_threads, over_rows
from blockhole.evaluation.ranking import Ranks
from blockhole.machine import resident_bytes, rows_within
from blockhole.queries.paths import PathQueries
from blockhole.queries.plans import Follow, Plan, Steps
from blockhole.queries.query_sets import QuerySet

if TYPE_CHECKING:
    import torch

    from blockhole.answering.engine import Engine
    from blockhole.evaluation.truth import Truth

_TOGETHER = 64
"""Rows that are computed together; a last hop looks after so many, twice so many, … whether it may end."""
_NUMBERS = 2**26
"""Numbers in the rows that one step of one query may open."""
_ASKED = 1024
"""Single hops of a relation that a thread ranks before progress is told."""
_TABLES = 7
"""Numbers of every entity that stay for a relation: counts, room and normalisers, ahead and back, and its limits."""
_AT_WORK = 5
"""Numbers that are in memory for each of a row while it is computed."""
_ARRAYS = 10
"""Arrays of E float64 numbers that one query holds at most: bounds of its steps, and what a hop works with."""


_LET_GO = Bounds(np.zeros(0), np.zeros(0))
"""Stands for the bounds of a step that no later one needs."""


@final
class Sweep:
    """An engine that is asked for the values of all entities, where hops lead to all `candidates`."""

    def __init__(self, engine: Engine, candidates: Candidates = "all") -> None:
        self._engine = engine
        self._candidates = candidates
        self._size = engine.graph.num_entities

    @property
    def bytes_per_query(self) -> int:
        """What one of several queries takes while they are asked together."""
        return 8 * _ARRAYS * self._size

    def bytes_ahead(self, queries: QuerySet) -> int:
        """What is made when queries are first asked, and stays: tables of relations, and room for rows."""
        return 4 * self._size * (_TABLES * len(queries.used("r")) + _AT_WORK * _TOGETHER * available_threads())

    def bounds(self, steps: Steps, ids: NDArray[np.int32], sought: Sequence[Ids]) -> list[Bounds]:
        """The bounds of every entity's value for each query of a shape, whose ids these are, [N, slots]; N × [E].

        They tell of the entities `sought` of each query how many others have a greater value, and how many the same.
        """
        plans = [Plan(steps, tuple(row)) for row in ids.tolist()]
        found: list[list[Bounds]] = [[] for _ in plans]
        last_use = {part: place for place, step in enumerate(steps) for part in parts_of(step)}
        for place, step in enumerate(steps):
            if isinstance(step, Follow):
                ends = place == len(steps) - 1
                own = self._follow(plans, place, [each[step.of] for each in found], sought if ends else None)
                for each, bounds in zip(found, own, strict=True):
                    each.append(bounds)
            else:
                for each, plan in zip(found, plans, strict=True):
                    each.append(combined(step, plan.ids, each, self._size))
            for each in found:
                for part, last in last_use.items():
                    if last == place:
                        each[part] = _LET_GO
        return [each[-1] for each in found]

    def _follow(
        self, plans: Sequence[Plan], place: int, before: Sequence[Bounds], sought: Sequence[Ids] | None
    ) -> list[Bounds]:
        """The bounds of a hop of all queries, by those of the step that it starts at."""
        step = plans[0].steps[place]
        assert isinstance(step, Follow)
        by_relation: dict[int, list[int]] = {}
        for query, plan in enumerate(plans):
            by_relation.setdefault(plan.ids[step.slot], []).append(query)
        groups = list(by_relation.items())

        def followed(first: int, _: int) -> dict[int, Bounds]:
            relation, queries = groups[first]
            return self._follow_relation(
                relation, place, {query: (plans[query], before[query]) for query in queries}, sought
            )

        found: dict[int, Bounds] = {}
        for own in over_rows(followed, len(groups), 1):
            found |= own
        return [found[query] for query in range(len(plans))]

    def _follow_relation(
        self, relation: int, place: int, queries: Mapping[int, tuple[Plan, Bounds]], sought: Sequence[Ids] | None
    ) -> dict[int, Bounds]:
        """The same for those queries that follow one relation, by their places among all."""
        facts = self._engine.known.edges.edges(relation)
        targets = self._engine.known.candidates(relation) if self._candidates == "typed" else None
        most = max(1, _NUMBERS // self._size)
        hops = {}
        for query, (plan, before) in queries.items():
            evidence = self._engine.evidence(plan, place, targets)
            own = None if sought is None else sought[query]
            step = plan.steps[place]
            assert isinstance(step, Follow)
            witnesses = weighed(before, leaving_of(self._engine, plan, step))
            hops[query] = _Hop(witnesses, facts, targets, evidence, own, most)
        self._open(relation, targets, list(hops.values()))
        return {query: hop.bounds() for query, hop in hops.items()}

    def _open(self, relation: int, targets: Ids | None, hops: Sequence[_Hop]) -> None:
        """Open for every hop of one relation what it wants, the most probable witnesses of all first."""
        most = np.zeros(self._size)
        for hop in hops:
            most[hop.wanted] = np.maximum(most[hop.wanted], hop.before.high[hop.wanted])
        order = np.argsort(-most, kind="stable")[: np.count_nonzero(most)]
        columns = self._engine.hops.columns(relation, targets)
        active = [hop for hop in hops if not hop.ended()]
        while len(order) and active:
            block, order = order[:_TOGETHER], order[_TOGETHER:]
            block = block[np.logical_or.reduce([hop.is_wanted[block] for hop in active])]
            if len(block):
                rows = self._engine.hops.values(block, columns)
                for hop in active:
                    hop.open(block, columns, rows)
                active = [hop for hop in active if not hop.ended()]


@final
class _Hop:
    """The hop of one step of one query: its witnesses, those that are opened, and what follows."""

    def __init__(
        self,
        before: Bounds,
        facts: tuple[Ids, Ids],
        targets: Ids | None,
        evidence: Evidence | None,
        sought: Ids | None,
        most: int,
    ) -> None:
        self.before = before
        self._index = slice(None) if targets is None else targets
        self._evidence = evidence
        self._sought = sought
        plausible = np.flatnonzero(before.high >= PLAUSIBLE)
        order = plausible[np.argsort(-before.high[plausible], kind="stable")]
        self.wanted = order[:most]
        self._beyond = float(before.high[order[most]]) if len(order) > most else 0.0
        self.is_wanted = np.zeros(len(before.high), dtype=bool)
        self.is_wanted[self.wanted] = True
        self._low = Best(before.low, facts)
        self._high = self._low if before.high is before.low else Best(before.high, facts)
        self._opened, self._next = 0, _TOGETHER

    def open(self, entities: Ids, columns: Columns, rows: Table) -> None:
        """Take the rows of those that are wanted."""
        own = np.flatnonzero(self.is_wanted[entities])
        if len(own):
            for best in {id(best): best for best in (self._low, self._high)}.values():
                best.add(entities[own], columns, rows[own])
            self.is_wanted[entities] = False
            self._opened += len(own)

    def ended(self) -> bool:
        """Whether nothing is left to open that matters."""
        if self._opened == len(self.wanted):
            return True
        if self._sought is None or self._opened < self._next:
            return False
        self._next = 2 * self._opened
        return _decided(self.bounds(), self._sought)

    def bounds(self) -> Bounds:
        """The bounds of the step, with all that has been opened by now."""
        low, high = self._low.value, self._high.value
        left = self.before.high[self.wanted[self.is_wanted[self.wanted]]].max(initial=self._beyond)
        if left:
            high = high.copy()
            high[self._index] = np.maximum(high[self._index], left * SURE)
        if self._evidence is None:
            return Bounds(low, high)
        raised = self._evidence.raised(low)
        return Bounds(raised, raised if high is low else self._evidence.raised(high))


def _decided(bounds: Bounds, sought: Ids) -> bool:
    """Whether the values sought are exact, and no other that is not can reach the least of them."""
    low, high = bounds
    least: float = low[sought].min(initial=np.inf)
    return not ((high > low) & (high >= least)).any()


# Single hops


def rank_hops(
    engine: Engine,
    queries: PathQueries,
    truth: Truth,
    device: torch.device,
    *,
    memory: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Ranks:
    """The places of the targets of single hops s/r → o, by p(s, r, o), among all entities that F* does not know there.

    A fact that the engine knows counts as if it were none. `memory` caps the bytes that the process holds, and changes
    no rank; `progress` hears how many queries have been ranked.
    """
    values, size = hop_rows(engine, device), 4 * engine.graph.num_entities
    together = _TOGETHER
    if memory is not None:
        at_work = available_threads() + 1  # relations of which a thread is at work, or is about to be
        held = resident_bytes() + size * _TABLES * at_work
        together = rows_within(memory, _TOGETHER, size * _AT_WORK * at_work, held)
    hop = queries.path[:, 0]
    order = np.lexsort((queries.source, hop, hop % engine.graph.num_relations))  # each beside its inverse
    cuts = np.flatnonzero(np.diff(hop[order])) + 1
    parts = [rows for own in np.split(order, cuts) for rows in np.split(own, range(_ASKED, len(own), _ASKED))]

    def ranked(place: int, _: int) -> NDArray[np.int64]:
        return np.concatenate(list(_places(values, queries.take(parts[place]), truth, together)), axis=1)

    found = np.zeros((3, len(queries)), dtype=np.int64)
    last = None
    for rows, own in zip(parts, over_rows(ranked, len(parts), 1), strict=True):
        relation = int(hop[rows[0]]) % engine.graph.num_relations
        if last not in (None, relation):
            engine.hops.forget(last)
        last = relation
        found[:, rows] = own
        if progress is not None:
            progress(len(rows))
    return Ranks(*found)


def hop_rows(engine: Engine, device: torch.device) -> Callable[[Ids, int], Table]:
    """What computes p of hops from some entities to all along a relation, facts as if they were none: [S] → [S, E]."""
    if device.type == "cuda":
        from blockhole.answering.device import DeviceSweep

        return DeviceSweep(engine, device).hops
    return lambda sources, relation: engine.hops.values(sources, engine.hops.columns(relation))


def _places(
    values: Callable[[Ids, int], Table], queries: PathQueries, truth: Truth, together: int
) -> Iterator[NDArray[np.int64]]:
    """Better rivals, tied ones and all of them, of queries of one relation in the order of their sources: [3, N]."""
    relation = int(queries.path[0, 0])
    sources, query = np.unique(queries.source, return_inverse=True)
    for first in range(0, len(sources), together):
        rows = values(sources[first : first + together], relation)
        mine = np.flatnonzero((query >= first) & (query < first + together))
        places = np.empty((3, len(mine)), dtype=np.int64)
        for place, each in enumerate(mine.tolist()):
            row, target = rows[query[each] - first], int(queries.target[each])
            own = row[target]
            known = row[np.union1d(truth.graph.adjacency.neighbours(int(queries.source[each]), relation), [target])]
            better = np.count_nonzero(row > own) - np.count_nonzero(known > own)
            tied = np.count_nonzero(row == own) - np.count_nonzero(known == own)
            places[:, place] = better, tied, len(row) - len(known)
        yield places
