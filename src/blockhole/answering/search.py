"""How probable every entity is as an answer: one search for queries of every kind, exact by bounds.

The value of a step at an entity follows from those of earlier steps and from the probabilities p of hops:

    an entity e              1 at e, 0 elsewhere
    q/r at o                 max over h of q(h) · ω(h) · p(h, r, o), the best witness, and where q/r is a path, what
                             its composed vector adds: evidence may raise the probability, and never lowers it
    q1 & q2 & !q3            q1 · q2 · (1 - q3)
    q1 | q2                  1 - (1 - q1)(1 - q2)

ω(h) doubts that r leaves h at all (`hops.Hops.leaving`); it is 1 where the query names h, but not by a condition, which
would raise what it is put on. A witness of less than `PLAUSIBLE`, ω counted, is none. The row of a hop, p(h, r, ·), is
computed when h is opened, the most promising h first. A step keeps two numbers for every entity, a value that is
certain and one that it cannot pass:
an h that is not opened cannot add more than q(h) ω(h) times the most that a hop from it can have (`hops.Hops.limits`),
which is known before its row, and much cheaper. The search ends when no entity can still enter the answers asked for,
or change its value among them, and then these are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.hops import SURE, Columns, Floats, Ids, Mask, Table
from blockhole.errors import Cancelled, OutOfTime, QueryTooCostly
from blockhole.queries.plans import Both, Either, Follow, Plan, Start, Step, named_slots

if TYPE_CHECKING:
    from blockhole.answering.calibration import ChainCurve
    from blockhole.answering.engine import Engine
    from blockhole.answering.known import KnownFacts

Candidates = Literal["typed", "all"]
"""What a hop can lead to: the entities that its relation takes in the graph, or every one."""

PLAUSIBLE = 1e-3
"""An entity less probable than this is no witness of anything."""
_FIRST, _MOST = 8, 64
"""Rows that are opened together: a few at first, more as a search goes on."""
_TOGETHER = 2**18
"""Numbers in rows that are opened together, where rows are so short that there may be more of these."""
_LOOKED = 2**19
"""Numbers that are looked at together to find what a hop can have at most."""
_SPARE = 2**24
"""Numbers that a question which needs few of them looks at for those that come after it: a tenth of a second."""
_ROUNDED = 1 + 1e-6
"""More than a few products in float32 round off."""
_CHEAPER = 8
"""Numbers that may be looked at, and forgotten, for one that is held."""
_GROUP = 64
"""Numbers of which the largest is found first."""
_NUMBERS = 2**26
"""Numbers in the rows that one search may hold: 256 MiB."""


@final
class Deadline:
    """A moment `seconds` from now, or an earlier one when it is cancelled; long searches look at it as they go.

    `looks` says how often they did: another thread sees by it that a search goes on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.looks = 0
        self._end = monotonic() + seconds
        self._cancelled = False

    def __repr__(self) -> str:
        return f"Deadline({self.seconds})"  # the reference shows it as a default

    def check(self) -> None:
        """Raise `OutOfTime` when the moment has passed, `Cancelled` when nobody waits for it any more."""
        self.looks += 1
        if self._cancelled:
            raise Cancelled
        if monotonic() > self._end:
            raise OutOfTime(self.seconds)

    def cancel(self) -> None:
        """End the search at its next look, from whatever thread."""
        self._cancelled = True

    @property
    def left(self) -> float:
        """Seconds until the moment comes."""
        return self._end - monotonic()


UNLIMITED = Deadline(inf)


class Bounds(NamedTuple):
    """What the value of each entity is at least, and what it is at most: [E], [E]."""

    low: Floats
    high: Floats


@final
@dataclass(frozen=True, slots=True)
class Wanted:
    """Which values a search has to settle: the `top` best of `among`, and all of `each`."""

    among: NDArray[np.bool_]
    top: int
    each: Ids


class Settled(NamedTuple):
    """The known answers to a query, [K], the predicted ones that may be among those asked for, [P], their values."""

    known: Ids
    known_value: Floats
    predicted: Ids
    predicted_value: Floats


@final
class Search:
    """One query's steps, the rows that were opened for them, and what follows."""

    def __init__(
        self, engine: Engine, plan: Plan, candidates: Candidates, deadline: Deadline, known: Ids | None = None
    ) -> None:
        """`known` answers, where they are given, are not looked for: the query's last hops then lead to others only."""
        self._engine = engine
        self._plan = plan
        self._deadline = deadline
        self._numbers = 0
        self._size = _FIRST
        self._follows: dict[int, _Follows] = {}
        useful = {} if known is None else _useful(engine.known, plan, candidates, known)
        for place, step in enumerate(plan.steps):
            if isinstance(step, Follow):
                relation = plan.ids[step.slot]
                every: Ids | None = engine.known.candidates(relation) if candidates == "typed" else None
                columns = every
                if place in useful:
                    # One row is computed as fast for three times the columns, if these are put together already. And
                    # the most that a hop can have to any of them is found once for all questions.
                    share = 1 / 3 if isinstance(plan.steps[step.of], Start) else 1 / 4
                    columns = _fewer(columns, useful[place], share)
                evidence, leaving = engine.evidence(plan, place, columns), leaving_of(engine, plan, step)
                self._follows[place] = _Follows(engine, relation, columns, evidence, leaving, columns is every)
        self.bounds: list[Bounds] = []

    def settle(self, wanted: Wanted) -> Bounds:
        """The bounds of the query's answers, which are equal for all that is wanted."""
        if wanted.top and not self.bounds:
            self._open_named()
        if not self.bounds:
            self._evaluate(0)
        while self._unsettled(wanted):
            self._deadline.check()
            changed = self._refine(len(self._plan.steps) - 1)
            if changed is None:
                break  # nothing is left that could tell more
            self._evaluate(changed)
        self._deadline.check()
        return self.bounds[-1]

    def _open_named(self) -> None:
        """Open what the query names: the best answers are never known without these rows."""
        for place, follows in self._follows.items():
            step = self._plan.steps[place]
            start = self._plan.steps[step.of] if isinstance(step, Follow) else step
            if isinstance(start, Start):
                self._numbers += follows.open(np.array([self._plan.ids[start.slot]]))

    def value_at(self, place: int, entity: int) -> float:
        """The value of a step at one entity, once anything has been settled."""
        while self.bounds[place].high[entity] > self.bounds[place].low[entity]:
            self._deadline.check()
            changed = self._refine(place)
            if changed is None:
                break
            self._evaluate(changed)
        return float(self.bounds[place].low[entity])

    def _evaluate(self, first: int) -> None:
        """Work out the bounds of a step anew, and of all that come after it."""
        del self.bounds[first:]
        for place, step in enumerate(self._plan.steps[first:], start=first):
            if isinstance(step, Follow):
                self.bounds.append(self._follows[place].bounds(self.bounds[step.of]))
            else:
                self.bounds.append(combined(step, self._plan.ids, self.bounds, self._engine.graph.num_entities))

    def _unsettled(self, wanted: Wanted) -> bool:
        """Whether a value has to be known better."""
        low, high = self.bounds[-1]
        if high is low:
            return False
        if (high[wanted.each] > low[wanted.each]).any():
            return True
        unknown = np.flatnonzero(high > low) if wanted.top else wanted.each[:0]
        unknown = unknown[wanted.among[unknown]]
        return len(unknown) > 0 and bool((high[unknown] >= nth_largest(low[wanted.among], wanted.top)).any())

    def _refine(self, place: int) -> int | None:
        """Open the rows that bound a step most, of this step or of one that it is made of, and say of which."""
        step = self._plan.steps[place]
        if isinstance(step, Both | Either):
            changes = (self._refine(each) for each in sorted(parts_of(step), key=self._slack, reverse=True))
            return next((changed for changed in changes if changed is not None), None)
        if not isinstance(step, Follow):
            return None
        follows = self._follows[place]
        before = follows.witnesses(self.bounds[step.of])
        best = follows.promising(before.high, self._size)
        if len(best) and before.low[best[0]] == before.high[best[0]]:
            best = best[before.low[best] == before.high[best]]
            opens = follows.is_looked_at[best[0]]
            self._numbers += follows.open(best) if opens else follows.look(best, before.low[best]) // _CHEAPER
            if self._numbers > _NUMBERS:
                raise QueryTooCostly(
                    "the query has too many plausible entities on the way to its answers; ask for fewer answers, "
                    "or narrow it down by a further condition before its last hop."
                )
            if opens:
                self._size = min(2 * self._size, max(_MOST, _TOGETHER // max(follows.width, 1)))
            return place
        return self._refine(step.of)

    def _slack(self, place: int) -> float:
        low, high = self.bounds[place]
        return 0.0 if high is low else float((high - low).max(initial=0.0))


@final
class _Follows:
    """The hop of one step: the entities that were opened, and the rows of their probabilities."""

    def __init__(
        self,
        engine: Engine,
        relation: int,
        targets: Ids | None,
        evidence: Evidence | None,
        leaving: Floats | None,
        whole: bool,
    ) -> None:
        """`whole` says that `targets` are all that the relation takes, or all entities."""
        self._engine = engine
        self._relation = relation
        self._targets = targets
        self._evidence = evidence
        self._leaving = leaving
        self._witnesses: tuple[Bounds, Bounds] | None = None
        self._opened: list[tuple[Ids, Columns, Table]] = []
        self._columns: Columns | None = None
        self._low, self._high = _Kept(), _Kept()
        self._before: tuple[Floats, Ids, tuple[Ids, Ids]] | None = None
        self._typed = whole and targets is not None
        self._spare = _SPARE
        self._whole = whole
        self._reached = np.zeros(self.width, dtype=np.float32)  # what looks say that targets have at least
        # What a hop from each entity can have at most, 0 from those that are opened, and whether that is all there is
        # to know before opening it.
        if targets is None or not engine.hops.has_limits or engine.proposes(len(targets)):
            self._limit = np.full(engine.graph.num_entities, SURE, dtype=np.float32)
            self.is_looked_at = np.ones(engine.graph.num_entities, dtype=bool)
        else:
            limits = engine.hops.limits(relation)
            self._limit = np.minimum(limits, np.float32(SURE))
            self.is_looked_at = (limits < 1) if whole else np.zeros(len(limits), dtype=bool)

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return self._engine.graph.num_entities if self._targets is None else len(self._targets)

    def witnesses(self, before: Bounds) -> Bounds:
        """What entities count as witnesses, of the bounds of the step before; the same while those are the same."""
        if self._witnesses is None or any(old is not new for old, new in zip(self._witnesses[0], before, strict=True)):
            self._witnesses = before, weighed(before, self._leaving)
        return self._witnesses[1]

    def promising(self, high: Floats, count: int) -> Ids:
        """The plausible entities that can add most, best first, ties by id: `count` to open, or more to look at."""
        left = np.flatnonzero((high >= PLAUSIBLE) & (self._limit > 0))
        if not len(left):
            return left
        if len(left) <= _FIRST:  # which are opened together in the time that a look takes
            self.is_looked_at[left] = True
        most, looked_at = high[left] * self._limit[left], self.is_looked_at[left]
        unseen = most[~looked_at].max(initial=0.0)
        if unseen == most.max():
            count = max(count, _LOOKED // max(self.width, 1))
            left, most = left[~looked_at], most[~looked_at]
        else:
            ahead = looked_at & (most >= unseen)
            left, most = left[ahead], most[ahead]
        if len(left) > count:
            first: Ids = left[most == most.max()]  # there may be thousands, and they need no order
            if len(first) >= count:
                return first[:count]
            among = most >= nth_largest(most, count)
            left, most = left[among], most[among]
        return left[np.argsort(-most, kind="stable")][:count]

    def look(self, entities: Ids, weight: Floats) -> int:
        """Find what hops from entities that count so much can have at most; how many numbers were looked at."""
        hops, relation = self._engine.hops, self._relation
        new = entities[hops.limits(relation)[entities] == 1]
        if not self._whole:
            new = new[: self._spare // len(self._engine.known.candidates(relation))]
        self.is_looked_at[entities] = self._whole or not len(new)
        if len(new) or self._whole:
            looked = hops.look(new, relation)
            self._spare -= looked
            self._limit[entities] = np.minimum(hops.limits(relation)[entities], np.float32(SURE))
            return looked
        # Few targets are left of many, so a hop that matters leads to one that nothing else leads to as surely.
        self._columns = self._columns or hops.columns(relation, self._targets)
        value, surely = hops.at_most(entities, self._columns)
        counts = np.nextafter(weight.astype(np.float32), np.float32(2))[:, None]
        value *= counts
        np.maximum(self._reached, np.float32(surely) * value.max(axis=0, initial=0.0), out=self._reached)
        value *= value >= self._reached
        value /= counts
        self._limit[entities] = np.minimum(self._limit[entities], value.max(axis=1, initial=0.0) * np.float32(_ROUNDED))
        return value.size

    def open(self, entities: Ids) -> int:
        """Compute the rows of entities; how many numbers these have."""
        self._limit[entities] = 0.0
        self.is_looked_at[entities] = True
        if not self.width:
            return 0
        proposed = self._engine.proposed(entities, self._relation, self._targets)
        if self._columns is None or proposed is not self._targets:
            hops, relation = self._engine.hops, self._relation
            kept = self._typed and proposed is self._targets
            self._columns = hops.typed_columns(relation) if kept else hops.columns(relation, proposed)
        rows = self._engine.hops.kept_values(entities, self._columns)
        self._opened.append((entities, self._columns, rows))
        return rows.size

    def bounds(self, before: Bounds) -> Bounds:
        """The bounds of the step, of those of the step that the hop starts at."""
        before = self.witnesses(before)
        if self._before is None or self._before[0] is not before.high:
            sources = np.flatnonzero(before.high >= PLAUSIBLE)
            self._before = before.high, sources, self._engine.known.edges_from(sources, self._relation)
        _, plausible, facts = self._before
        low = self._low.update(before.low, facts, self._opened)
        high = low if before.high is before.low else self._high.update(before.high, facts, self._opened)
        if self._evidence is not None:
            raised = self._evidence.raised(low)
            low, high = raised, raised if high is low else self._evidence.raised(high)
        left = (before.high[plausible] * self._limit[plausible]).max(initial=0.0)
        if left:
            index = slice(None) if self._targets is None else self._targets
            high = high.copy()
            high[index] = np.maximum(high[index], left if self._evidence is None else self._evidence.most(left))
        return Bounds(low, high)


def _useful(known: KnownFacts, plan: Plan, candidates: Candidates, answers: Ids) -> dict[int, Mask]:
    """Where the last hops of a query can lead to further answers: by step, [E]; none that another step starts at.

    What is in all of several sets is among what each of their hops can lead to.
    """

    wanted = {len(plan.steps) - 1: np.ones(known.graph.num_entities, dtype=bool)}
    wanted[len(plan.steps) - 1][answers] = False
    for place in reversed(range(len(plan.steps))):
        step = plan.steps[place]
        if place in wanted and isinstance(step, Both | Either):
            own = wanted.pop(place)
            if isinstance(step, Both):
                own = own & _within(known, plan, candidates, place)
            for each in parts_of(step):
                wanted[each] = own | wanted.get(each, False)
    started_at = {step.of for step in plan.steps if isinstance(step, Follow)}
    return {place: own for place, own in wanted.items() if place not in started_at}


def _within(known: KnownFacts, plan: Plan, candidates: Candidates, place: int) -> Mask:
    """Where a step can have a value: [E]."""
    inside = np.zeros(known.graph.num_entities, dtype=bool)
    match plan.steps[place]:
        case Start(slot):
            inside[plan.ids[slot]] = True
        case Follow(_, slot):
            inside[known.candidates(plan.ids[slot]) if candidates == "typed" else slice(None)] = True
        case Both(keep, _):
            inside = np.logical_and.reduce([_within(known, plan, candidates, each) for each in keep])
        case Either(of):
            inside = np.logical_or.reduce([_within(known, plan, candidates, each) for each in of])
    return inside


def _fewer(columns: Ids | None, wanted: Mask, share: float) -> Ids | None:
    """The columns that are wanted where they are less than a share of all, which are put together already."""
    every = np.arange(len(wanted)) if columns is None else columns
    few = every[wanted[every]]
    if len(few) == 1:  # a product of two vectors, whose last bits depend on where they lie
        few = np.union1d(few, every[~wanted[every]][:1])
    return few if len(few) < share * len(every) else columns


@final
class Best:
    """max over facts and over opened h of start(h) · p(h, r, o), in `value`: [E]."""

    def __init__(self, start: Floats, facts: tuple[Ids, Ids]) -> None:
        self.start = start
        self.value = np.zeros(len(start))
        through = start[facts[0]]
        met = np.flatnonzero(through >= PLAUSIBLE)
        np.maximum.at(self.value, facts[1][met], through[met])

    def add(self, entities: Ids, columns: Columns, rows: Table) -> None:
        """Open entities, whose rows these are."""
        weight = self.start[entities]
        met = np.flatnonzero(weight >= PLAUSIBLE)
        if len(met):
            best = (weight[met, None] * rows[met]).max(axis=0)
            self.value[columns.index] = np.maximum(self.value[columns.index], best)


@final
class _Kept:
    """A `Best` that is kept while it starts at the same values."""

    def __init__(self) -> None:
        self._best: Best | None = None
        self._seen = 0

    def update(self, start: Floats, facts: tuple[Ids, Ids], opened: list[tuple[Ids, Columns, Table]]) -> Floats:
        """The maxima, with all that has been opened by now."""
        if self._best is None or start is not self._best.start:
            self._best, self._seen = Best(start, facts), 0
        elif self._seen < len(opened):
            self._best.value = self._best.value.copy()  # whoever holds the earlier one keeps it
        for each in opened[self._seen :]:
            self._best.add(*each)
        self._seen = len(opened)
        return self._best.value


@final
class Evidence:
    """What the composed vectors of paths say of their answers, as `ChainCurve` weighs it."""

    def __init__(self, said: Sequence[tuple[Floats | None, ChainCurve]], allowed: Ids | None) -> None:
        """Each vector gives those that are `allowed`, or all entities, a share; none where it counts for nothing: that
        would be a look at every entity.
        """
        self._said = said
        self._allowed = allowed

    def raised(self, witness: Floats) -> Floats:
        """The probabilities of best witnesses, raised where there is one and the vector knows better: [E] → [E].

        Without a plausible witness there is nothing to raise, or else every entity would become one for the next hop.
        """
        raised = witness.copy()
        own = witness if self._allowed is None else witness[self._allowed]
        there = np.flatnonzero(own >= PLAUSIBLE)
        most = own[there]
        for share, curve in self._said:
            most = np.maximum(most, curve.probability(own[there], 0.0 if share is None else share[there]))
        raised[there if self._allowed is None else self._allowed[there]] = most
        return raised

    def most(self, witness: float) -> Floats | float:
        """What a best witness of that probability is raised to, for all that are allowed or for each: the curve of
        `raised` never falls, so that no lesser one is raised to more.
        """
        if witness < PLAUSIBLE:
            return witness
        most: Floats = np.array([witness])
        for share, curve in self._said:
            most = np.maximum(most, curve.probability(np.array([witness]), 0.0 if share is None else share))
        return most


def leaving_of(engine: Engine, plan: Plan, step: Follow) -> Floats | None:
    """ω of the entities that a hop of a query starts at, [E]; nothing where it names the one that there is."""
    if isinstance(plan.steps[step.of], Start):
        return None
    named = [plan.ids[slot] for slot in named_slots(plan.steps, step.of)]
    return engine.hops.leaving(plan.ids[step.slot], named)


def weighed(before: Bounds, leaving: Floats | None) -> Bounds:
    """Bounds times ω: [E]."""
    if leaving is None:
        return before
    low = before.low * leaving
    return Bounds(low, low if before.high is before.low else before.high * leaving)


def combined(step: Start | Both | Either, ids: Sequence[int], earlier: Sequence[Bounds], num_entities: int) -> Bounds:
    """The bounds of a step that is no hop, of those of the steps before it."""
    if isinstance(step, Start):
        one = np.zeros(num_entities)
        one[ids[step.slot]] = 1.0
        return Bounds(one, one)
    low, high = [each.low for each in earlier], [each.high for each in earlier]
    least = _joined(step, low, high)
    exact = all(low[each] is high[each] for each in parts_of(step))
    return Bounds(least, least if exact else _joined(step, high, low))


def _joined(step: Both | Either, own: Sequence[Floats], other: Sequence[Floats]) -> Floats:
    """One side of the bounds of a step, of the same side of what it keeps and the `other` of what it drops."""
    if isinstance(step, Either):
        return either([own[each] for each in step.of])
    return _product([own[each] for each in step.keep] + [1 - other[each] for each in step.drop])


def parts_of(step: Step) -> tuple[int, ...]:
    """The steps that a step is made of."""
    match step:
        case Start():
            return ()
        case Follow(of, _):
            return (of,)
        case Both(keep, drop):
            return (*keep, *drop)
        case Either(of):
            return of


def nth_largest(values: Floats, n: int) -> float:
    """The n-th largest of values that are not negative; 0 where there are fewer. Shape [N].

    Most entities have the value 0, and finding a place among equal numbers is what partitions take longest for.
    """
    groups = len(values) // _GROUP
    if groups >= n:  # n groups hold a number as large as their maxima, so smaller ones do not matter
        most = values[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
        values = values[values >= np.partition(most, -n)[-n]]
    values = values[values > 0]
    return float(np.partition(values, -n)[-n]) if len(values) >= n else 0.0


def _product(factors: list[Floats]) -> Floats:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


def either(parts: list[Floats]) -> Floats:
    """1 - ∏(1 - part), which is not less than any part, however it is rounded."""
    largest = parts[0]
    for part in parts[1:]:
        largest = np.maximum(largest, part)
    return np.maximum(largest, 1 - _product([1 - part for part in parts]))
