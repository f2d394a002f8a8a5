"""A query as a tree of names: what it asks, how it is written, its normal form, and what is refused.

⟦e⟧ = {e} for an `Anchor`, ⟦q/r⟧ = {o : (s, r, o) ∈ F, s ∈ ⟦q⟧} for a `Projection`, and ∩, ∪ and the complement for an
`Intersection`, a `Union` and a `Negation`. A complement is never an answer by itself: what is negated stands beside
something that is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

from blockhole.errors import QueryError, QuerySyntaxError
from blockhole.queries.tokens import write_name

MAX_HOPS = 64
"""Longer queries are refused: they are mistakes, and say nothing that numbers of this precision could tell."""
MAX_BRANCHES = 32


@final
@dataclass(frozen=True, slots=True)
class Hop:
    """One step along a relation, or against it."""

    relation: str
    inverse: bool = False

    def __str__(self) -> str:
        return f"{'^' * self.inverse}{write_name(self.relation)}"


@final
@dataclass(frozen=True, slots=True)
class Anchor:
    """An entity, which is its own only answer; `column` is where its name stands in the text, if it was read."""

    entity: str
    column: int = field(default=0, compare=False, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Projection:
    """The entities that one hop leads to from an answer of the subquery `of`; `column` as above, of the relation."""

    of: Node
    hop: Hop
    column: int = field(default=0, compare=False, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Intersection:
    """The entities that answer every one of `parts`, two or more; an intersection among them is taken apart."""

    parts: tuple[Node, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _flat(self.parts, Intersection))


@final
@dataclass(frozen=True, slots=True)
class Union:
    """The entities that answer one of `parts`, two or more; a union among them is taken apart."""

    parts: tuple[Node, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _flat(self.parts, Union))


@final
@dataclass(frozen=True, slots=True)
class Negation:
    """The entities that do not answer `of`; `column` is that of the !. `negated` makes one, for two of them cancel."""

    of: Node
    column: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.of, Negation):
            raise ValueError("two negations cancel: use `negated`")


Node = Anchor | Projection | Intersection | Union | Negation


def _flat(parts: tuple[Node, ...], kind: type[Intersection | Union]) -> tuple[Node, ...]:
    if len(parts) < 2:
        raise ValueError("an intersection or a union has two or more parts")
    return tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))


def negated(node: Node, column: int = 0) -> Node:
    """What is left of everything without the answers of `node`."""
    return node.of if isinstance(node, Negation) else Negation(node, column)


def nodes_of(root: Node) -> list[Node]:
    """A node after all that it is made of, as they are read from left to right."""
    found: list[Node] = []
    left = [root]
    while left:
        node = left.pop()
        found.append(node)
        if isinstance(node, Projection | Negation):
            left.append(node.of)
        elif isinstance(node, Intersection | Union):
            left.extend(node.parts)
    return found[::-1]


def named_nodes(root: Node) -> list[Anchor | Projection]:
    """Those of them that have a name."""
    return [node for node in nodes_of(root) if isinstance(node, Anchor | Projection)]


@final
@dataclass(frozen=True, init=False)
class Query:
    """A query in names: Query("William", [Hop("fatherOf", inverse=True)]); `str` writes the text that parses to it.

    It starts at an entity or at a subquery, and follows hops. `text` is what it was read from, if it was.
    """

    root: Node
    text: str | None = field(compare=False, repr=False)

    def __init__(self, start: str | Node, hops: Iterable[Hop] = (), *, text: str | None = None) -> None:
        root: Node = Anchor(start) if isinstance(start, str) else start
        for hop in hops:
            root = Projection(root, hop)
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "text", text)
        if not self.num_hops:
            raise ValueError("a query has at least one hop")
        check_node(root, text)

    def nodes(self) -> list[Node]:
        """Every node, each after the subqueries that it is made of, as they are read from left to right."""
        return nodes_of(self.root)

    @property
    def num_hops(self) -> int:
        """How many hops it has in all."""
        return sum(isinstance(node, Projection) for node in self.nodes())

    @property
    def has_negation(self) -> bool:
        """Whether its normal form excludes what a hop leads to, so that a missing fact may take an answer away."""
        excluded = (node for node in nodes_of(self.normal) if isinstance(node, Negation))
        return any(isinstance(inside, Projection) for node in excluded for inside in nodes_of(node.of))

    @cached_property
    def normal(self) -> Node:
        """The same query in normal form, which is equal for queries that differ in order or by repetition alone."""
        return normal_form(self.root)

    @property
    def is_chain(self) -> bool:
        """Whether its normal form is a source and hops from it."""
        return all(isinstance(node, Anchor | Projection) for node in _downwards(self.normal))

    @property
    def source(self) -> str:
        """The entity that a chain starts at."""
        return self.chain()[0]

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops of a chain, in order."""
        return self.chain()[1]

    def chain(self) -> tuple[str, tuple[Hop, ...]]:
        """The source and the hops, where it is a chain."""
        *above, start = _downwards(self.normal)
        if not isinstance(start, Anchor):
            raise QueryError(f"{self} is not a path from one entity: it has &, | or !.")
        return start.entity, tuple(node.hop for node in reversed(above) if isinstance(node, Projection))

    def __str__(self) -> str:
        return write_node(self.root)


def _downwards(node: Node) -> list[Node]:
    """A node and those below it, as long as there is one below each."""
    found = [node]
    while isinstance(found[-1], Projection):
        found.append(found[-1].of)
    return found


def write_node(node: Node) -> str:
    """A node as queries hold it, with no parentheses but those that it needs."""
    match node:
        case Anchor(entity):
            return write_name(entity)
        case Projection(of, hop):
            return f"{_write_inside(of, Intersection, Union, Negation)}/{hop}"
        case Negation(of):
            return f"!{_write_inside(of, Intersection, Union)}"
        case Intersection(parts):
            return " & ".join(_write_inside(part, Union) for part in parts)
        case Union(parts):
            return " | ".join(map(write_node, parts))


def _write_inside(node: Node, *loose: type[Node]) -> str:
    """A node beside a mark that binds tighter than those of the `loose` kinds."""
    return f"({write_node(node)})" if isinstance(node, loose) else write_node(node)


# Normal form


def normal_form(node: Node) -> Node:
    """The same answers with negations over entities and hops alone, equal parts once, and parts in order of their text.

    De Morgan: !(x & y) = !x | !y and !(x | y) = !x & !y.
    """
    match node:
        case Anchor():
            return node
        case Projection(of, hop, column):
            return Projection(normal_form(of), hop, column)
        case Negation(Intersection(parts), column):
            return _joined(Union, (normal_form(negated(part, column)) for part in parts))
        case Negation(Union(parts), column):
            return _joined(Intersection, (normal_form(negated(part, column)) for part in parts))
        case Negation(of, column):
            return Negation(normal_form(of), column)
        case Intersection(parts) | Union(parts):
            return _joined(type(node), map(normal_form, parts))


def _joined(kind: type[Intersection | Union], parts: Iterable[Node]) -> Node:
    distinct = {
        write_node(inner): inner for part in parts for inner in (part.parts if isinstance(part, kind) else [part])
    }
    # What is negated comes last, as people write it.
    order = sorted(distinct, key=lambda text: (isinstance(distinct[text], Negation), text))
    return distinct[order[0]] if len(order) == 1 else kind(tuple(distinct[text] for text in order))


# What is refused


def check_node(root: Node, text: str | None) -> None:
    """Refuse a query that has empty names, is too large, or is all but something; `text` is what it was read from."""
    named = named_nodes(root)
    if not all(node.entity if isinstance(node, Anchor) else node.hop.relation for node in named):
        raise ValueError("a name is not empty")
    anchors = sum(isinstance(node, Anchor) for node in named)
    check_size(len(named) - anchors, anchors)
    _check_bounded(root, text)


def check_size(hops: int, branches: int, what: str = "the query") -> None:
    """Refuse a query that is too large to mean anything."""
    for count, most, kind in ((hops, MAX_HOPS, "hops"), (branches, MAX_BRANCHES, "branches")):
        if count > most:
            raise QueryError(f"{what} has {count:,} {kind}; a query may have {most} at most.")


_UNBOUNDED = "! takes answers away, and here there are none to take them from: write a/r & !b/s"


def _check_bounded(root: Node, text: str | None) -> None:
    """Refuse a query, or a hop's start, that is all but something: nothing says what it is taken from."""
    starts = (node.of for node in nodes_of(root) if isinstance(node, Projection))
    for start in (*starts, root):
        for mark in _unbounded(start, None):
            if text is not None:
                raise QuerySyntaxError(text, mark.column, _UNBOUNDED)
            raise QueryError(f"{_UNBOUNDED}; this has {write_node(mark)} alone.")


def _unbounded(node: Node, mark: Negation | None) -> Iterator[Negation]:
    """The outermost ! of each part of a node that no part beside it bounds; `mark` is the ! that the node is under."""
    match node:
        case Anchor() | Projection():
            if mark is not None:
                yield mark
        case Negation(of):
            if mark is None:
                yield from _unbounded(of, node)
            else:
                yield from _unbounded(of, None)
        case Intersection(parts) | Union(parts):
            each = [list(_unbounded(part, mark)) for part in parts]
            if isinstance(node, Intersection) == (mark is None) and not all(each):
                return  # one part that is bounded bounds all
            for found in each:
                yield from found
