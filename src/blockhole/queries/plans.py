"""A query as steps over ids, in the order in which they can be answered: what every evaluator works on.

A step is a set of entities: one entity, those that a relation leads to from an earlier step, those in every one of some
earlier steps and in none of others, or those in one of some. There is no complement among them: either a subquery or
what it leaves out is such a set, and `Both` takes the one and drops the other. Ids stand apart from the steps, in
slots, so that queries of one shape share their steps and are answered together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from blockhole.queries.tree import Anchor, Intersection, Negation, Node, Projection, Union


class Start(NamedTuple):
    """The set of one entity, whose id is in `slot`."""

    slot: int


class Follow(NamedTuple):
    """Where the relation in `slot`, an id in the space of 2R, leads from the entities of the step `of`."""

    of: int
    slot: int


class Both(NamedTuple):
    """The entities in all steps of `keep`, at least one, and in no step of `drop`."""

    keep: tuple[int, ...]
    drop: tuple[int, ...]


class Either(NamedTuple):
    """The entities in one step of `of`, two or more."""

    of: tuple[int, ...]


Step = Start | Follow | Both | Either
Steps = tuple[Step, ...]


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one query, of which the last is its answers, and the ids in their slots."""

    steps: Steps
    ids: tuple[int, ...]

    @classmethod
    def of_chain(cls, source: int, path: Sequence[int]) -> Plan:
        """The plan of s/r1/…/rk."""
        return cls((Start(0), *(Follow(hop, hop + 1) for hop in range(len(path)))), (source, *path))


def chains_to(steps: Steps, place: int) -> list[list[int]]:
    """The slots of each path s/r1/…/rk that alone leads to all that it leads to in a step, in order.

    That is the path that a step is, or those that are its alternatives. Of more than `_MOST_CHAINS` there are none.
    """
    match steps[place]:
        case Start(slot):
            return [[slot]]
        case Follow(of, slot):
            return [[*chain, slot] for chain in chains_to(steps, of)]
        case Either(parts):
            chains = [chain for part in parts for chain in chains_to(steps, part)]
            return chains if len(chains) <= _MOST_CHAINS else []
        case Both():
            return []


_MOST_CHAINS = 32
"""Alternatives may follow alternatives, and there would be no end of paths."""


def named_slots(steps: Steps, place: int) -> list[int]:
    """The slots of the entities that a query names where a step stands: itself, an alternative, or in every condition.

    One condition alone does not name, or it would raise what its entity counts as a witness.
    """
    match steps[place]:
        case Start(slot):
            return [slot]
        case Either(parts):
            return [slot for part in parts for slot in named_slots(steps, part)]
        case Both(keep, _):
            first, *others = (named_slots(steps, part) for part in keep)
            return [slot for slot in first if all(slot in each for each in others)]
        case Follow():
            return []


def plan_of(root: Node, entity_id: Callable[[Anchor], int], relation_id: Callable[[Projection], int]) -> Plan:
    """The plan of a tree, each id looked up as the names are read; equal subqueries are one step."""
    builder = _Builder(entity_id, relation_id)
    last, left_out = builder.step(root)
    if left_out:
        raise ValueError("a query that is all but something has no plan")
    return Plan(tuple(builder.steps[: last + 1]), tuple(builder.ids))


@final
class _Builder:
    """Steps so far, and where each stands."""

    def __init__(self, entity_id: Callable[[Anchor], int], relation_id: Callable[[Projection], int]) -> None:
        self.steps: list[Step] = []
        self.ids: list[int] = []
        self._places: dict[Hashable, int] = {}
        self._entity_id = entity_id
        self._relation_id = relation_id

    def step(self, node: Node) -> tuple[int, bool]:
        """The step of a node, and whether it is what the node leaves out."""
        match node:
            case Anchor():
                own = self._entity_id(node)
                return self._place(("entity", own), lambda: Start(self._slot(own))), False
            case Projection(of):
                start, left_out = self.step(of)
                if left_out:
                    raise ValueError("a hop cannot start at all but something")
                own = self._relation_id(node)
                return self._place(("relation", own, start), lambda: Follow(start, self._slot(own))), False
            case Negation(of):
                place, left_out = self.step(of)
                return place, not left_out
            case Intersection(parts):
                return self._joined([self.step(part) for part in parts])
            case Union(parts):
                # x | !y leaves out y & !x.
                place, left_out = self._joined([(place, not out) for place, out in map(self.step, parts)])
                return place, not left_out

    def _joined(self, parts: Iterable[tuple[int, bool]]) -> tuple[int, bool]:
        """The intersection of steps and of what others leave out."""
        parts = list(parts)
        keep = tuple(dict.fromkeys(place for place, left_out in parts if not left_out))
        drop = tuple(dict.fromkeys(place for place, left_out in parts if left_out))
        if not keep:
            return (self._place(("either", drop), lambda: Either(drop)) if len(drop) > 1 else drop[0]), True
        if len(keep) + len(drop) == 1:
            return keep[0], False
        return self._place(("both", keep, drop), lambda: Both(keep, drop)), False

    def _slot(self, own: int) -> int:
        self.ids.append(own)
        return len(self.ids) - 1

    def _place(self, key: Hashable, make: Callable[[], Step]) -> int:
        """Where the step of a key stands, which is made if there is none."""
        if key not in self._places:
            self.steps.append(make())
            self._places[key] = len(self.steps) - 1
        return self._places[key]
