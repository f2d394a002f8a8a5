"""Patterns that ask for one variable, as queries of the engine: what both can express has one probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from blockhole.answering.search import Candidates, Deadline, Search, Wanted, nth_largest
from blockhole.answering.sparql.patterns import (
    Basic,
    Edge,
    Either,
    Existing,
    Given,
    Joined,
    Link,
    Path,
    Pattern,
    Steps,
    Ways,
    Without,
    inverted,
    variables_of,
)
from blockhole.answering.sparql.tables import Table
from blockhole.errors import QueryError
from blockhole.queries.language import Anchor, Hop, Intersection, Negation, Node, Projection, Query, Union
from blockhole.queries.tree import named_nodes

if TYPE_CHECKING:
    from blockhole.answering.engine import Encoded, Engine

_FIRST = 64
"""Answers that a search settles at first."""


@final
class SingleAnswers:
    """The answers to a query of the engine for one variable; what one look has found, the next builds on."""

    def __init__(
        self, engine: Engine, query: Encoded, variable: str, candidates: Candidates, deadline: Deadline
    ) -> None:
        self._variable = variable
        self._known = engine.known.plan_answers(query.plan)
        self._among = np.ones(engine.graph.num_entities, dtype=bool)
        self._among[self._known] = False
        self._search = Search(engine, query.plan, candidates, deadline)
        self._certain = not query.query.has_negation
        self._top = _FIRST

    def floor(self, wanted: int) -> float:
        """A probability that so many predicted answers reach, or as many as a first search settles; 0 without them."""
        low = self._search.settle(Wanted(self._among, self._top, self._known[:0] if self._certain else self._known)).low
        return nth_largest(low[self._among], max(1, min(wanted, self._top)))

    def likely(self, floor: float) -> Table:
        """Those of a probability of at least `floor`, and all known ones."""
        known, among = self._known, self._among
        while True:
            low = self._search.settle(Wanted(among, self._top, known[:0] if self._certain else known)).low
            if nth_largest(low[among], self._top) < floor:
                break
            self._top *= 4
        predicted = np.flatnonzero(among & (low >= floor))
        ids = np.concatenate([known, predicted]).astype(np.int64)
        p = low[ids].copy()
        if self._certain:
            p[: len(known)] = 1.0
        return Table.of((self._variable,), ids, p, np.arange(len(ids)) < len(known))


def as_query(engine: Engine, pattern: Pattern, variable: str) -> Encoded | None:
    """The query of the engine that a pattern is in one variable; None where it is more than one can say.

    Its variables must make a tree that hangs from entities: every other one leads, over edges, to the one asked for.
    """
    root = _node(engine, pattern, variable)
    if root is None or not any(isinstance(node, Projection) for node in named_nodes(root)):
        return None
    try:
        return engine.encode(Query(root))
    except QueryError:  # larger than queries of the engine may be
        return None


def as_check(engine: Engine, pattern: Pattern) -> tuple[Encoded, int] | None:
    """The query of the engine that a pattern without answers to give is, and the entity that it asks about; or None."""
    if not isinstance(pattern, Basic):
        return None
    for target in dict.fromkeys(edge.target for edge in reversed(pattern.edges)):
        if isinstance(target, str):
            continue
        opened = [edge._replace(target=_ASKED) if edge.target == target else edge for edge in pattern.edges]
        query = as_query(engine, Basic(tuple(opened)), _ASKED)
        if query is not None:
            return query, target
    return None


_ASKED = "/asked"


def _node(engine: Engine, pattern: Pattern, variable: str) -> Node | None:
    """What a pattern says of a variable."""
    if isinstance(pattern, Either):
        return _union([_node(engine, part, variable) for part in pattern.parts])
    if isinstance(pattern, Given):
        return _union([_anchor(engine, each) for each in np.unique(pattern.table.ids).tolist()])
    parts = _Parts([], [], [])
    if not parts.collect(pattern):
        return None
    node = parts.tree(engine, variable, {variable})
    return None if parts.edges or parts.kept or parts.dropped else node


def _anchor(engine: Engine, number: int) -> Node | None:
    """The entity that a term of VALUES is; None where it is none of the graph's, or left open."""
    return Anchor(engine.graph.entities[number]) if 0 <= number < engine.graph.num_entities else None


def _union(parts: list[Node | None]) -> Node | None:
    nodes = tuple(part for part in parts if part is not None)
    if not nodes or len(nodes) < len(parts):
        return None
    return Union(nodes) if len(nodes) > 1 else nodes[0]


@final
class _Parts(NamedTuple):
    """What holds together: edges, other patterns, and patterns that are excluded; taken out as they are used."""

    edges: list[Edge]
    kept: list[Pattern]
    dropped: list[Pattern]

    def collect(self, pattern: Pattern) -> bool:
        """Take a pattern apart; False where it holds what no query of the engine says."""
        match pattern:
            case Basic(edges):
                self.edges.extend(edges)
                return True
            case Joined(left, right):
                return self.collect(left) and self.collect(right)
            case Without(left, right) | Existing(left, right, True):
                self.dropped.append(right)
                return len(variables_of(left) & variables_of(right)) == 1 and self.collect(left)
            case Either():
                self.kept.append(pattern)
                return True
            case Given(table):
                self.kept.append(pattern)
                return len(table.variables) == 1
            case _:
                return False

    def tree(self, engine: Engine, variable: str, seen: set[str]) -> Node | None:
        """What all that is left says of a variable, the others being witnesses."""
        own = [edge for edge in self.edges if variable in (edge.source, edge.target)]
        for edge in own:
            self.edges.remove(edge)
        found: list[Node | None] = []
        for source, path, target in own:
            other, way = (source, path) if target == variable else (target, inverted(path, engine.graph.inverse))
            if not isinstance(other, str):
                found.append(_follow(engine, Anchor(engine.graph.entities[other]), way))
                continue
            if other in seen:  # a cycle
                return None
            seen.add(other)
            start = self.tree(engine, other, seen)
            found.append(None if start is None else _follow(engine, start, way))
        found += self._beside(engine, self.kept, variable, seen)
        if not found:
            return None
        found += [
            None if node is None else Negation(node) for node in self._beside(engine, self.dropped, variable, seen)
        ]
        nodes = tuple(node for node in found if node is not None)
        if len(nodes) < len(found):
            return None
        return nodes[0] if len(nodes) == 1 else Intersection(nodes)

    def _beside(self, engine: Engine, patterns: list[Pattern], variable: str, seen: set[str]) -> list[Node | None]:
        """The patterns that say something of a variable, and of no other that is asked about elsewhere."""
        own = [pattern for pattern in patterns if variable in variables_of(pattern)]
        for pattern in own:
            patterns.remove(pattern)
        elsewhere = seen.union(*(variables_of(Basic((edge,))) for edge in self.edges), *map(variables_of, self.kept))
        shared = [variables_of(pattern) & (elsewhere - {variable}) for pattern in own]
        for pattern in own:
            seen |= variables_of(pattern)
        return [None if more else _node(engine, pattern, variable) for pattern, more in zip(own, shared, strict=True)]


def _follow(engine: Engine, start: Node, path: Path) -> Node | None:
    match path:
        case Link(relation):
            return Projection(start, Hop(*engine.graph.relation_name(relation)))
        case Steps(parts):
            end: Node | None = start
            for part in parts:
                end = None if end is None else _follow(engine, end, part)
            return end
        case Ways(parts):
            return _union([_follow(engine, start, part) for part in parts])
        case _:
            return None
