"""The fourteen types of queries that published sets have, sets of such queries, and their easy and hard answers.

In a name, p is a projection, i an intersection, u a union and n a negation. A query of a type is one row of ids, in the
order in which the letters below are read: a, b, c are entities, r, s, t relations in the space of 2R.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, quoted
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph, SplitName
from blockhole.queries.exact import AnswerSets, plan_answer_sets
from blockhole.queries.language import parse
from blockhole.queries.plans import Follow, Plan, Start, Steps, plan_of

QUERY_TYPES = MappingProxyType(
    {
        "1p": "a/r",
        "2p": "a/r/s",
        "3p": "a/r/s/t",
        "2i": "a/r & b/s",
        "3i": "a/r & b/s & c/t",
        "pi": "a/r/s & b/t",
        "ip": "(a/r & b/s)/t",
        "2u": "a/r | b/s",
        "up": "(a/r | b/s)/t",
        "2in": "a/r & !b/s",
        "3in": "a/r & b/s & !c/t",
        "inp": "(a/r & !b/s)/t",
        "pin": "a/r/s & !b/t",
        "pni": "!a/r/s & b/t",
    }
)

QuerySplit = SplitName
"""The facts that make answers hard: train queries are answered by train facts, all of them hard."""


@cache
def steps_of_type(name: str) -> Steps:
    """The steps of a type, with the ids of its letters in slots 0, 1, … as they are read."""
    slots = count()  # all differ, so that no two letters become one step
    return plan_of(parse(QUERY_TYPES[name]).root, lambda _: next(slots), lambda _: next(slots)).steps


@cache
def slots_of_type(name: str) -> str:
    """What each slot of a type holds, e for an entity and r for a relation: "err" of 2p."""
    kinds = {
        step.slot: "e" if isinstance(step, Start) else "r"
        for step in steps_of_type(name)
        if isinstance(step, Start | Follow)
    }
    return "".join(kinds[slot] for slot in range(len(kinds)))


def check_type(name: str, where: str = "") -> None:
    """Refuse a type that is none of the fourteen; `where` it was found begins the sentence."""
    if name not in QUERY_TYPES:
        known = ", ".join(QUERY_TYPES)  # all of them: every two names are alike
        raise DataError(f"{where}{': ' if where else ''}there is no query type {quoted(name)}; the types are {known}.")


@final
@dataclass(frozen=True, slots=True, eq=False)
class QuerySet:
    """Queries by type, in the order of QUERY_TYPES; types without any are left out. Shapes: ids[type] [N, slots]."""

    name: str
    ids: Mapping[str, NDArray[np.int32]]
    split: QuerySplit = "test"

    def __post_init__(self) -> None:
        for type_, rows in self.ids.items():
            check_type(type_, self.name)
            if rows.ndim != 2 or rows.shape[1] != len(slots_of_type(type_)) or rows.dtype != np.int32:
                raise ValueError(f"the ids of {type_} must be an int32 array of shape [N, {len(slots_of_type(type_))}]")
            rows.setflags(write=False)
        ordered = {type_: self.ids[type_] for type_ in QUERY_TYPES if len(self.ids.get(type_, ()))}
        object.__setattr__(self, "ids", MappingProxyType(ordered))

    def __len__(self) -> int:
        """The number of queries, of all types together."""
        return sum(map(len, self.ids.values()))

    def plans(self, type_: str) -> list[Plan]:
        """The queries of a type, each as the plan that its ids go into."""
        check_type(type_, self.name)
        steps = steps_of_type(type_)
        return [Plan(steps, tuple(row)) for row in self.ids[type_].tolist()] if type_ in self.ids else []

    def take(self, limit: int, seed: int = 0) -> QuerySet:
        """At most `limit` queries of each type, in their order here; which ones is a function of seed and type."""
        drawn = {type_: _drawn(type_, rows, limit, seed) for type_, rows in self.ids.items()}
        return QuerySet(self.name, drawn, self.split)

    def of_types(self, types: Iterable[str]) -> QuerySet:
        """The queries of some types alone."""
        kept = set(types)
        for type_ in kept:
            check_type(type_, self.name)
        return QuerySet(self.name, {type_: rows for type_, rows in self.ids.items() if type_ in kept}, self.split)

    def renumbered(self, entity: NDArray[np.int32], relation: NDArray[np.int32]) -> QuerySet:
        """The same queries under other ids: entity [E] and relation [2R] give the new id of each old one."""
        moved = {
            type_: np.column_stack(
                [(entity if kind == "e" else relation)[rows[:, slot]] for slot, kind in enumerate(slots_of_type(type_))]
            ).astype(np.int32)
            for type_, rows in self.ids.items()
        }
        return QuerySet(self.name, moved, self.split)

    def used(self, kind: Literal["e", "r"]) -> NDArray[np.int32]:
        """The distinct ids of entities ("e") or relations ("r") in all queries, ascending."""
        columns = [
            rows[:, slot]
            for type_, rows in self.ids.items()
            for slot, held in enumerate(slots_of_type(type_))
            if held == kind
        ]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int32), *columns]))

    def __repr__(self) -> str:
        return f"QuerySet({self.name!r}, {', '.join(f'{type_}: {len(rows):,}' for type_, rows in self.ids.items())})"


def _drawn(type_: str, rows: NDArray[np.int32], limit: int, seed: int) -> NDArray[np.int32]:
    if len(rows) <= limit:
        return rows
    # A type's draw does not depend on which other types a set has.
    draw = np.random.default_rng([seed, list(QUERY_TYPES).index(type_)])
    return rows[np.sort(draw.choice(len(rows), limit, replace=False))]


# Answers


def graphs_of_split(
    split: SplitGraph, which: QuerySplit, name: str = "the data set"
) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """The graphs whose answers are easy, and easy or hard.

    For test they are train + valid and all facts, for valid train and train + valid, for train nothing and train.
    """
    order: tuple[SplitName, ...] = ("train", "valid", "test")
    before = order[: order.index(which)]
    if not len({"train": split.train, "valid": split.valid, "test": split.test}[which]):
        kind = {"train": "train", "valid": "validation", "test": "test"}[which]
        raise DataError(
            f"{name} has no {kind} facts, so that its {which} queries have no hard answers; set some aside with "
            "`blockhole data split`, or name another split."
        )
    return split.graph(*before), split.graph(*before, which)


def easy_and_hard(
    known: KnowledgeGraph, truth: KnowledgeGraph, type_: str, ids: NDArray[np.int32], batch_size: int = 512
) -> Iterator[tuple[AnswerSets, AnswerSets]]:
    """The easy answers ⟦q⟧ over `known`, and the hard ones: those over `truth` that are not easy.

    In order, `batch_size` queries at a time, so that memory does not grow with the set; ids [N, slots] of one type.
    With negation an easy answer may be none over `truth`: more facts take answers away.
    """
    for easy, whole in easy_and_whole(known, truth, type_, ids, batch_size):
        yield easy, answers_beyond(whole, easy, truth.num_entities)


def easy_and_whole(
    known: KnowledgeGraph, truth: KnowledgeGraph, type_: str, ids: NDArray[np.int32], batch_size: int = 512
) -> Iterator[tuple[AnswerSets, AnswerSets]]:
    """The answers over `known` and all those over `truth`, batch by batch."""
    steps = steps_of_type(type_)
    return zip(
        plan_answer_sets(known, steps, ids, batch_size), plan_answer_sets(truth, steps, ids, batch_size), strict=True
    )


def answers_beyond(sets: AnswerSets, others: AnswerSets, num_entities: int) -> AnswerSets:
    """What each of `sets` holds that its counterpart in `others` does not."""
    own, other = (each.row * num_entities + each.entities for each in (sets, others))  # a number for each pair
    kept = ~np.isin(own, other, assume_unique=True)
    indptr = np.zeros(len(sets) + 1, dtype=np.int64)
    np.cumsum(np.bincount(sets.row[kept], minlength=len(sets)), out=indptr[1:])
    return AnswerSets(sets.first, indptr, sets.entities[kept])


def count_answers(split: SplitGraph, queries: QuerySet, name: str = "the data set") -> dict[str, dict[str, int]]:
    """How many queries of each type there are, and hard answers of all of them together."""
    known, truth = graphs_of_split(split, queries.split, name)
    return {
        type_: {
            "queries": len(rows),
            "hard_answers": sum(len(hard.entities) for _, hard in easy_and_hard(known, truth, type_, rows)),
        }
        for type_, rows in queries.ids.items()
    }
