"""The pairs of a query and an entity that a calibration is fitted on and measured on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.batch import find_answers
from blockhole.data.dataset import DataSet
from blockhole.errors import DataError
from blockhole.evaluation.completion import both_sides
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.answers import holds
from blockhole.paths.queries import PathQueries
from blockhole.paths.walks import sample_walks

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine

SHOWN = 10
"""Predicted answers taken of each query: what people see of it."""
_DRAWN = 10
"""Further candidates drawn of each query: what a check may be asked about."""
_WALKS_PER_FACT = 4


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Predicted pairs of a query and a typed candidate: none of them follows from the known facts.

    `label` says whether it is true in G(F*); `shown` whether it is among the query's best ten, the others are drawn.
    Shapes [N]: query, length int64, evidence float64, label, shown bool.
    """

    query: NDArray[np.int64]
    length: NDArray[np.int64]
    evidence: NDArray[np.float64]
    label: NDArray[np.bool_]
    shown: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.label)


def collect_pairs(engine: Engine, queries: PathQueries, truth: KnowledgeGraph, seed: int = 0) -> Pairs:
    """For each query its target, the ten best predicted answers as `ask` shows them, and ten candidates at random."""
    num_entities = engine.graph.num_entities
    best = find_answers(engine, queries, SHOWN, only="predicted")
    shown_key = best.row * num_entities + best.entity
    target_key = np.arange(len(queries)) * num_entities + queries.target
    others = np.setdiff1d(np.concatenate([target_key, _draw_candidates(engine, queries, seed)]), shown_key)
    key = np.concatenate([shown_key, others])
    row, entity = np.divmod(key, max(num_entities, 1))
    pairs = PathQueries(queries.source[row], queries.path[row], queries.length[row], entity.astype(np.int32))
    evidence = np.concatenate([best.evidence, engine.scores(pairs.take(slice(len(shown_key), None)))[1]])
    predicted = ~holds(engine.graph, pairs)
    return Pairs(
        query=row[predicted],
        length=pairs.length[predicted].astype(np.int64),
        evidence=evidence[predicted],
        label=holds(truth, pairs)[predicted],
        shown=(np.arange(len(key)) < len(shown_key))[predicted],
    )


def calibration_queries(data: DataSet, part: Literal["dev", "test"], per_length: int, seed: int) -> PathQueries:
    """At most `per_length` distinct queries of each length to which train misses an answer, their target.

    They are the data set's induction queries, or walks sampled as those are where it has none, and each fact asked for
    from both of its ends.
    """
    facts = data.split.valid if part == "dev" else data.split.test
    if not len(facts):
        raise DataError(
            f"{data.name} has no {'validation' if part == 'dev' else 'test'} facts, on which probabilities are "
            "measured; set some aside with `blockhole data split` and train on what it writes, or name other data "
            "with --data."
        )
    if data.has_paths:
        walks = data.paths(f"{part}_induction")
    else:
        graph = data.split.graph("train", "valid" if part == "dev" else "test")
        walks = sample_walks(graph, _WALKS_PER_FACT * len(facts), seed=seed)
        walks = walks.take(~holds(data.split.graph("train"), walks))
    queries = PathQueries.concatenate([walks.take(walks.length > 1), both_sides(facts, len(data.split.relations))])
    order = np.random.default_rng(seed).permutation(len(queries))
    _, first = np.unique(_question_keys(queries)[order], axis=0, return_index=True)
    kept = order[np.sort(first)]
    return queries.take(
        np.concatenate([kept[queries.length[kept] == length][:per_length] for length in queries.lengths()])
    )


def _question_keys(queries: PathQueries) -> NDArray[np.int32]:
    """One row for each query, equal where length, source and path are; padding is zero already."""
    return np.column_stack([queries.length, queries.source, queries.path])


def _draw_candidates(engine: Engine, queries: PathQueries, seed: int) -> NDArray[np.int64]:
    """At most ten distinct candidates of the right type for each query, as row · E + entity; shape [S]."""
    rng = np.random.default_rng(seed)
    last = queries.last_relation
    keys = [np.zeros(0, dtype=np.int64)]
    for relation in np.unique(last):
        rows, candidates = np.flatnonzero(last == relation), engine.known.candidates(int(relation))
        if len(candidates):
            entity = rng.choice(candidates, (len(rows), _DRAWN))
            keys.append((rows[:, None] * engine.graph.num_entities + entity).reshape(-1))
    return np.unique(np.concatenate(keys))
