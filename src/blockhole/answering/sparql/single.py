"""Patterns that ask for one variable, as queries of the engine: what both can express has one probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blockhole.answering.search import Deadline, Search, Wanted, nth_largest
from blockhole.answering.sparql.patterns import (
    Basic,
    Edge,
    Either,
    Existing,
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

if TYPE_CHECKING:
    from blockhole.answering.engine import Encoded, Engine

_FIRST = 64
"""Answers that a search settles at first."""


def as_query(engine: Engine, pattern: Pattern, variable: str) -> Encoded | None:
    """The query of the engine that a pattern is in one variable; None where it is more than one can say.

    Its variables must make a tree that hangs from entities: every other one leads, over edges, to the one asked for.
    """
    root = _node(engine, pattern, variable)
    if root is None:
        return None
    try:
        return engine.encode(Query(root))
    except QueryError:  # larger than queries of the engine may be
        return None


def likely_answers(engine: Engine, query: Encoded, variable: str, floor: float, deadline: Deadline) -> Table:
    """The answers of a probability of at least `floor`, and all known ones."""
    known = engine.known.plan_answers(query.plan)
    among = np.ones(engine.graph.num_entities, dtype=bool)
    among[known] = False
    search = Search(engine, query.plan, "typed", deadline)
    certain = not query.query.has_negation
    top = _FIRST
    while True:
        low = search.settle(Wanted(among, top, known[:0] if certain else known)).low
        if nth_largest(low[among], top) < floor:
            break
        top *= 4
    predicted = np.flatnonzero(among & (low >= floor))
    ids = np.concatenate([known, predicted]).astype(np.int64)
    p = low[ids].copy()
    if certain:
        p[: len(known)] = 1.0
    return Table.of((variable,), ids, p, np.arange(len(ids)) < len(known))


def _node(engine: Engine, pattern: Pattern, variable: str) -> Node | None:
    match pattern:
        case Basic(edges):
            left = list(edges)
            found = _tree(engine, left, variable, {variable})
            return None if left else found
        case Joined(left_side, right_side):
            if variables_of(left_side) & variables_of(right_side) != {variable}:
                return None
            parts = [_node(engine, each, variable) for each in (left_side, right_side)]
        case Either(of):
            parts = [_node(engine, each, variable) for each in of]
        case Without(kept, dropped) | Existing(kept, dropped, True):
            if variables_of(kept) & variables_of(dropped) != {variable}:
                return None
            parts = [_node(engine, kept, variable), _node(engine, dropped, variable)]
        case _:
            return None
    nodes = [each for each in parts if each is not None]
    if len(nodes) < len(parts):
        return None
    if isinstance(pattern, Joined):
        return Intersection(tuple(nodes))
    return Union(tuple(nodes)) if isinstance(pattern, Either) else Intersection((nodes[0], Negation(nodes[1])))


def _tree(engine: Engine, left: list[Edge], variable: str, seen: set[str]) -> Node | None:
    """What the edges that are left say of a variable; those that were used are taken out."""
    own = [edge for edge in left if variable in (edge.source, edge.target)]
    for edge in own:
        left.remove(edge)
    parts: list[Node] = []
    for source, path, target in own:
        if source == target:
            return None
        other, way = (source, path) if target == variable else (target, inverted(path, engine.graph.inverse))
        start: Node | None
        if isinstance(other, str):
            if other in seen:
                return None
            seen.add(other)
            start = _tree(engine, left, other, seen)
        else:
            start = Anchor(engine.graph.entities[other])
        end = None if start is None else _follow(engine, start, way)
        if end is None:
            return None
        parts.append(end)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Intersection(tuple(parts))


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
            ends = [_follow(engine, start, part) for part in parts]
            there = [each for each in ends if each is not None]
            return Union(tuple(there)) if len(there) == len(ends) else None
        case _:
            return None
