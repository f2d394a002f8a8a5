"""Queries of the fourteen types sampled from a graph, by the procedure of BetaE (Ren and Leskovec 2020).

An entity is drawn uniformly and the query grounded backwards from it: for each hop a relation uniformly among those
that lead to the entity, then one of its sources. A hop that goes straight back along the next one of its chain, and two
equal branches, are not taken. Kept are queries that have hard answers, at most so many, and with negation also easy
answers that the further facts take away. Single hops are drawn from those that the split's own facts make, as BetaE has
all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import BlockholeWarning, DataError
from blockhole.graph.knowledge_graph import Adjacency, KnowledgeGraph, SplitGraph
from blockhole.queries.exact import AnswerSets
from blockhole.queries.plans import Both, Either, Follow, Start, Steps
from blockhole.queries.query_sets import (
    QUERY_TYPES,
    QuerySet,
    QuerySplit,
    answers_beyond,
    check_type,
    easy_and_whole,
    graphs_of_split,
    slots_of_type,
    steps_of_type,
)

BATCH = 4096
"""Candidates drawn together. The same for every count, so that more queries begin with the same ones."""
PATIENCE = 50
"""Batches one after the other without a new query, after which there are held to be no more."""

Progress = Callable[[str, int, int], None]


def sample_from_split(
    split: SplitGraph,
    which: QuerySplit = "test",
    types: Iterable[str] = QUERY_TYPES,
    count: int = 1000,
    seed: int = 0,
    *,
    max_answers: int = 100,
    name: str = "the data set",
    progress: Progress | None = None,
) -> QuerySet:
    """`count` queries of each type, or as many as there are; `progress` takes type, queries found, queries wanted.

    A type's queries depend on the seed and the type alone, and more of them begin with the same ones.
    """
    types = tuple(dict.fromkeys(types))
    for type_ in types:
        check_type(type_)
    known, truth = graphs_of_split(split, which, name)
    own_facts = {"train": split.train, "valid": split.valid, "test": split.test}[which]
    found: dict[str, NDArray[np.int32]] = {}
    for type_ in types:
        draw = np.random.default_rng([seed, list(QUERY_TYPES).index(type_)])
        if type_ == "1p":
            candidates = _single_hops(own_facts, truth.num_relations, draw)
        else:
            candidates = _grounded(truth, type_, draw)
        accepted = _accepted(known, truth, type_, candidates, max_answers)
        found[type_] = _distinct(type_, accepted, count, progress)
    queries = QuerySet(f"sampled-{which}", found, which)
    if not len(queries):
        raise DataError(
            f"{name} has no {which} queries of the types asked for that have hard answers, at most "
            f"{max_answers:,} of them; ask for other types, or allow more answers."
        )
    _warn_of_few(queries, found, count, name)
    return queries


def _distinct(
    type_: str, accepted: Iterator[NDArray[np.int32]], count: int, progress: Progress | None
) -> NDArray[np.int32]:
    """The first `count` distinct rows; fewer where the candidates end, or bring nothing new for long."""
    found: dict[tuple[int, ...], None] = {}
    in_vain = 0
    for rows in accepted:
        before = len(found)
        found.update(dict.fromkeys(map(tuple, rows.tolist())))
        in_vain = 0 if len(found) > before else in_vain + 1
        if progress is not None:
            progress(type_, min(len(found), count), count)
        if len(found) >= count or in_vain == PATIENCE:
            break
    return np.array(list(found)[:count], dtype=np.int32).reshape(-1, len(slots_of_type(type_)))


def _warn_of_few(queries: QuerySet, found: dict[str, NDArray[np.int32]], count: int, name: str) -> None:
    few = [f"{len(rows):,} of {type_}" for type_, rows in found.items() if len(rows) < count]
    if few:
        warnings.warn(
            f"{name} gives fewer than {count:,} {queries.split} queries of some types: {', '.join(few)}.",
            BlockholeWarning,
            stacklevel=3,
        )


def _accepted(
    known: KnowledgeGraph,
    truth: KnowledgeGraph,
    type_: str,
    candidates: Iterator[NDArray[np.int32]],
    max_answers: int,
) -> Iterator[NDArray[np.int32]]:
    """The candidates with 1 to `max_answers` hard answers and, with negation, as many easy ones that truth has not.

    One that comes again, as those of a small graph do many times, is not looked at again.
    """
    seen: set[tuple[int, ...]] = set()
    for drawn in candidates:
        fresh = [row for row in dict.fromkeys(map(tuple, drawn.tolist())) if row not in seen]
        seen.update(fresh)
        rows = np.array(fresh, dtype=np.int32).reshape(-1, drawn.shape[1])
        hard, lost = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        for easy, whole in easy_and_whole(known, truth, type_, rows, batch_size=64):
            here = slice(easy.first, easy.first + len(easy))
            hard[here] = _sizes(answers_beyond(whole, easy, truth.num_entities))
            if "n" in type_:
                lost[here] = _sizes(answers_beyond(easy, whole, truth.num_entities))
        least_lost = 1 if "n" in type_ else 0
        yield rows[(hard > 0) & (lost >= least_lost) & (np.maximum(hard, lost) <= max_answers)]


def _sizes(sets: AnswerSets) -> NDArray[np.int64]:
    return np.diff(sets.indptr)


def _single_hops(
    facts: NDArray[np.int32], num_relations: int, draw: np.random.Generator
) -> Iterator[NDArray[np.int32]]:
    """Every hop that the facts make, in either direction, once and in random order."""
    source, relation, target = facts.T
    both = np.concatenate([np.column_stack([source, relation]), np.column_stack([target, relation + num_relations])])
    hops = draw.permutation(np.unique(both, axis=0)).astype(np.int32)
    for first in range(0, len(hops), BATCH):
        yield hops[first : first + BATCH]


# Grounding


def _grounded(graph: KnowledgeGraph, type_: str, draw: np.random.Generator) -> Iterator[NDArray[np.int32]]:
    """Batches of queries of a type without end, each grounded backwards from an entity; shapes [≤ BATCH, slots]."""
    steps, width = steps_of_type(type_), len(slots_of_type(type_))
    backwards = _Backwards(graph, draw)
    alike = _alike_branches(steps)
    while True:
        ids = np.zeros((BATCH, width), dtype=np.int32)
        whole = np.ones(BATCH, dtype=bool)
        backwards.ground(steps, len(steps) - 1, backwards.answers(BATCH), None, ids, whole)
        for one, other in alike:
            whole &= (ids[:, one] != ids[:, other]).any(axis=1)
        yield ids[whole]


def _alike_branches(steps: Steps) -> list[tuple[list[int], list[int]]]:
    """The slots of every two branches that could be the same query: parts of one step, of the same shape."""
    found = []
    for step in steps:
        parts = step.keep if isinstance(step, Both) else step.of if isinstance(step, Either) else ()
        for one, other in combinations((_slots(steps, part) for part in parts), 2):
            if len(one) == len(other):
                found.append((one, other))
    return found


def _slots(steps: Steps, at: int) -> list[int]:
    match steps[at]:
        case Start(slot):
            return [slot]
        case Follow(of, slot):
            return [*_slots(steps, of), slot]
        case Both(keep, drop):
            return [slot for part in (*keep, *drop) for slot in _slots(steps, part)]
        case Either(parts):
            return [slot for part in parts for slot in _slots(steps, part)]


@final
class _Backwards:
    """Draws, for entities, the hops that lead to them."""

    def __init__(self, graph: KnowledgeGraph, draw: np.random.Generator) -> None:
        self._adjacency: Adjacency = graph.adjacency
        self._num_relations = graph.num_relations
        self._draw = draw
        size = np.diff(self._adjacency.group_start)
        self._entities = np.flatnonzero(size).astype(np.int32)
        owner = np.repeat(np.arange(graph.num_entities, dtype=np.int64), size)
        self._keys = owner * (2 * graph.num_relations) + self._adjacency.group_relation  # ascending

    def answers(self, count: int) -> NDArray[np.int32]:
        """Entities that have an edge, drawn uniformly."""
        return self._entities[self._draw.integers(0, len(self._entities), count)]

    def ground(
        self,
        steps: Steps,
        at: int,
        entity: NDArray[np.int32],
        after: NDArray[np.int32] | None,
        ids: NDArray[np.int32],
        whole: NDArray[np.bool_],
    ) -> None:
        """Fill the slots of the step `at`, and of all below it, so that it holds `entity`; [B] each.

        `after` is the relation of the next hop of the same chain. Rows that cannot be filled are no longer `whole`.
        """
        match steps[at]:
            case Start(slot):
                ids[:, slot] = entity
            case Follow(of, slot):
                relation, source = self._hop_to(entity, after, whole)
                ids[:, slot] = relation
                self.ground(steps, of, source, relation if isinstance(steps[of], Follow) else None, ids, whole)
            case Both(keep, drop):
                for part in (*keep, *drop):
                    self.ground(steps, part, entity, None, ids, whole)
            case Either(parts):
                for part in parts:
                    self.ground(steps, part, entity, None, ids, whole)

    def _hop_to(
        self, entity: NDArray[np.int32], after: NDArray[np.int32] | None, whole: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """A relation that leads to each entity, and one of its sources: the edges s -r→ e are the edges e -r⁻¹→ s."""
        edges = self._adjacency
        first = edges.group_start[entity]
        choices = edges.group_start[entity.astype(np.int64) + 1] - first
        if after is None:
            group = first + self._draw.integers(0, choices)
        else:
            # Straight back is e -r→ next, and the group of that edge is always there: all but it are drawn from.
            back = np.searchsorted(self._keys, entity.astype(np.int64) * (2 * self._num_relations) + after)
            whole &= choices > 1
            group = first + self._draw.integers(0, np.maximum(choices - 1, 1))
            group += (group >= back) & (choices > 1)
        begin = edges.edge_start[group]
        edge = begin + self._draw.integers(0, edges.edge_start[group + 1] - begin)
        relation = (edges.group_relation[group] + self._num_relations) % (2 * self._num_relations)
        return relation.astype(np.int32), edges.target[edge]
