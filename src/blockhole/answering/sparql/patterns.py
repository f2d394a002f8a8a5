"""What a query asks for, in ids: paths, edges, graph patterns and what becomes of their solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, final

from blockhole.answering.sparql.tables import Table

PROBABILITY, STATUS = "probability", "status"
"""The variables that a query names to see, filter or order by how sure an answer is."""
SPECIAL = frozenset({PROBABILITY, STATUS})

# Paths: where they lead from an entity. An inverse is a relation like any other, so that ^(r/s) is ^s/^r.


class Link(NamedTuple):
    """One hop, over a relation in the space of 2R."""

    relation: int


class Steps(NamedTuple):
    """p/q: one path and then the next."""

    parts: tuple[Path, ...]


class Ways(NamedTuple):
    """p|q: one path or another."""

    parts: tuple[Path, ...]


class Maybe(NamedTuple):
    """p?: where a path leads, and where it starts."""

    path: Path


class Closure(NamedTuple):
    """p+ over known edges, or p* with its start."""

    path: Path
    start: bool


Path: TypeAlias = Link | Steps | Ways | Maybe | Closure


def inverted(path: Path, inverse: Callable[[int], int]) -> Path:
    """The way back."""
    match path:
        case Link(relation):
            return Link(inverse(relation))
        case Steps(parts):
            return Steps(tuple(inverted(part, inverse) for part in reversed(parts)))
        case Ways(parts):
            return Ways(tuple(inverted(part, inverse) for part in parts))
        case Maybe(of):
            return Maybe(inverted(of, inverse))
        case Closure(of, start):
            return Closure(inverted(of, inverse), start)


# Graph patterns

Term = str | int
"""A variable by its name, or a term by its id."""


class Edge(NamedTuple):
    """Two terms and the path between them."""

    source: Term
    path: Path
    target: Term


class Basic(NamedTuple):
    """Edges that all hold."""

    edges: tuple[Edge, ...]


class Joined(NamedTuple):
    """Two patterns that both hold."""

    left: Pattern
    right: Pattern


class Either(NamedTuple):
    """UNION."""

    parts: tuple[Pattern, ...]


class Optionally(NamedTuple):
    """OPTIONAL, over known facts, under a condition."""

    left: Pattern
    right: Pattern
    condition: Expression | None


class Without(NamedTuple):
    """MINUS."""

    left: Pattern
    right: Pattern


class Existing(NamedTuple):
    """FILTER EXISTS, or FILTER NOT EXISTS where it is `negated`."""

    left: Pattern
    right: Pattern
    negated: bool


class Filtered(NamedTuple):
    """FILTER by an expression."""

    of: Pattern
    condition: Expression


@final
@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """VALUES."""

    table: Table


Pattern: TypeAlias = Basic | Joined | Either | Optionally | Without | Existing | Filtered | Given


@final
@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """An expression as rdflib holds it, and the variables that it reads."""

    of: Any
    variables: frozenset[str]


def variables_of(pattern: Pattern) -> frozenset[str]:
    """The variables that a solution of a pattern may bind."""
    match pattern:
        case Basic(edges):
            return frozenset(end for edge in edges for end in (edge.source, edge.target) if isinstance(end, str))
        case Joined(left, right) | Optionally(left, right, _):
            return variables_of(left) | variables_of(right)
        case Either(parts):
            return frozenset().union(*map(variables_of, parts))
        case Without(left, _) | Existing(left, _, _) | Filtered(left, _):
            return variables_of(left)
        case Given(table):
            return frozenset(table.variables)


def named_in(pattern: Pattern) -> frozenset[str]:
    """The variables whose entities a pattern names; not by what it excludes, nor by one of two alternatives alone."""
    match pattern:
        case Given(table):
            return frozenset(table.variables)
        case Joined(left, right):
            return named_in(left) | named_in(right)
        case Either(parts):
            return frozenset.intersection(*map(named_in, parts))
        case Optionally(left, _, _) | Without(left, _) | Existing(left, _, _) | Filtered(left, _):
            return named_in(left)
        case Basic():
            return frozenset()


def is_negated(pattern: Pattern) -> bool:
    """Whether something is excluded, so that missing facts may refute what is known."""
    match pattern:
        case Without() | Existing(_, _, True):
            return True
        case Joined(left, right) | Optionally(left, right, _) | Existing(left, right, _):
            return is_negated(left) or is_negated(right)
        case Either(parts):
            return any(map(is_negated, parts))
        case Filtered(of, _):
            return is_negated(of)
        case _:
            return False


def edges_of(pattern: Pattern) -> Iterator[Edge]:
    """Every edge of a pattern."""
    match pattern:
        case Basic(edges):
            yield from edges
        case Either(parts):
            for part in parts:
                yield from edges_of(part)
        case Filtered(of, _):
            yield from edges_of(of)
        case Given():
            return
        case _:
            yield from edges_of(pattern[0])
            yield from edges_of(pattern[1])


# Whole queries


class Ordering(NamedTuple):
    """One condition of ORDER BY."""

    by: Expression
    descending: bool


class Count(NamedTuple):
    """COUNT of a variable, or of rows where it is None, as a variable of the result."""

    name: str
    of: str | None
    distinct: bool


class Template(NamedTuple):
    """One triple of CONSTRUCT: terms as N-Triples spells them, variables as ?name."""

    source: str
    relation: str
    target: str


@final
@dataclass(frozen=True, slots=True)
class Request:
    """A query that was understood.

    `projected` are the variables of the result and where each comes from; `final` the filters on the probability and
    the status of whole answers. `threshold` and `known_only` are what its own text says, if it says anything.
    """

    kind: Literal["select", "ask", "construct"]
    projected: tuple[tuple[str, str], ...]
    where: Pattern
    final: tuple[Expression, ...]
    distinct: bool
    order: tuple[Ordering, ...]
    limit: int | None
    offset: int
    counts: tuple[Count, ...]
    groups: tuple[str, ...]
    template: tuple[Template, ...]
    names_probability: bool
    threshold: float | None
    known_only: bool
