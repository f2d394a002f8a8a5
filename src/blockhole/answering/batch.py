"""Answers to many queries at once, as arrays: one matrix product for all queries that share their candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.answers import Status
from blockhole.answering.index import ExactIndex
from blockhole.answering.vectors import norms
from blockhole.queries.answers import AnswerSets, answer_sets
from blockhole.queries.paths import PathQueries

if TYPE_CHECKING:
    from blockhole.answering.engine import Candidates, Engine

_QUERIES = 512
_NUMBERS = 2**25
"""What a block of queries may hold at once: known answers, or numbers in the vectors of its shortlists."""


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


class _Shared(NamedTuple):
    """What queries with the same candidates share: `entities` [C], their index, and the column of each of them [E]."""

    entities: NDArray[np.int32]
    vectors: ExactIndex
    column: NDArray[np.int64]


def find_answers(
    engine: Engine, queries: PathQueries, top: int, candidates: Candidates = "typed", only: Status | None = None
) -> Found:
    """The `top` best answers to each query, as `Engine.ask` gives them; the targets of the queries are not read."""
    # Blocks of one length need no masks when they are embedded, and like paths make like answer sets.
    last = queries.last_relation if candidates == "typed" else np.zeros(len(queries), dtype=np.int32)
    order = np.lexsort((queries.source, *queries.path.T[::-1], queries.length, last))
    members, last = queries.take(order), last[order]
    entities, width = engine.index.vectors.shape
    top = max(1, min(top, entities))
    size = max(1, min(_QUERIES, _NUMBERS // max(entities, top * width, 1)))
    parts = [_NOTHING]
    shared, shared_by = _share(engine, None), None
    for sets in answer_sets(engine.graph, members, batch_size=size):
        for part in _split(sets, last):
            if candidates == "typed" and last[part.first] != shared_by:
                shared_by = last[part.first]
                shared = _share(engine, engine.known.candidates(int(shared_by)))
            parts.append(_answer_block(engine, members, part, shared, top, only))
    joined = Found(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Found)))
    joined.row[:] = order[joined.row]
    return joined.take(np.argsort(joined.row, kind="stable"))


def _share(engine: Engine, candidates: NDArray[np.int32] | None) -> _Shared:
    """For given candidates, or for all entities."""
    num_entities = engine.graph.num_entities
    entities = np.arange(num_entities, dtype=np.int32) if candidates is None else candidates
    column = np.zeros(num_entities, dtype=np.int64)
    column[entities] = np.arange(len(entities))
    return _Shared(entities, engine.index.subset(candidates), column)


def _split(sets: AnswerSets, last: NDArray[np.int32]) -> Iterator[AnswerSets]:
    """The sets in pieces whose queries have the same `last` relation."""
    own = last[sets.first : sets.first + len(sets)]
    bounds = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), len(sets)]
    for begin, end in pairwise(bounds):
        indptr = sets.indptr[begin : end + 1]
        yield AnswerSets(sets.first + begin, indptr - indptr[0], sets.entities[indptr[0] : indptr[-1]])


def _answer_block(
    engine: Engine, members: PathQueries, sets: AnswerSets, shared: _Shared, top: int, only: Status | None
) -> Found:
    """The answers to the queries of `sets`."""
    vector = engine.vectors.queries(members.take(slice(sets.first, sets.first + len(sets))))
    if only == "known":
        row, entity = sets.row.astype(np.int64), sets.entities.astype(np.int64)
    else:
        width = len(shared.entities)
        hidden = sets.row * width + shared.column[sets.entities] if only == "predicted" else None
        row, picked = shared.vectors.shortlists(vector, top, hidden)
        entity = shared.entities[picked].astype(np.int64)
    score = (vector[torch.from_numpy(row)] * engine.vectors.candidates(entity)).sum(dim=1).numpy()
    best = _best_of_rows(row, entity, score, top)
    row, entity, score = row[best], entity[best], score[best]
    return Found(
        row=sets.first + row,
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
