"""Fit the calibration of a run on its validation facts, and measure it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, final, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.calibration import (
    BEND,
    ENOUGH,
    ONE_PART,
    Calibrated,
    Calibration,
    ChainCurve,
    Curve,
    Parts,
    fit_logistic,
    log_odds,
    save_calibration,
)
from blockhole.answering.device import DeviceSweep
from blockhole.answering.engine import Engine
from blockhole.answering.hops import NEW, NEW_OBJECTS, Floats, Ids, Table
from blockhole.answering.known import KnownFacts
from blockhole.answering.reliability import Judged, judge_answers, measured_by_type
from blockhole.answering.search import UNLIMITED, Candidates, Search, Wanted
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import DataSet, load
from blockhole.errors import BlockholeWarning, DataError, QueryTooCostly, RunError, Seed, checked, counted
from blockhole.evaluation.classification import Measured
from blockhole.evaluation.completion import both_sides
from blockhole.evaluation.query_ranking import rank_answers
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.machine import choose_device
from blockhole.queries.exact import holds
from blockhole.queries.paths import PathQueries
from blockhole.queries.plans import Plan
from blockhole.queries.query_sampling import sample_from_split
from blockhole.queries.walks import sample_walks
from blockhole.runs.run import Run

_WALKS_PER_FACT = 4


@checked
def calibrate(
    run: Run | Path | str, data: DataSet | Path | str | None = None, *, seed: Seed = 0, device: str = "auto"
) -> Calibration:
    """Fit a calibration on validation facts, those of the run's own data unless other data is given or named.

    It is kept in the folder of the run, or with a run that is only in memory, and used whenever the run is asked.
    `seed` decides which facts and candidates are drawn. A GPU, where `device` is one, takes seconds for what takes
    minutes without.
    """
    place = choose_device(device)
    run = run if isinstance(run, Run) else Run.open(run)
    calibrated = fit(Vectors.of(run), _data_for(run, data), seed=seed, device=place)
    if run.folder is not None:
        save_calibration(calibrated, run.folder)
    else:
        run.calibrated = calibrated
    return calibrated.calibration


@checked
def measure_calibration(
    run: Run | Path | str, data: DataSet | Path | str | None = None, *, seed: Seed = 0
) -> dict[str, Measured]:
    """How the probabilities of a calibrated run compare with what is true on test queries, as `measure` says."""
    run = run if isinstance(run, Run) else Run.open(run)
    data = _data_for(run, data)
    return measure(Engine.open(run, graph=data.split.graph("train"), calibrated=True), data, seed=seed)


def measure(engine: Engine, data: DataSet, *, per_length: int = 500, seed: int = 0) -> dict[str, Measured]:
    """How the probabilities of the ten best predicted answers do on test queries: of all, and by number of hops."""
    queries = calibration_queries(data, per_length, seed)
    truth, judged = data.split.graph("train", "valid", "test"), {}
    for length in queries.lengths():
        own = queries.take(queries.length == length)
        sources, paths = own.source.tolist(), own.path[:, :length].tolist()
        name = f"{length} hops" if length > 1 else "1 hop"
        judged[name] = judge_answers(engine, list(map(Plan.of_chain, sources, paths)), truth)
    return measured_by_type({"all": Judged.joined(list(judged.values())), **judged})


def _data_for(run: Run, data: DataSet | Path | str | None) -> DataSet:
    """The data given or named, or that of the run; its names are the run's."""
    if data is None:
        return data_of(run)
    if not isinstance(data, DataSet):
        data = load(data)
    require_same_names(run, data)
    return data


def fit(vectors: Vectors, data: DataSet, *, seed: Seed = 0, device: torch.device | None = None) -> Calibrated:
    """The calibration of a model's vectors by the validation facts of `data`, on a GPU where `device` is one."""
    device = device if device is not None and device.type == "cuda" else None
    known = KnownFacts(data.split.graph("train"))
    asked = _missing_facts(known, data)
    if len(asked) // 2 < ENOUGH:
        raise DataError(
            f"{data.name} has {counted(len(asked) // 2, 'validation fact')} that train does not have, and a "
            f"calibration needs {ENOUGH}; answers have shares as scores until then, and no probabilities."
        )
    rng = np.random.default_rng(seed)
    asked = asked.take(rng.permutation(len(asked))[:_ASKED])
    parts, scale = _fit_scale(vectors, known, asked.take(slice(0, _SCALED)))
    # What follows is fitted on shares, for which any curve will do.
    calibration = Calibration(
        scale=scale,
        parts=parts,
        new_objects=NEW_OBJECTS,
        doubts={},
        hop=_ANY,
        chains={},
        facts=len(asked),
        missing=1,
        brier=0,
        sampling_error=0,
    )
    table, error = _normalisers(Engine(vectors, known.graph, Calibrated(calibration, None)), rng, device)
    engine, truth = Engine(vectors, known.graph, Calibrated(calibration, table)), data.split.graph("train", "valid")
    pairs = _pairs(engine, asked, truth, "taken", rng, device)
    doubts, pairs = _fit_doubts(pairs)
    held_out = pairs.question % 10 < 10 * _HELD_OUT
    curve = _fit_curve(pairs)
    brier = _brier(_fit_curve(pairs.take(~held_out)), pairs, held_out)
    engine = _recalibrated(engine, doubts=doubts, hop=curve, brier=brier, sampling_error=error)
    others = _pairs(engine, asked.take(slice(0, _ASKED_OF_ALL)), truth, "others", rng, device)
    engine = _recalibrated(engine, new_objects=_fit_new_objects(others, curve))
    engine = _recalibrated(engine, new_objects=_best_new_objects(engine, data, seed, device))
    chains = _fit_chains(engine, data, seed, device)
    missing = _missing_by_validation_fact(known, data)
    hop = curve.model_copy(update={"intercept": curve.intercept + float(np.log(missing))})
    engine = _recalibrated(engine, hop=hop, chains=chains, missing=missing)
    assert engine.calibrated is not None
    return engine.calibrated


def _recalibrated(engine: Engine, **fitted: Any) -> Engine:
    """The same engine, with some parts of its calibration fitted."""
    assert engine.calibrated is not None
    calibration = engine.calibrated.calibration.model_copy(update=fitted)
    return Engine(engine.vectors, engine.graph, replace(engine.calibrated, calibration=calibration))


def _missing_by_validation_fact(known: KnownFacts, data: DataSet) -> float:
    """How many facts train is known to lack for each validation fact that it lacks, for test facts are missing too.

    The odds of a hop are so many times as large as validation facts say. Of test facts their number alone is taken, and
    no more of them than there are validation facts: who misses a father misses one, however much is missing elsewhere.
    Paths need no more: they are made of hops.
    """
    lacking = [
        int((~holds(known.graph, PathQueries.from_triples(facts))).sum())
        for facts in (data.split.valid, data.split.test)
    ]
    return min(sum(lacking) / lacking[0], 2.0)


_ANY = Curve(low=-1.0, low_slope=1.0, slope=1.0, top_slope=1.0, intercept=0.0)
_ASKED = 2000
_ASKED_OF_ALL = 250
_SCALED = 256
_HELD_OUT = 0.3
_BEST = 20
_LEAST = 0.05
"""A larger share always counts a little more, and a better witness does, or the best answers would have no order."""
_AT_ONCE = 2**22
_KEPT = 2**26
"""Normalisers that are kept with a run, at most: 256 MiB."""
_BUDGET = (5e10, 2e10)
"""Products of numbers that all normalisers may cost of (s, r) with a known fact, and those of all others."""


def _missing_facts(known: KnownFacts, data: DataSet) -> PathQueries:
    """The validation facts that train does not have, asked for from both ends; each (s, r) once."""
    facts = data.split.valid
    if not len(facts):
        raise DataError(
            f"{data.name} has no validation facts, by which probabilities are fitted; set some aside with "
            "`blockhole data split` and train on what it writes, or name other data with --data."
        )
    queries = both_sides(facts, len(data.split.relations))
    queries = queries.take(~holds(known.graph, queries))
    _, first = np.unique(np.column_stack([queries.path[:, 0], queries.source]), axis=0, return_index=True)
    return queries.take(np.sort(first))


def _fit_scale(vectors: Vectors, known: KnownFacts, asked: PathQueries) -> tuple[Parts, float]:
    """How much each part counts, and α: of greatest likelihood that a softmax over all unknown objects gives facts."""
    from scipy.optimize import minimize_scalar

    table, first = vectors.all_candidates(), 0
    vector: list[Floats] = []
    excluded: list[Ids] = []
    target: list[Ids] = []
    for relation in np.unique(asked.path[:, 0]).tolist():
        rows = np.flatnonzero(asked.path[:, 0] == relation)
        vector.append(vectors.walk(vectors.rows(asked.source[rows]), [relation]))
        row, known_object = known.facts_of(asked.source[rows], relation)
        excluded.append(np.stack([row + first, known_object]))
        target.append(asked.target[rows])
        first += len(rows)
    place, (row, known_object) = np.concatenate(target), np.concatenate(excluded, axis=1)
    hits = np.stack([np.arange(len(place)), place])
    parts, score = _fit_parts(vectors, table, np.concatenate(vector), (row, known_object), hits)
    score[row, known_object] = -np.inf
    score -= score.max(axis=1, keepdims=True)
    hit = score[np.arange(len(place)), place]

    def loss(log_scale: float) -> float:
        scale = np.float32(np.exp(log_scale))
        return float((np.log(np.exp(scale * score).sum(axis=1)) - scale * hit).mean())

    found = minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 0.01}).x
    return parts, float(np.exp(found))


def _fit_parts(
    vectors: Vectors, table: Table, query: Floats, excluded: tuple[Ids, Ids], hits: Ids
) -> tuple[Parts, Table]:
    """How much each part of a merged model counts in query vectors, and the scores they have then.

    The weights have the greatest likelihood that a softmax over all but the `excluded` (row, entity) gives the `hits`,
    [2, H]: a row's hits count as one. A model of one part has nothing to weigh. Shapes: [N, width] → [N, E].
    """
    from scipy.optimize import minimize

    count = len(vectors.settings.merged_from) or 1
    scores = [np.where(vectors.part == part, query, 0.0).astype(np.float32) @ table.T for part in range(count)]
    if count == 1:
        return ONE_PART, scores[0]
    row, entity = hits
    share = 1 / np.bincount(row, minlength=len(query))[row] / len(np.unique(row))
    true = np.array([share @ score[row, entity] for score in scores])
    used = np.unique(row)

    def loss(weights: Floats) -> tuple[float, Floats]:
        score = _mixed(scores, weights)
        score[excluded] = -np.inf
        score = score[used]
        most = score.max(axis=1, keepdims=True)
        np.exp(score - most, out=score)
        total = score.sum(axis=1, keepdims=True)
        score /= total
        slope = np.array([np.einsum("ne,ne->", score, own[used]) / len(used) for own in scores]) - true
        return float((np.log(total) + most).mean() - weights @ true), slope

    found = minimize(loss, np.full(count, 1.0), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * count).x
    return tuple(found.tolist()), _mixed(scores, found)


def _mixed(scores: Sequence[Table], weights: Floats) -> Table:
    """The weighted sum of tables of scores: [N, E]."""
    mixed = np.zeros_like(scores[0])
    for score, weight in zip(scores, weights.tolist(), strict=True):
        mixed += np.float32(weight) * score
    return mixed


def _normalisers(
    engine: Engine, rng: np.random.Generator, device: torch.device | None
) -> tuple[NDArray[np.float32] | None, float]:
    """The normalisers that are worth keeping, and the error of those that are sampled."""
    graph, known, normalisers = engine.graph, engine.known, engine.hops.normalisers
    relations, entities = 2 * graph.num_relations, graph.num_entities
    if relations * entities > _KEPT:
        return None, 0.0
    sources = [known.candidates(graph.inverse(relation)) for relation in range(relations)]
    typed = sum(map(len, sources))
    counts = (typed, relations * entities - typed)
    sizes = [normalisers.affordable(count, budget) for count, budget in zip(counts, _BUDGET, strict=True)]
    sums = normalisers.sums
    if device is not None:
        sums, sizes = DeviceSweep(engine, device).normalisers, [entities, max(sizes[1], _ON_GPU)]
    table = np.empty((relations, entities), dtype=np.float32)
    squares: list[float] = []
    for relation in range(relations):
        others = np.setdiff1d(np.arange(entities), sources[relation], assume_unique=True)
        for part, size in zip((sources[relation], others), sizes, strict=True):
            if len(part):
                table[relation, part] = sums(part, relation, size)
                if size < entities and len(squares) < 400:
                    some = rng.choice(part, min(2, len(part)), replace=False)
                    exact = sums(some, relation, entities)
                    squares += ((table[relation, some] - exact) ** 2).tolist()
    return table, float(np.sqrt(np.mean(squares))) if squares else 0.0


_ON_GPU = 4096
"""Entities that a sampled normaliser runs over on a GPU."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Objects that (s, r) does not have in train: the `best` twenty of each, and some others, each for `weight` many.

    `share` is x, `kind` is log κ, `limit` L_s. Shapes [N].
    """

    question: NDArray[np.int64]
    relation: NDArray[np.int64]
    limit: NDArray[np.float32]
    share: NDArray[np.float32]
    kind: NDArray[np.float32]
    label: NDArray[np.bool_]
    best: NDArray[np.bool_]
    weight: Floats

    def take(self, which: NDArray[np.bool_]) -> Pairs:
        """Some of them."""
        return Pairs(*(getattr(self, each.name)[which] for each in fields(self)))


def _pairs(
    engine: Engine,
    asked: PathQueries,
    truth: KnowledgeGraph,
    which: Literal["taken", "others"],
    rng: np.random.Generator,
    device: torch.device | None,
) -> Pairs:
    """Pairs of the questions asked, with objects that the relation takes in train, or with all others.

    The two are kept apart: of the others there are many more, hardly any is an answer, and a curve that was fitted on
    both would say far too little of those that a relation takes.
    """
    found: list[tuple[NDArray[Any], ...]] = []
    known, true, place = engine.known, KnownFacts(truth), np.full(engine.graph.num_entities, -1)
    sweep = DeviceSweep(engine, device) if device is not None else None
    for relation in np.unique(asked.path[:, 0]).tolist():
        questions, objects = np.flatnonzero(asked.path[:, 0] == relation), known.candidates(relation)
        if which == "others":
            objects = np.setdiff1d(np.arange(known.graph.num_entities), objects, assume_unique=True)
        if not len(objects):
            continue
        if sweep is None:
            shares = partial(engine.hops.shares, columns=engine.hops.columns(relation, objects))
        else:
            shares = partial(sweep.shares, relation=relation, objects=objects)
        kind = engine.hops.log_kind(relation)[objects]
        place[:] = -1
        place[objects] = np.arange(len(objects))
        size = max(1, _AT_ONCE // len(objects))
        for first in range(0, len(questions), size):
            rows = questions[first : first + size]
            source = asked.source[rows]
            share, label = shares(source), np.zeros((len(rows), len(objects)), dtype=bool)
            for facts, of in ((true, label), (known, share)):
                row, target = facts.facts_of(source, relation)
                row, target = row[place[target] >= 0], place[target][place[target] >= 0]
                of[row, target] = facts is true
            spare = engine.hops.spare(relation)
            limit = np.full(len(rows), np.float32(np.inf)) if spare is None else spare[source]
            for question, most, own, is_true in zip(rows, limit, share, label, strict=True):
                chosen, best, weight = _drawn(own * np.exp(kind), is_true, rng)
                asked_of = (np.full(len(chosen), each) for each in (question, relation, most))
                found.append((*asked_of, own[chosen], kind[chosen], is_true[chosen], best, weight))
    empty = *[np.zeros(0, np.int64)] * 2, *[np.zeros(0, np.float32)] * 3, *[np.zeros(0, bool)] * 2, np.zeros(0)
    return Pairs(*map(np.concatenate, zip(empty, *found, strict=True)))


def _drawn(
    share: NDArray[np.float32], label: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.bool_], Floats]:
    """Of one question the best objects, the true ones among all others, and some that stand for the rest.

    What is known has share 0 and is left out.
    """
    count = min(_BEST, len(share))
    best = np.argpartition(-share, count - 1)[:count]
    rest = share > 0
    rest[best] = False
    true, false = np.flatnonzero(rest & label), np.flatnonzero(rest & ~label)
    drawn = rng.choice(false, min(_BEST, len(false)), replace=False)
    best = best[share[best] > 0]
    sizes = len(best), len(true), len(drawn)
    weight = np.repeat([1.0, 1.0, len(false) / max(len(drawn), 1)], sizes)
    return np.concatenate([best, true, drawn]), np.repeat([True, False, False], sizes), weight


def _fit_new_objects(others: Pairs, curve: Curve) -> float:
    """c: how much an object counts that is new to a relation, so that as many are probable as are true."""

    def excess(log_times: float) -> float:
        kind = others.kind + np.float32(log_times - np.log(NEW_OBJECTS))
        return float(others.weight @ (curve.probability(others.share, kind) - others.label))

    return float(np.exp(_root(excess, *np.log(_NEW_OBJECTS)))) if len(others.share) else NEW_OBJECTS


_NEW_OBJECTS = (1e-4, 30.0)


def _best_new_objects(engine: Engine, data: DataSet, seed: int, device: torch.device | None) -> float:
    """c, for which missing answers rank best among all entities: as fitted on single hops, or some times as much.

    An answer to `a/r & b/s`, drawn from all entities and not by its number of facts, is new to one of the relations
    much more often than the object of a fact drawn at random. How much more, and how much worse single hops rank then,
    differs from graph to graph, so c is chosen by the ranks of all such questions, sampled as `blockhole data queries`
    does. η and L, which are the same whatever c is, are left out.
    """
    assert engine.calibration is not None
    fitted, curve, entities = engine.calibration.new_objects, engine.calibration.hop, engine.graph.num_entities
    count = min(_RANKED, _SHARES // entities)
    if count < ENOUGH:
        return fitted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlockholeWarning)  # of few queries
        try:
            queries = sample_from_split(data.split, "valid", _RANKED_TYPES, count, seed, name=data.name)
        except DataError:
            return fitted
    if min(map(len, queries.ids.values())) < ENOUGH:
        return fitted
    tried = np.minimum(fitted * np.array(_TIMES), _NEW_OBJECTS[1])
    hops = np.unique(np.concatenate([ids.reshape(-1, 2) for ids in queries.ids.values()]), axis=0)
    shares = _rows_of_shares(engine, hops, device)
    place = {(source, relation): row for row, (source, relation) in enumerate(hops.tolist())}
    truth = KnownFacts(data.split.graph("train", "valid"))
    reciprocal = np.zeros(len(tried))
    for type_, ids in queries.ids.items():
        union = type_ == "2u"
        for row in ids.reshape(len(ids), -1, 2).tolist():
            known, answers = (
                reduce(
                    np.union1d if union else np.intersect1d,
                    [facts.answers(source, [relation]) for source, relation in row],
                )
                for facts in (engine.known, truth)
            )
            value = np.ones((len(tried), entities))
            for source, relation in row:
                kind = engine.hops.log_kind(relation)
                times = np.log(tried / fitted).astype(np.float32)[:, None]
                kinds = np.where(kind < 0, np.minimum(kind + times, np.float32(NEW)), kind)
                own = curve.probability(np.broadcast_to(shares[place[source, relation]], kinds.shape), kinds)
                own[:, engine.known.answers(source, [relation])] = 1.0
                value *= 1 - own if union else own
            value = 1 - value if union else value
            hard = np.setdiff1d(answers, known)
            for at, each in enumerate(value):
                ranks, _ = rank_answers(each, each, hard, known)
                reciprocal[at] += float((1 / ranks.rank("half")).mean()) / len(ids)
    return float(tried[np.argmax(reciprocal)])


_TIMES = (1.0, 0.3, 3.0, 10.0, 30.0, 100.0)
"""The first of equals is taken."""
_RANKED, _RANKED_TYPES = 250, ("1p", "2i", "2u")
_SHARES = 2**24
"""Shares in memory together, for each hop of a query."""


def _rows_of_shares(engine: Engine, hops: Ids, device: torch.device | None) -> Table:
    """x of every entity by each hop (s, r) from an entity: [N, 2] → [N, E]."""
    everyone = np.arange(engine.graph.num_entities)
    sweep = DeviceSweep(engine, device) if device is not None else None
    found = np.empty((len(hops), len(everyone)), dtype=np.float32)
    for relation in np.unique(hops[:, 1]).tolist():
        rows = np.flatnonzero(hops[:, 1] == relation)
        source = hops[rows, 0]
        if sweep is None:
            found[rows] = engine.hops.shares(source, engine.hops.columns(relation))
        else:
            found[rows] = sweep.shares(source, relation, everyone)
    return found


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that never falls changes its sign, or the end that is nearer to it."""
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2


def _fit_doubts(pairs: Pairs) -> tuple[dict[int, float], Pairs]:
    """τ of each relation that has one but 1, and the pairs with the shares that follow.

    Where many objects of (s, r) are known, as many others look as likely, and hardly any of these may be missing. Of
    the best objects of a relation e are expected by the curve of all relations, of each (s, r) L_s at most, and h are
    true; where (h + 2) / (e + 2) is below 1/5, τ is (h + ½) / (e + ½).
    """
    tau, own, best = np.ones(pairs.relation.max(initial=0) + 1), pairs, pairs.take(pairs.best)
    hits = np.bincount(best.relation, best.label, len(tau))
    _, first, question = np.unique(best.question, return_index=True, return_inverse=True)
    for _ in range(_ROUNDS):
        said = _fit_curve(own).probability(best.share, best.kind)
        of_each = np.minimum(np.bincount(question, said), best.limit[first])
        expected = np.bincount(best.relation[first], of_each, len(tau))
        doubtful = hits + 2 < _DOUBTFUL * (expected + 2)
        tau = np.where(doubtful, (hits + 0.5) / (expected + 0.5), 1.0)
        own = replace(pairs, share=pairs.share * tau[pairs.relation].astype(np.float32))
    return {int(relation): float(tau[relation]) for relation in np.flatnonzero(tau < 1)}, own


_ROUNDS, _DOUBTFUL = 3, 0.2
"""How often the curve and the doubts are fitted by turns, and the share below which a relation is doubtful."""


def _fit_curve(pairs: Pairs) -> Curve:
    """The middle and the top by the likelihood of the best; below them, as much in all as is true."""
    log_share, best = np.log(pairs.share).astype(np.float64), pairs.best
    rest = pairs.take(~best)
    least = np.full(pairs.question.max(initial=0) + 1, np.inf)  # of the best of each question
    np.minimum.at(least, pairs.question[best], log_share[best])
    low = np.median(least[np.isfinite(least)]) if len(rest.share) else least.min()
    low = min(float(low), float(BEND))
    features = np.column_stack([np.clip(log_share, low, BEND), np.maximum(log_share - BEND, 0.0)])
    (slope, top), intercept = fit_logistic(features[best], pairs.label[best], (_LEAST, _LEAST))
    curve = Curve(low=low, low_slope=slope, slope=slope, top_slope=top, intercept=intercept)
    if not len(rest.share):
        return curve

    def lack(low_slope: float) -> float:
        bent = curve.model_copy(update={"low_slope": low_slope})
        return float(rest.weight @ (rest.label - bent.probability(rest.share, rest.kind)))

    return curve.model_copy(update={"low_slope": _root(lack, _LEAST, _STEEPEST)})


_STEEPEST = 1.5


def _brier(curve: Curve, pairs: Pairs, which: NDArray[np.bool_]) -> float:
    shown = pairs.best & (which if which.any() else ~which)
    said = curve.probability(pairs.share[shown], pairs.kind[shown])
    return float(np.mean((said - pairs.label[shown]) ** 2))


def _fit_chains(engine: Engine, data: DataSet, seed: int, device: torch.device | None) -> dict[int, ChainCurve]:
    """What composed vectors add to the best witnesses, for paths of two hops and of three, where paths have scores.

    Witnesses are those of typed candidates and those of all alike, for one curve serves both; those of three hops are
    what two lead to, raised by the curve of two.
    """
    if engine.vectors.operators.why_no_paths is not None:
        return {}
    truth, found = KnownFacts(data.split.graph("train", "valid")), dict[int, ChainCurve]()
    for length in (2, 3):
        asked = _unfinished_chains(engine.known, truth, length, seed)
        parts = _fit_chain_parts(engine, truth, asked)
        silent = _recalibrated(engine, chains={**found, length: _SILENT})
        pairs = np.concatenate(
            [np.zeros((0, 3))]
            + [
                _chain_pairs(silent, truth, path, said)
                for candidates in get_args(Candidates)
                for path, said in zip(asked, _said_of_chains(silent, asked, parts, candidates, device), strict=True)
            ]
        )
        label = pairs[:, 2] > 0
        if min(label.sum(), (~label).sum()) >= ENOUGH:
            (witness, share), intercept = fit_logistic(pairs[:, :2], label, (_LEAST, 0.0))
            found[length] = ChainCurve(parts=parts, witness=witness, share=share, intercept=intercept)
    return found


_SILENT = ChainCurve(witness=1.0, share=0.0, intercept=0.0)
"""That of a composed vector that says nothing: what it adds is to be fitted."""


def _fit_chain_parts(engine: Engine, truth: KnownFacts, chains: Sequence[Chain]) -> Parts:
    """How much each part counts in the composed vectors of paths: one that has learned walks knows more of them."""
    if not engine.vectors.settings.merged_from or not chains:
        return ONE_PART
    known = [engine.known.answers(*chain) for chain in chains]
    missing = [np.setdiff1d(truth.answers(*chain), own) for chain, own in zip(chains, known, strict=True)]
    vector = np.concatenate([engine.vectors.query(*chain) for chain in chains])
    excluded, hits = (
        np.stack([np.repeat(np.arange(len(each)), [len(own) for own in each]), np.concatenate(each)])
        for each in (known, missing)
    )
    weights, _ = _fit_parts(engine.vectors, engine.candidates, vector, (excluded[0], excluded[1]), hits)
    assert engine.calibration is not None
    return tuple(weight / engine.calibration.scale for weight in weights)


Chain = tuple[int, list[int]]
"""A path: its source and its relations."""


def _unfinished_chains(known: KnownFacts, truth: KnownFacts, length: int, seed: int) -> list[Chain]:
    """Some distinct paths (s, [r, …]) with an answer in `truth` that known facts do not lead to.

    They are those of random walks that never go straight back. The end of the walk itself need not be missing: paths
    with many missing answers would be drawn more often, and all others look more probable than they are.
    """
    found: list[Chain] = []
    walks = sample_walks(truth.graph, _TRIED * _WALKS, (length, length), seed)
    # A small graph has few paths, and walks take each of them many times.
    for source, *path in dict.fromkeys(map(tuple, np.column_stack([walks.source, walks.path]).tolist())):
        turns = any(truth.graph.inverse(before) == after for before, after in pairwise(path))
        if not turns and len(truth.answers(source, path)) > len(known.answers(source, path)):
            found.append((source, path))
            if len(found) == _WALKS:
                break
    return found


_TRIED = 100
_WALKS = 160
_TOP = 20


def _said_of_chains(
    engine: Engine, chains: Sequence[Chain], parts: Parts, candidates: Candidates, device: torch.device | None
) -> Iterator[tuple[Floats, Floats] | None]:
    """The value of every entity by the best witness alone, and its log share by the composed vector, for each path.

    There is nothing where the search is too costly. On a processor the values are those of the likeliest twenty; others
    have the best witness that was met on the way: to be sure that there is none better would take ten times as long,
    and would hardly change a curve.
    """
    if chains and device is not None:
        sweep, ids = DeviceSweep(engine, device, candidates), np.array([(source, *path) for source, path in chains])
        values = sweep.values(Plan.of_chain(*chains[0]).steps, ids).cpu().numpy()
        known = torch.tensor([len(engine.known.answers(*chain)) for chain in chains], device=device)
        yield from zip(values, sweep.composed_shares(ids, known, parts).cpu().numpy(), strict=True)
        return
    for source, path in chains:
        among = _predictable(engine, source, path)
        search = Search(engine, Plan.of_chain(source, path), candidates, UNLIMITED)
        try:
            value = search.settle(Wanted(among, _TOP, np.zeros(0, dtype=np.int64))).low
        except QueryTooCostly:
            yield None
        else:
            yield value, engine.composed_shares(source, path, parts)


def _predictable(engine: Engine, source: int, path: list[int]) -> NDArray[np.bool_]:
    """Which entities can be predicted answers to a path: [E]."""
    among = np.zeros(engine.graph.num_entities, dtype=bool)
    among[engine.known.candidates(path[-1])] = True
    among[engine.known.answers(source, path)] = False
    return among


def _chain_pairs(engine: Engine, truth: KnownFacts, chain: Chain, said: tuple[Floats, Floats] | None) -> Floats:
    """Log-odds of the best witness, log share and truth of the likeliest predicted answers by either: [N, 3]."""
    source, path = chain
    among = np.flatnonzero(_predictable(engine, source, path))
    if said is None or not len(among):
        return np.zeros((0, 3))
    witness, share = said
    likely = [among[np.argsort(-by[among], kind="stable")[:_TOP]] for by in (share, witness)]
    chosen = np.union1d(*likely)
    label = np.isin(chosen, truth.answers(source, path))
    return np.column_stack([log_odds(witness[chosen]), share[chosen], label])


def calibration_queries(data: DataSet, per_length: int, seed: int) -> PathQueries:
    """At most `per_length` distinct test queries of each length to which train misses an answer, their target.

    They are the data set's induction queries, or walks sampled as those are where it has none, and each fact asked for
    from both of its ends.
    """
    facts = data.split.test
    if not len(facts):
        raise DataError(
            f"{data.name} has no test facts, on which probabilities are measured; set some aside with `blockhole data "
            "split` and train on what it writes, or name other data with --data."
        )
    if data.has_paths:
        walks = data.paths("test_induction")
    else:
        walks = sample_walks(data.split.graph("train", "test"), _WALKS_PER_FACT * len(facts), seed=seed)
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


# The data behind a run


def data_of(run: Run) -> DataSet:
    """The data set that the run was trained on."""
    data = run.load_data()
    if data is None:
        raise RunError("the run was trained on a graph in memory and names no data set; give the data as well.")
    require_same_names(run, data)
    return data


def require_same_names(run: Run, data: DataSet) -> None:
    """Refuse data whose ids mean other names than the run's: they would give wrong answers, not none."""
    if (data.split.entities, data.split.relations) != (run.entities, run.relations):
        raise RunError(f"the run was trained on other data than {data.name}: its names differ; give the same data.")
