"""Exact answers ⟦q⟧ of queries over the facts of a graph, and typed candidates T(r).

The formula is ⟦s⟧ = {s}, ⟦q/r⟧ = {o : (e, r, o) ∈ F, e ∈ ⟦q⟧}, and ∩, ∪ and the difference of sets. It stands here
once, in NumPy, for a few queries and for machines that have no compiler. Thousands of queries take the compiled loops
of `answer_loops`, which look at few of the edges; queries and scores on a GPU take the masks of `answer_masks`, which
never come to the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.compiled import numba_installed, over_rows
from blockhole.graph.knowledge_graph import EdgesByRelation, KnowledgeGraph, edges_by_relation
from blockhole.queries.paths import PathQueries
from blockhole.queries.plans import Both, Either, Follow, Plan, Start, Steps

if TYPE_CHECKING:
    import torch

    from blockhole.queries.answer_loops import Edges


@final
@dataclass(frozen=True, slots=True)
class AnswerSets:
    """The answers of consecutive queries, beginning with query `first`.

    The answers of query `first + i` are `entities[indptr[i] : indptr[i + 1]]`, ascending and distinct.
    Shapes: indptr [B + 1] int64, entities [indptr[B]] int32.
    """

    first: int
    indptr: NDArray[np.int64]
    entities: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        """The answers of query `first + row`."""
        return self.entities[self.indptr[row] : self.indptr[row + 1]]

    @property
    def row(self) -> NDArray[np.intp]:
        """The row 0 … B-1 that each of `entities` answers, so that `mask[sets.row, sets.entities]` is all of them."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))


@final
@dataclass(frozen=True, slots=True)
class TypedCandidates:
    """T(r), the distinct objects of each relation: `entity[start[r] : start[r + 1]]`, ascending; of r⁻¹, r's subjects.

    Shapes: start [2R + 1] int64, entity [count] int32.
    """

    start: NDArray[np.int64]
    entity: NDArray[np.int32]

    def __getitem__(self, relation: int) -> NDArray[np.int32]:
        return self.entity[self.start[relation] : self.start[relation + 1]]


def typed_candidates(graph: KnowledgeGraph, edges: EdgesByRelation | None = None) -> TypedCandidates:
    """The entities that each relation takes as object in `graph`, whose `edges` may be at hand; ids in the space of 2R.

    The objects of r are the sources of r⁻¹, and edges by relation are grouped by these.
    """
    edges = edges_by_relation(graph) if edges is None else edges
    inverses = (np.arange(2 * graph.num_relations) + graph.num_relations) % max(2 * graph.num_relations, 1)
    start = np.zeros(2 * graph.num_relations + 1, dtype=np.int64)
    np.cumsum(np.diff(edges.relation_start)[inverses], out=start[1:])
    named, inverse = np.split(edges.group_source, edges.relation_start[[graph.num_relations]])
    return TypedCandidates(start, np.concatenate([inverse, named]))


_SOUGHT = 16
"""Groups that are looked at one after the other in the time in which one is sought among them."""


def targets(
    edges: EdgesByRelation, num_entities: int, sources: NDArray[np.integer] | list[int], relation: int
) -> NDArray[np.int32]:
    """⟦q/r⟧ of ⟦q⟧ = `sources`: every entity that an edge of r leads to from one of them, ascending and distinct."""
    # Flags find the distinct ones in less time than sorting or hashing.
    flags = np.zeros(num_entities, dtype=bool)
    flags[edges_from(edges, np.asarray(sources), relation)[1]] = True
    return np.flatnonzero(flags).astype(np.int32)


def edges_from(
    edges: EdgesByRelation, sources: NDArray[np.integer], relation: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The sources and the targets of all edges of r from distinct `sources`; shapes [count], [count]."""
    first, last = edges.relation_start[relation], edges.relation_start[relation + 1]
    among = edges.group_source[first:last]
    if len(sources) * _SOUGHT < len(among):
        place = np.minimum(among.searchsorted(sources), len(among) - 1)
        groups = first + place[among[place] == sources]
    else:
        flags = np.zeros(max(among.max(initial=0), sources.max(initial=0)) + 1, dtype=bool)
        flags[sources] = True
        groups = first + np.flatnonzero(flags[among])
    begin, size = edges.edge_start[groups], edges.edge_start[groups + 1] - edges.edge_start[groups]
    # Edge j of a group stands at the group's start plus j.
    met = np.repeat(begin - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return np.repeat(edges.group_source[groups], size), edges.target[met]


def answers(
    graph: KnowledgeGraph, source: int, path: Sequence[int], edges: EdgesByRelation | None = None
) -> NDArray[np.int32]:
    """⟦s/r1/…/rk⟧ of one query, ascending; relation ids in the space of 2R. `edges` are the graph's, if at hand."""
    return plan_answers(graph, Plan.of_chain(source, path), edges)


def plan_answers(graph: KnowledgeGraph, plan: Plan, edges: EdgesByRelation | None = None) -> NDArray[np.int32]:
    """⟦q⟧ of one query of any kind, ascending; its negations are over the facts of the graph."""
    edges = edges_by_relation(graph) if edges is None else edges
    found: list[NDArray[np.int32]] = []
    for step in plan.steps:
        match step:
            case Start(slot):
                found.append(np.array([plan.ids[slot]], dtype=np.int32))
            case Follow(of, slot):
                found.append(targets(edges, graph.num_entities, found[of], plan.ids[slot]))
            case Both(keep, drop):
                kept = reduce(_intersected, (found[each] for each in keep))
                found.append(reduce(_without, (found[each] for each in drop), kept))
            case Either(of):
                flags = np.zeros(graph.num_entities, dtype=bool)
                for each in of:
                    flags[found[each]] = True
                found.append(np.flatnonzero(flags).astype(np.int32))
    return found[-1]


def _intersected(one: NDArray[np.int32], other: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.intersect1d(one, other, assume_unique=True)


def _without(one: NDArray[np.int32], other: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.setdiff1d(one, other, assume_unique=True)


def answer_sets(
    graph: KnowledgeGraph,
    queries: PathQueries,
    batch_size: int = 512,
    *,
    edges: EdgesByRelation | None = None,
    compiled: bool | None = None,
) -> Iterator[AnswerSets]:
    """The answer sets of all queries, in order, `batch_size` queries at a time.

    FB13's sets hold a billion entities in all, so only a few batches exist at any moment. Loops are `compiled` where
    there is Numba, unless the caller knows that there are too few queries to wait for it.
    """
    _check_ids(graph, queries)
    edges = edges_by_relation(graph) if edges is None else edges
    if numba_installed() if compiled is None else compiled:
        from blockhole.queries.answer_loops import answer_rows

        flat = flat_edges(graph, edges)

        def batch(first: int, last: int) -> AnswerSets:
            part = queries.take(slice(first, last))
            return AnswerSets(first, *answer_rows(flat, part.source, part.path.astype(np.int64), part.length))
    else:

        def batch(first: int, last: int) -> AnswerSets:
            return _concatenated(first, list(_answers_of_each(graph, edges, queries.take(slice(first, last)))))

    return over_rows(batch, len(queries), batch_size)


def plan_answer_sets(
    graph: KnowledgeGraph,
    steps: Steps,
    ids: NDArray[np.int32],
    batch_size: int = 512,
    *,
    edges: EdgesByRelation | None = None,
) -> Iterator[AnswerSets]:
    """The answer sets of many queries of one shape, in order, `batch_size` at a time; shape of `ids`: [N, slots]."""
    _check_plan_ids(graph, steps, ids)
    edges = edges_by_relation(graph) if edges is None else edges
    if numba_installed():
        from blockhole.queries.answer_loops import Program, plan_rows

        flat, program = flat_edges(graph, edges), Program.of_steps(steps)

        def batch(first: int, last: int) -> AnswerSets:
            return AnswerSets(first, *plan_rows(flat, program, ids[first:last].astype(np.int64)))
    else:

        def batch(first: int, last: int) -> AnswerSets:
            return _concatenated(
                first, [plan_answers(graph, Plan(steps, tuple(row)), edges) for row in ids[first:last].tolist()]
            )

    return over_rows(batch, len(ids), batch_size)


def _concatenated(first: int, sets: list[NDArray[np.int32]]) -> AnswerSets:
    return AnswerSets(first, np.cumsum([0, *map(len, sets)], dtype=np.int64), np.concatenate(sets))


def holds(graph: KnowledgeGraph, queries: PathQueries, device: torch.device | str = "cpu") -> NDArray[np.bool_]:
    """Whether the target of each query is among its answers; shape [N].

    Compiled loops look for it where there are any; without them a GPU, if that is the `device`.
    """
    _check_ids(graph, queries)
    if not numba_installed() and str(device).startswith("cuda"):
        from blockhole.queries.answer_masks import hold_by_masks

        return hold_by_masks(graph, queries, device)
    edges = edges_by_relation(graph)
    if numba_installed():
        from blockhole.queries.answer_loops import rows_hold

        flat = flat_edges(graph, edges)

        def batch(first: int, last: int) -> NDArray[np.bool_]:
            part = queries.take(slice(first, last))
            return rows_hold(flat, part.source, part.path.astype(np.int64), part.length, part.target)
    else:

        def batch(first: int, last: int) -> NDArray[np.bool_]:
            part = queries.take(slice(first, last))
            sets = _answers_of_each(graph, edges, part)
            return np.array([np.isin(target, found) for target, found in zip(part.target, sets, strict=True)])

    return np.concatenate([np.zeros(0, dtype=bool), *over_rows(batch, len(queries), 4096)])


def _check_ids(graph: KnowledgeGraph, queries: PathQueries) -> None:
    """Refuse ids that the graph does not have: compiled loops would read past the ends of arrays."""
    hops = np.arange(queries.path.shape[1]) < queries.length[:, None]
    limits = (
        (queries.source, 0, graph.num_entities - 1),
        (queries.target, 0, graph.num_entities - 1),
        (queries.path[hops], 0, 2 * graph.num_relations - 1),
        (queries.length, 1, queries.path.shape[1]),
    )
    if any(len(values) and not low <= values.min() <= values.max() <= high for values, low, high in limits):
        raise ValueError("queries hold ids outside the graph's vocabularies, or paths without hops")


def _check_plan_ids(graph: KnowledgeGraph, steps: Steps, ids: NDArray[np.int32]) -> None:
    """The same for queries of one shape."""
    for step in steps:
        if isinstance(step, Start | Follow):
            most = graph.num_entities if isinstance(step, Start) else 2 * graph.num_relations
            own = ids[:, step.slot]
            if len(own) and not 0 <= own.min() <= own.max() < most:
                raise ValueError("queries hold ids outside the graph's vocabularies")


def flat_edges(graph: KnowledgeGraph, edges: EdgesByRelation) -> Edges:
    """Both orders of the edges, as compiled loops take them."""
    from blockhole.queries.answer_loops import Edges

    by_entity = graph.adjacency
    return Edges(
        by_entity.group_start,
        by_entity.group_relation,
        by_entity.edge_start,
        by_entity.target,
        edges.relation_start,
        edges.group_source,
        edges.edge_start,
        edges.target,
    )


def _answers_of_each(
    graph: KnowledgeGraph, edges: EdgesByRelation, queries: PathQueries
) -> Iterator[NDArray[np.int32]]:
    for source, path, length in zip(queries.source, queries.path, queries.length, strict=True):
        yield answers(graph, source, path[:length], edges)
