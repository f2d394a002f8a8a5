"""Answers to many queries at once, as arrays: one matrix product for all queries that share their candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.answers import Status
from blockhole.answering.vectors import norms
from blockhole.paths.answers import AnswerSets, answer_sets
from blockhole.paths.queries import PathQueries

if TYPE_CHECKING:
    from blockhole.answering.engine import Candidates, Engine

_SCORES = 2**21
"""Scores in a block: 8 MB stay in the cache between the product and the selection."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Answers to queries 0 … N-1: `entity` answers query `row`; sorted by row, best first.

    `evidence` is the score over the norm of the query vector. Shapes [S]: row, entity int64, score, evidence float64,
    known bool.
    """

    row: NDArray[np.int64]
    entity: NDArray[np.int64]
    score: NDArray[np.float64]
    evidence: NDArray[np.float64]
    known: NDArray[np.bool_]

    def take(self, index: NDArray[np.intp]) -> Found:
        """The answers at these positions."""
        return Found(*(getattr(self, field.name)[index] for field in fields(self)))

    def starts(self, count: int) -> NDArray[np.int64]:
        """Where the answers of each of `count` queries begin, and where the last end; shape [count + 1]."""
        return np.searchsorted(self.row, np.arange(count + 1))


_NOTHING = Found(*(np.zeros(0, dtype=dtype) for dtype in (np.int64, np.int64, np.float64, np.float64, bool)))


def find_answers(
    engine: Engine, queries: PathQueries, top: int, candidates: Candidates = "typed", only: Status | None = None
) -> Found:
    """The `top` best answers to each query, as `Engine.ask` gives them; the targets of the queries are not read."""
    parts = [_NOTHING]
    for rows, entities in _groups(engine, queries, candidates):
        parts += _group_answers(engine, queries, rows, entities, top, only)
    joined = Found(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Found)))
    return joined.take(np.argsort(joined.row, kind="stable"))


def _groups(
    engine: Engine, queries: PathQueries, candidates: Candidates
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int32]]]:
    """Rows of the queries that share their candidates, with these candidates."""
    # Blocks of one length need no masks when they are embedded, and like paths make like answer sets.
    order = np.lexsort((queries.source, *queries.path.T[::-1], queries.length))
    if candidates == "all":
        yield order, np.arange(engine.graph.num_entities, dtype=np.int32)
        return
    last = queries.last_relation[order]
    for relation in np.unique(last):
        yield order[last == relation], engine.known.candidates(int(relation))


def _group_answers(
    engine: Engine,
    queries: PathQueries,
    rows: NDArray[np.intp],
    entities: NDArray[np.int32],
    top: int,
    only: Status | None,
) -> Iterator[Found]:
    size = max(1, min(len(rows), _SCORES // max(len(entities), 1)))
    members = queries.take(rows)
    column = np.zeros(engine.graph.num_entities, dtype=np.int64)
    column[entities] = np.arange(len(entities))
    shared = None if len(entities) == engine.graph.num_entities else entities
    block_index = engine.index.subset(shared)
    for sets in answer_sets(engine.graph, members, batch_size=size):
        block = members.take(slice(sets.first, sets.first + len(sets)))
        vector = engine.vectors.queries(block)
        if only == "known":
            row, entity = sets.row.astype(np.int64), sets.entities.astype(np.int64)
        else:
            hidden = sets.row * len(entities) + column[sets.entities] if only == "predicted" else None
            row, picked = block_index.shortlists(vector, top, hidden)
            entity = entities[picked].astype(np.int64)
        score = (vector[torch.from_numpy(row)] * engine.vectors.candidates(entity)).sum(dim=1).numpy()
        best = _best_of_rows(row, entity, score, top)
        row, entity, score = row[best], entity[best], score[best]
        yield Found(
            row=rows[sets.first + row].astype(np.int64),
            entity=entity,
            score=score,
            evidence=score / norms(vector)[row],
            known=_among(sets, row, entity, engine.graph.num_entities),
        )


def _best_of_rows(
    row: NDArray[np.int64], entity: NDArray[np.int64], score: NDArray[np.float64], top: int
) -> NDArray[np.intp]:
    """Positions of the `top` best of each row, by row and then best first; equal scores by entity."""
    order = np.lexsort((entity, -score, row))
    ordered = row[order]
    place = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[place < top]


def _among(sets: AnswerSets, row: NDArray[np.int64], entity: NDArray[np.int64], num_entities: int) -> NDArray[np.bool_]:
    """Whether each entity is among the answers of its row."""
    listed = sets.row * num_entities + sets.entities
    wanted = row * num_entities + entity
    if not len(listed):
        return np.zeros(len(wanted), dtype=bool)
    place = np.minimum(np.searchsorted(listed, wanted), len(listed) - 1)
    found: NDArray[np.bool_] = listed[place] == wanted
    return found
