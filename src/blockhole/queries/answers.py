"""Exact answers ⟦q⟧ of path queries: every entity reachable from the source along the path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.compiled import numba_installed, over_rows
from blockhole.graph.knowledge_graph import EdgesByRelation, KnowledgeGraph, edges_by_relation
from blockhole.queries.paths import PathQueries

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


def answers(graph: KnowledgeGraph, source: int, path: Sequence[int]) -> NDArray[np.int32]:
    """⟦s/r1/…/rk⟧ of one query, ascending; relation ids in the space of 2R."""
    return np.flatnonzero(_reached(edges_by_relation(graph), graph.num_entities, source, path)).astype(np.int32)


def answer_sets(graph: KnowledgeGraph, queries: PathQueries, batch_size: int = 512) -> Iterator[AnswerSets]:
    """The answer sets of all queries, in order, `batch_size` queries at a time.

    FB13's sets hold a billion entities in all, so only a few batches exist at any moment.
    """
    _check_ids(graph, queries)
    edges = edges_by_relation(graph)
    if numba_installed():
        from blockhole.queries.answer_loops import answer_rows

        flat = _flat(graph, edges)

        def batch(first: int, last: int) -> AnswerSets:
            part = queries.take(slice(first, last))
            return AnswerSets(first, *answer_rows(flat, part.source, part.path.astype(np.int64), part.length))
    else:

        def batch(first: int, last: int) -> AnswerSets:
            part = queries.take(slice(first, last))
            sets = [np.flatnonzero(reached) for reached in _reached_by_each(graph, edges, part)]
            indptr = np.cumsum([0, *map(len, sets)], dtype=np.int64)
            return AnswerSets(first, indptr, np.concatenate(sets).astype(np.int32))

    return over_rows(batch, len(queries), batch_size)


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

        flat = _flat(graph, edges)

        def batch(first: int, last: int) -> NDArray[np.bool_]:
            part = queries.take(slice(first, last))
            return rows_hold(flat, part.source, part.path.astype(np.int64), part.length, part.target)
    else:

        def batch(first: int, last: int) -> NDArray[np.bool_]:
            part = queries.take(slice(first, last))
            reached = _reached_by_each(graph, edges, part)
            return np.array([flags[target] for flags, target in zip(reached, part.target, strict=True)])

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


def _flat(graph: KnowledgeGraph, edges: EdgesByRelation) -> Edges:
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


def _reached(edges: EdgesByRelation, num_entities: int, source: int, path: Sequence[int]) -> NDArray[np.bool_]:
    """One flag for each entity: whether the path leads there from the source; shape [E]."""
    reached = np.zeros(num_entities, dtype=bool)
    reached[source] = True
    for relation in path:
        sources, targets = edges.edges(relation)
        targets = targets[reached[sources]]
        reached[:] = False
        reached[targets] = True
    return reached


def _reached_by_each(
    graph: KnowledgeGraph, edges: EdgesByRelation, queries: PathQueries
) -> Iterator[NDArray[np.bool_]]:
    for source, path, length in zip(queries.source, queries.path, queries.length, strict=True):
        yield _reached(edges, graph.num_entities, source, path[:length])
