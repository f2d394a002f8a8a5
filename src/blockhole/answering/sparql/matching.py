"""The solutions of graph patterns: by facts alone as any SPARQL engine finds them, or down to a probability.

A solution's probability is the product of those of its edges; the largest counts where several differ only in variables
that nothing asks for, and 1 - ∏(1 - p) over the parts of a UNION. What is excluded leaves 1 - p. A probability never
rises along a join, so whatever is below the `floor` by then is left out, and no solution of at least that is missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from blockhole.answering.search import PLAUSIBLE, Candidates, Deadline
from blockhole.answering.sparql.edges import CERTAIN, FROM, TO, Roads, either
from blockhole.answering.sparql.expressions import holds
from blockhole.answering.sparql.patterns import (
    Basic,
    Closure,
    Edge,
    Either,
    Existing,
    Expression,
    Filtered,
    Given,
    Joined,
    Link,
    Maybe,
    Optionally,
    Path,
    Pattern,
    Term,
    Ways,
    Without,
    inverted,
    named_in,
    variables_of,
)
from blockhole.answering.sparql.tables import UNBOUND, Floats, Ids, Mask, Table, join, matches, stacked
from blockhole.answering.sparql.terms import Terms

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine

_PASSED_ON = 100_000
"""Bindings that narrow another pattern down; beyond it, both are found on their own and joined."""


@final
class Matcher:
    """Finds the solutions of patterns, for one query."""

    def __init__(self, engine: Engine, terms: Terms, candidates: Candidates, deadline: Deadline) -> None:
        self._terms = terms
        self._deadline = deadline
        self._graph = engine.graph
        self.roads = Roads(engine, candidates, deadline)
        self._named: frozenset[str] = frozenset()  # variables whose values are named where a pattern stands

    def known(self, pattern: Pattern) -> Table:
        """The solutions by facts alone, a bag as SPARQL defines it."""
        return self._alone(pattern, CERTAIN, variables_of(pattern), None)

    def likely(self, pattern: Pattern, floor: float, needed: frozenset[str]) -> Table:
        """The solutions of a probability of at least `floor`, and all known ones; each once in the `needed` ones."""
        return self._alone(pattern, floor, needed, None).project(sorted(needed)).best()

    def _alone(self, pattern: Pattern, floor: float, needed: frozenset[str], seed: Table | None) -> Table:
        """The same as `_solve` of a pattern that names entities for itself, and not for what stands beside it."""
        before = self._named
        self._named = before | named_in(pattern)
        found = self._solve(pattern, floor, needed, seed)
        self._named = before
        return found

    def _solve(self, pattern: Pattern, floor: float, needed: frozenset[str], seed: Table | None) -> Table:
        """The solutions that may be joined with one row of `seed`, which binds some variables.

        At a floor of 1 they are a bag. Below, they are told apart by the `needed` variables alone.
        """
        self._deadline.check()
        match pattern:
            case Basic(edges):
                return self._basic(edges, floor, needed, seed)
            case Given(table):
                return table
            case Joined(left, right):
                return self._joined(left, right, floor, needed, seed)
            case Either(parts):
                return self._either(parts, floor, needed, seed)
            case Filtered(of, condition):
                found = self._solve(of, floor, needed | condition.variables, seed)
                return found.take(holds(condition, found, self._terms, self._deadline))
            case Optionally(left, right, condition):
                return self._optionally(left, right, condition, floor, needed, seed)
            case Without(left, right):
                return self._excluded(left, right, floor, needed, seed, sharing=True)
            case Existing(left, right, True):
                return self._excluded(left, right, floor, needed, seed, sharing=False)
            case Existing(left, right, _):
                found, q, is_known = self._beside(left, right, floor, needed, seed, sharing=False)
                return found.times(q, is_known).take(q > 0).plausible(floor)

    # Patterns of patterns

    def _joined(self, left: Pattern, right: Pattern, floor: float, needed: frozenset[str], seed: Table | None) -> Table:
        if isinstance(right, Given) or (isinstance(left, Either) and isinstance(right, Basic)):
            left, right = right, left  # what narrows most comes first
        shared = variables_of(left) & variables_of(right)
        own = self._solve(left, floor, needed | shared, seed)
        other = self._solve(right, floor, needed | shared, _seed_of(own, shared))
        return self._narrowed(join(own, other, floor), floor, needed)

    def _narrowed(self, table: Table, floor: float, needed: frozenset[str]) -> Table:
        """The columns that are still asked for, where solutions need not be counted."""
        if floor >= CERTAIN:
            return table
        kept = [name for name in table.variables if name in needed]
        return table if len(kept) == len(table.variables) else table.project(kept).best()

    def _either(self, parts: tuple[Pattern, ...], floor: float, needed: frozenset[str], seed: Table | None) -> Table:
        every = sorted(frozenset().union(*map(variables_of, parts)))
        if floor >= CERTAIN:
            return stacked([self._alone(part, floor, needed, seed) for part in parts], every)
        asked = [name for name in every if name in needed]
        # Several parts together may be likely that are not, one by one.
        least = max(PLAUSIBLE, 1 - (1 - floor) ** (1 / len(parts)))
        found = [self._alone(part, least, needed, seed).project(asked).best() for part in parts]
        if least > PLAUSIBLE:
            # What one part finds, the others may find less likely.
            candidates = stacked(found, asked).best()
            found = [
                self._alone(part, PLAUSIBLE, needed, narrow).project(asked).best()
                if (narrow := _seed_of(candidates, variables_of(part) & needed)) is not None
                else table
                for part, table in zip(parts, found, strict=True)
            ]
        return either(found, tuple(asked)).plausible(floor)

    def _optionally(
        self,
        left: Pattern,
        right: Pattern,
        condition: Expression | None,
        floor: float,
        needed: frozenset[str],
        seed: Table | None,
    ) -> Table:
        read = frozenset() if condition is None else condition.variables
        shared = variables_of(left) & variables_of(right)
        own = self._solve(left, floor, needed | shared | (read & variables_of(left)), seed)
        other = self._alone(right, CERTAIN, variables_of(right), _seed_of(own, shared))
        first, _ = matches(own, other)
        both = join(own, other)  # in the order of these matches
        if condition is not None:
            keep = holds(condition, both, self._terms, self._deadline)
            first, both = first[keep], both.take(keep)
        alone = np.ones(len(own), dtype=bool)
        alone[first] = False
        found = stacked([both, own.take(alone)], both.variables)
        return self._narrowed(found, floor, needed)

    def _excluded(
        self, left: Pattern, right: Pattern, floor: float, needed: frozenset[str], seed: Table | None, *, sharing: bool
    ) -> Table:
        found, q, is_known = self._beside(left, right, floor, needed, seed, sharing=sharing)
        return found.times(1 - q, ~is_known).take(q < 1).plausible(floor)

    def _beside(
        self, left: Pattern, right: Pattern, floor: float, needed: frozenset[str], seed: Table | None, *, sharing: bool
    ) -> tuple[Table, Floats, Mask]:
        """The solutions of `left`, how probable it is that `right` has one beside each, and whether facts say so."""
        shared = variables_of(left) & variables_of(right)
        own = self._solve(left, floor, needed | shared, seed)
        least = CERTAIN if floor >= CERTAIN else PLAUSIBLE
        other = self._alone(right, least, shared, _seed_of(own, shared))
        other = other.project(sorted(shared)).best()
        first, second = matches(own, other, sharing=sharing)
        q, is_known = np.zeros(len(own)), np.zeros(len(own), dtype=bool)
        np.maximum.at(q, first, other.p[second])
        np.logical_or.at(is_known, first, other.known[second])
        return own, q, is_known

    # Edges

    def _basic(self, edges: tuple[Edge, ...], floor: float, needed: frozenset[str], seed: Table | None) -> Table:
        own = variables_of(Basic(edges))
        table = Table.unit() if seed is None else seed.project([name for name in seed.variables if name in own]).best()
        left = list(edges)
        while left:
            self._deadline.check()
            edge = min(left, key=lambda each: self._cost(each, table))
            left.remove(edge)
            table = join(table, self._edge(edge, table, floor), floor)
            if floor < CERTAIN:
                later = needed.union(*(variables_of(Basic((each,))) for each in left))
                table = self._narrowed(table, floor, later | frozenset(seed.variables if seed is not None else ()))
        return table

    def _cost(self, edge: Edge, table: Table) -> tuple[bool, float]:
        """Edges that something is known of come first, of these the ones that lead to least."""
        ends = [not isinstance(end, str) or end in table.variables for end in (edge.source, edge.target)]
        size = float(self.roads.size(edge.path))
        if all(ends):
            return False, -1.0
        starts = [end for end in (edge.source, edge.target) if not isinstance(end, str)]
        return not any(ends), 0.0 if starts else 1 + size

    def _edge(self, edge: Edge, table: Table, floor: float) -> Table:
        """The solutions of one edge that may be joined with those found so far."""
        source, path, target = edge
        if not isinstance(source, str) and not isinstance(target, str) and isinstance(path, Link) and floor < CERTAIN:
            p = np.array([self.roads.probability(source, path.relation, target)])
            return Table.of((), np.zeros((1, 0), dtype=np.int64), p, p == 1.0).plausible(floor)
        back = inverted(path, self._graph.inverse)
        starts, ends = self._bound(source, table, path), self._bound(target, table, back)
        if starts is None and ends is None:
            return self._between(self.roads.anywhere(path, floor), source, target)
        # A question starts from what it names, and whoever it starts from is taken to be of the right kind.
        if starts is None or (isinstance(source, str) and not isinstance(target, str)):
            source, path, target, starts = target, back, source, ends
        assert starts is not None
        edges = self.roads.follow(path, starts, floor, named=not isinstance(source, str) or source in self._named)
        return self._between(edges, source, target)

    def _bound(self, end: Term, table: Table, path: Path) -> Ids | None:
        """The entities that an end of an edge may be, if that is known: distinct, ascending."""
        if not isinstance(end, str):
            return np.array([end], dtype=np.int64)
        if end not in table.variables:
            return None
        found = np.unique(table.column(end))
        # A path of no hop leads from a variable to terms of the graph only.
        return np.intersect1d(found, self.roads.starts(path)) if isinstance(path, Maybe | Closure | Ways) else found

    def _between(self, found: Table, source: Term, target: Term) -> Table:
        """The edges of a path as solutions for its ends."""
        if not isinstance(target, str):
            found = found.take(found.column(TO) == target)
        if source == target and isinstance(source, str):
            found = found.take(found.column(FROM) == found.column(TO))
        columns = {end: name for end, name in ((source, FROM), (target, TO)) if isinstance(end, str)}
        shown = found.project(tuple(dict.fromkeys(columns.values())))
        return Table(tuple(str(end) for end in columns), shown.ids, shown.p, shown.known)


def _seed_of(table: Table, shared: frozenset[str]) -> Table | None:
    """The distinct bindings of variables that every row binds, to narrow another pattern down."""
    bound = [name for name in table.variables if name in shared and not (table.column(name) == UNBOUND).any()]
    if not bound:
        return None
    seed = Table.of(table.variables, table.ids).project(bound).best()
    return seed if len(seed) <= _PASSED_ON else None
