"""The best answers to path queries in ids: the one way to find them, for one query and for thousands.

Queries that share their candidates share a matrix product with these. Who comes along never changes an answer: query
vectors are the same bit for bit in any company, products only shortlist, and the shortlist is scored pair by pair in
float64, ties in the order of ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.answering.answers import Status
from blockhole.answering.index import MANY, ApproximateIndex, ExactIndex
from blockhole.answering.vectors import norms
from blockhole.queries.exact import AnswerSets
from blockhole.queries.paths import PathQueries

if TYPE_CHECKING:
    from blockhole.answering.engine import Candidates, Engine

_QUERIES = 512
_NUMBERS = 2**25
"""What a block of queries may hold at once: known answers, or numbers in the vectors of its shortlists."""
_EVERYONE = -1
"""Stands for all entities where a relation stands for those that it takes; it sorts first."""
_GATHERED_ALONE = 4
_GATHERED = 20
"""Rows that a product reads where they stand in the time that one is gathered in: of one query, and of several."""


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
        return Found(self.row[index], self.entity[index], self.score[index], self.evidence[index], self.known[index])

    def starts(self, count: int) -> NDArray[np.int64]:
        """Where the answers of each of `count` queries begin, and where the last end; shape [count + 1]."""
        return np.searchsorted(self.row, np.arange(count + 1))


_NOTHING = Found(*(np.zeros(0, dtype=dtype) for dtype in (np.int64, np.int64, np.float64, np.float64, bool)))


def find_answers(
    engine: Engine,
    queries: PathQueries,
    top: int | NDArray[np.int64],
    candidates: Candidates = "typed",
    only: Status | None = None,
) -> Found:
    """The `top` best answers to each query, whose targets are not read; `top` may differ [N].

    `only` keeps those that are known, or those that are predicted.
    """
    wanted = np.empty(len(queries), dtype=np.int64)
    wanted[:] = np.maximum(1, np.minimum(top, engine.graph.num_entities))
    pool = _pools(engine, queries.last_relation) if candidates == "typed" else np.full(len(queries), _EVERYONE)
    if len(queries) == 1:
        return _find_in_order(engine, queries, wanted, pool, candidates, only)
    # Queries that share a product come together; blocks of one length need no masks, like paths make like answer sets.
    order = np.lexsort((queries.source, *queries.path.T[::-1], queries.length, pool))
    found = _find_in_order(engine, queries.take(order), wanted[order], pool[order], candidates, only)
    found.row[:] = order[found.row]
    return found.take(np.argsort(found.row, kind="stable"))


def _find_in_order(
    engine: Engine,
    queries: PathQueries,
    top: NDArray[np.int64],
    pool: NDArray[np.integer],
    candidates: Candidates,
    only: Status | None,
) -> Found:
    """The same for queries in an order in which those of one `pool` [N] come together."""
    entities, width = engine.index.vectors.shape
    size = max(1, min(_QUERIES, _NUMBERS // max(entities, int(top.max(initial=1)) * width, 1)))
    parts = []
    shared, shared_by = _Shared(engine.index), _EVERYONE
    for sets in engine.known.answer_sets(queries, size):
        for part in _split(sets, pool):
            if pool[part.first] != shared_by:
                shared_by = int(pool[part.first])
                own = engine.known.candidates(shared_by)
                shared = _Shared(engine.index.subset(own), own)
            rows = slice(part.first, part.first + len(part))
            members = queries if len(part) == len(queries) else queries.take(rows)
            parts.append(_answer_block(engine, _Block(members, top[rows], candidates, only, part), shared))
    return parts[0] if len(parts) == 1 else _join([_NOTHING, *parts])


class _Block(NamedTuple):
    """Queries that are answered together: what is wanted of each, and its known answers."""

    queries: PathQueries
    top: NDArray[np.int64]
    candidates: Candidates
    only: Status | None
    known: AnswerSets


class _Shared(NamedTuple):
    """What a product is made with: the vectors of `entities` [C], ascending, or of all where none are named."""

    vectors: ExactIndex
    entities: NDArray[np.int32] | None = None

    def entity(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """The entities that stand in these columns."""
        return column if self.entities is None else self.entities[column].astype(np.int64)

    def column(self, entity: NDArray[np.int32]) -> NDArray[np.integer]:
        """The columns of some of the entities."""
        return entity if self.entities is None else np.searchsorted(self.entities, entity)


def _pools(engine: Engine, last: NDArray[np.int32]) -> NDArray[np.int32]:
    """Whose candidates each query's product is made with: those of its last relation, gathered, or everyone.

    Candidates that are not worth gathering are read where they stand, by one product with all entities. Shape [N].
    """
    count, queries = engine.known.candidate_counts, np.bincount(last, minlength=2 * engine.graph.num_relations)
    gathering = _GATHERED_ALONE if len(last) == 1 else _GATHERED
    gathered = count * (gathering + queries) < engine.graph.num_entities * queries
    return np.where(gathered[last], last, np.int32(_EVERYONE))


def _join(parts: list[Found]) -> Found:
    return Found(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Found)))


def _split(sets: AnswerSets, pool: NDArray[np.integer]) -> Iterator[AnswerSets]:
    """The sets in pieces whose queries share a product."""
    own = pool[sets.first : sets.first + len(sets)]
    bounds = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), len(sets)]
    for begin, end in pairwise(bounds):
        indptr = sets.indptr[begin : end + 1]
        yield AnswerSets(sets.first + begin, indptr - indptr[0], sets.entities[indptr[0] : indptr[-1]])


def _answer_block(engine: Engine, block: _Block, shared: _Shared) -> Found:
    vector = engine.vectors.queries(block.queries)
    norm = norms(vector)
    row, entity = _shortlist(engine, block, shared, vector)
    each = vector if len(vector) == 1 else vector.index_select(0, torch.from_numpy(row))
    score = (each * engine.vectors.candidates(entity)).sum(dim=1).numpy()
    best = _best_of_rows(row, entity, score, block.top)
    row, entity, score = row[best], entity[best], score[best]
    return Found(
        row=block.known.first + row,
        entity=entity,
        score=score,
        evidence=score / norm[row],
        known=_among(block.known, row, entity, engine.graph.num_entities),
    )


def _shortlist(
    engine: Engine, block: _Block, shared: _Shared, vector: Tensor
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and entities among which the best answers are; shapes [S], [S]."""
    known = block.known
    if block.only == "known":
        return known.row.astype(np.int64), known.entities.astype(np.int64)
    hidden = _hidden(engine, block, shared)
    if engine.approximate is not None and len(shared.vectors.vectors) > MANY:
        return _partly_approximate(engine.approximate, block, shared, vector, hidden)
    row, column = shared.vectors.shortlists(vector, block.top, hidden)
    return row, shared.entity(column)


def _hidden(engine: Engine, block: _Block, shared: _Shared) -> NDArray[np.bool_] | None:
    """Which columns are no candidates of a query: [B, C], or None where all are."""
    typed = block.candidates == "typed" and shared.entities is None
    if not typed and block.only is None:
        return None
    hidden = np.full((len(block.queries), len(shared.vectors.vectors)), typed)
    if typed:
        last = block.queries.last_relation
        for relation in np.unique(last).tolist():
            hidden[np.ix_(last == relation, engine.known.candidates(relation))] = False
    if block.only == "predicted":
        hidden[block.known.row, shared.column(block.known.entities)] = True
    return hidden


def _partly_approximate(
    index: ApproximateIndex, block: _Block, shared: _Shared, vector: Tensor, hidden: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same where queries of many candidates are looked for in an approximate index, each by itself."""
    count = len(shared.vectors.vectors) - (np.zeros(len(vector)) if hidden is None else hidden.sum(axis=1))
    few = np.flatnonzero(count <= MANY)
    row, column = shared.vectors.shortlists(vector[few], block.top[few], None if hidden is None else hidden[few])
    rows, entities = [few[row]], [shared.entity(column)]
    for i in np.flatnonzero(count > MANY).tolist():
        allowed = shared.entities if hidden is None else shared.entity(np.flatnonzero(~hidden[i])).astype(np.int32)
        entities.append(index.shortlist(vector[i], int(block.top[i]), allowed))
        rows.append(np.full(len(entities[-1]), i))
    return np.concatenate(rows), np.concatenate(entities)


def _best_of_rows(
    row: NDArray[np.int64], entity: NDArray[np.int64], score: NDArray[np.float64], top: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Positions of the `top` [B] best of each row, by row and then best first; equal scores by entity."""
    order = np.lexsort((entity, -score, row))
    ordered = row[order]
    place = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[place < top[ordered]]


def _among(sets: AnswerSets, row: NDArray[np.int64], entity: NDArray[np.int64], num_entities: int) -> NDArray[np.bool_]:
    """Whether each entity is among the answers of its row."""
    listed = sets.row * num_entities + sets.entities
    wanted = row * num_entities + entity
    if not len(listed):
        return np.zeros(len(wanted), dtype=bool)
    place = np.minimum(np.searchsorted(listed, wanted), len(listed) - 1)
    found: NDArray[np.bool_] = listed[place] == wanted
    return found
