"""Fit the calibration of a run on its validation facts, and measure it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.calibration import Calibration, fit_calibration, save_calibration
from blockhole.answering.engine import Engine
from blockhole.answering.search import find_answers
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import DataSet, load
from blockhole.errors import DataError, RunError, Seed, UndefinedPath, checked
from blockhole.evaluation.classification import Reliability, reliability
from blockhole.evaluation.completion import both_sides
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.exact import holds
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import sample_walks
from blockhole.runs.run import Run

_HELD_OUT = 0.3


@checked
def calibrate(run: Run | Path | str, data: DataSet | Path | str | None = None, *, seed: Seed = 0) -> Calibration:
    """Fit a calibration on validation facts, those of the run's own data unless other data is given or named.

    It is kept in the folder of the run, where there is one, and used whenever the run is asked. `seed` decides which
    queries and candidates are drawn.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    data = _data_for(run, data)
    engine = Engine(Vectors.of(run), data.split.graph("train"))
    calibration = fit(engine, data, seed=seed)
    if run.folder is not None:
        save_calibration(calibration, run.folder)
    return calibration


@checked
def measure_calibration(
    run: Run | Path | str,
    data: DataSet | Path | str | None = None,
    *,
    calibration: Calibration | None = None,
    seed: Seed = 0,
) -> dict[str, Reliability]:
    """How the probabilities of a run compare with what is true on test queries, as `measure` says.

    They are those of the `calibration` given, or of the one that is kept in the run's folder.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    data = _data_for(run, data)
    engine = Engine.open(run, graph=data.split.graph("train"), calibration=calibration, calibrated=True)
    return measure(engine, data, seed=seed)


def _data_for(run: Run, data: DataSet | Path | str | None) -> DataSet:
    """The data given or named, or that of the run; its names are the run's."""
    if data is None:
        return data_of(run)
    if not isinstance(data, DataSet):
        data = load(data)
    require_same_names(run, data)
    return data


def fit(engine: Engine, data: DataSet, *, per_length: int = 2000, seed: Seed = 0) -> Calibration:
    """The calibration of `engine` by the validation facts of `data`; the curves' kind is chosen on queries held out."""
    queries = scored_queries(engine, calibration_queries(data, "dev", per_length, seed))
    pairs = collect_pairs(engine, queries, data.split.graph("train", "valid"), seed)
    if not pairs.label.any():
        raise DataError(f"all validation facts of {data.name} are in train too, so they say nothing; give others.")
    held_out = np.random.default_rng(seed).random(len(queries)) < _HELD_OUT
    return fit_calibration(pairs.length, pairs.evidence, pairs.label, held_out[pairs.query])


def measure(engine: Engine, data: DataSet, *, per_length: int = 2000, seed: int = 0) -> dict[str, Reliability]:
    """How the probabilities of `engine` do on test queries: of `all` pairs, and of those that `ask` would show.

    `all` are the targets, the ten best predicted answers and ten candidates drawn for each query.
    """
    queries = scored_queries(engine, calibration_queries(data, "test", per_length, seed))
    pairs = collect_pairs(engine, queries, data.split.graph("train", "valid", "test"), seed)
    probability = np.zeros(len(pairs))
    for length in np.unique(pairs.length).tolist():
        rows = pairs.length == length
        probability[rows] = engine.probability(pairs.evidence[rows], length)
    return {
        "all": reliability(probability, pairs.label),
        "shown": reliability(probability[pairs.shown], pairs.label[pairs.shown]),
    }


def scored_queries(engine: Engine, queries: PathQueries) -> PathQueries:
    """The queries of those lengths that the model defines scores for."""
    defined = np.ones(len(queries), dtype=bool)
    for length in queries.lengths():
        of_length = queries.length == length
        try:
            engine.scores(queries.take(np.flatnonzero(of_length)[:1]))
        except UndefinedPath:
            defined[of_length] = False
    return queries.take(defined)


# The pairs of a query and an entity that a calibration is fitted on and measured on

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


# The data behind a run


def data_of(run: Run) -> DataSet:
    """The data set that the run was trained on."""
    if run.config.data is None:
        raise RunError("the run was trained on a graph in memory and names no data set; give the data as well.")
    data = load(run.config.data)
    require_same_names(run, data)
    return data


def require_same_names(run: Run, data: DataSet) -> None:
    """Refuse data whose ids mean other names than the run's: they would give wrong answers, not none."""
    if (data.split.entities, data.split.relations) != (run.entities, run.relations):
        raise RunError(f"the run was trained on other data than {data.name}: its names differ; give the same data.")
