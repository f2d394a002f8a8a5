"""What each part of the engine adds to complex queries: one seed, small models, one core.

Models of as many numbers an entity, trained alike, rank the hard answers of the same queries, first by what the field
does: the share that a softmax over all entities gives an object, n_f f, the best witness of a chain, and products. Then
the engine's parts are added one after the other. What a row leaves out is left out here: the engine is asked as always,
with other probabilities of hops, or without curves for composed vectors.

A data set and a split have one record, `records/parts/DATA-SPLIT.json`, with a row's figures as they come. Models are
kept in a folder of their own, so that they are trained once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast, final

import numpy as np
import torch

from blockhole.answering.calibrating import fit as calibrate
from blockhole.answering.calibration import BEND, ONE_PART, Calibrated, Curve, fit_logistic
from blockhole.answering.engine import Engine
from blockhole.answering.hops import SURE, Columns, Floats, Hops, Ids, Table
from blockhole.answering.known import KnownFacts
from blockhole.answering.vectors import Vectors
from blockhole.choosing import without_look
from blockhole.data.dataset import DataSet
from blockhole.errors import ConfigError, counted
from blockhole.evaluation.completion import both_sides
from blockhole.evaluation.query_ranking import FAMILIES, RankedAnswers, TypeReport
from blockhole.evaluation.report import Table as Shown
from blockhole.evaluation.report import mean_intervals
from blockhole.fitting import fit
from blockhole.measuring import judge_queries
from blockhole.models.contract import Model
from blockhole.models.merging import merge_models
from blockhole.queries.exact import holds
from blockhole.queries.query_sets import QuerySet
from blockhole.runs.config import Settings, overlay
from blockhole.saving import write_file
from experiments.records import current_commit

DATA: Final = ("nell",)
WIDTH: Final = 128
"""Numbers an entity has in every model."""
SEED: Final = 0
_MEMORY: Final = 4 * 10**9
"""Bytes that a row may take: a calibration leaves some behind."""

_COMMON: Final[Settings] = {
    "loss": {"kind": "sampled_softmax", "negatives": 1024, "relation_weight": 0.0},
    "optimizer": {"learning_rate": 0.2},
    "training": {"on": "base", "epochs": 30, "share_queries": False, "seed": SEED},
    "early_stop": {"metric": None},
}
"""What `train` takes on NELL, for as many epochs in every model; the penalty is what it chooses by the graph's size. No
training is stopped by valid facts, which the valid queries ask for."""
_BLOCKHOLE: Final[Settings] = {"model": {"name": "blockhole", "blocks": 2, "block_size": WIDTH // 4}}
_MODELS: Final[Mapping[str, Settings]] = {
    "edges": _BLOCKHOLE,
    "walks": {**_BLOCKHOLE, "training": {"on": "paths", "epochs": 20}},
    "complex": {"model": {"name": "complex", "dim": WIDTH // 2}},
    "rescal": {"model": {"name": "rescal", "dim": WIDTH}},
    "distmult": {"model": {"name": "distmult", "dim": WIDTH}},
}
"""An epoch of walks has as many of them beside the edges, so that two thirds of the epochs are as many steps."""

Stage = Literal["shares", "curve", "forward", "hops", "engine"]
"""How much of the engine a row has: forward shares; a curve on them; kinds and limits; both directions, which is all of
a hop; composed evidence too."""


@final
@dataclass(frozen=True, slots=True)
class Row:
    """The models that are merged, how much of the engine asks them, and the number of the row it is held against."""

    name: str
    models: tuple[str, ...]
    stage: Stage
    against: int | None = None


ROWS: Final = (
    Row("BlockHolE on edges: forward shares, not calibrated", ("edges",), "shares"),
    Row("+ calibration", ("edges",), "curve", 1),
    Row("+ kinds and limits", ("edges",), "forward", 2),
    Row("+ both directions of a hop", ("edges",), "hops", 3),
    Row("+ a model of walks, merged", ("edges", "walks"), "hops", 4),
    Row("+ composed evidence", ("edges", "walks"), "engine", 5),
    Row("BlockHolE on edges in the whole engine", ("edges",), "engine", 4),
    Row("ComplEx on edges in the whole engine", ("complex",), "engine", 7),
    Row("RESCAL on edges in the whole engine", ("rescal",), "engine", 7),
    Row("DistMult on edges in the whole engine", ("distmult",), "engine", 7),
    Row("ComplEx on edges: forward shares, not calibrated", ("complex",), "shares", 7),
)


# Hops of which parts are left out


class Left(Protocol):
    """What is left of hops, as far as a sweep asks them."""

    def columns(self, relation: int, targets: Ids | None = None) -> Columns:
        """What rows of a relation are computed with."""

    def leaving(self, relation: int, named: Sequence[int] = ()) -> Floats:
        """ω of every entity: [E]."""

    def shares(self, sources: Ids, columns: Columns) -> Table:
        """x of the hop from each source to each entity: [S, E]."""

    def values(self, sources: Ids, columns: Columns) -> Table:
        """p of it: [S, E]."""


@final
class Shares:
    """Forward shares alone: x = n_f f, with sums that are exact, and p = min(x, 0.9999) or what a curve makes of x."""

    def __init__(self, engine: Engine, curve: Curve | None = None) -> None:
        self._hops = engine.hops
        self._vectors = engine.vectors
        self._graph = engine.graph
        self._candidates = engine.candidates
        self._curve = curve
        self._zero = np.zeros(engine.graph.num_entities, dtype=np.float32)

    def columns(self, relation: int, targets: Ids | None = None) -> Columns:
        """All entities, as if the relation took all of them."""
        assert targets is None, "a share is one among all entities"
        zero = self._zero
        return Columns(
            relation, self._graph.inverse(relation), None, self._candidates, zero, zero, zero, None, np.float32(0)
        )

    def leaving(self, relation: int, named: Sequence[int] = ()) -> Floats:
        """1 for every entity."""
        return np.ones(self._graph.num_entities)

    def shares(self, sources: Ids, columns: Columns) -> Table:
        """n_f f: [S, E]."""
        vector = self._hops.scale * self._vectors.walk(self._vectors.rows(sources), [columns.relation])
        share: Table = vector.astype(np.float32) @ self._candidates.T
        share -= share.max(axis=1, keepdims=True)
        np.exp(share, out=share)
        known = np.exp(self._hops.known_counts(columns.relation)[sources])
        share *= (known / share.sum(axis=1))[:, None]
        return share

    def values(self, sources: Ids, columns: Columns) -> Table:
        """p: [S, E]."""
        share = self.shares(sources, columns)
        if self._curve is not None:
            share = self._curve.probability(share, columns.kind)
        return np.minimum(share, np.float32(SURE), out=share)


@final
class OneWay:
    """The engine's hops without their backward half: no share of sources is anything."""

    def __init__(self, engine: Engine) -> None:
        self._hops = engine.hops
        self.leaving, self.shares, self.values = self._hops.leaving, self._hops.shares, self._hops.values

    def columns(self, relation: int, targets: Ids | None = None) -> Columns:
        """Those of the engine, but that log n_b minus the normaliser of b is below all numbers."""
        columns = self._hops.columns(relation, targets)
        return replace(columns, behind=np.full_like(columns.behind, -np.inf))


_ASKED, _BEST, _TOGETHER, _LEAST = 2000, 20, 64, 0.05
"""Questions that a curve is fitted on, their likeliest objects, rows computed together, the least slope: as with the
engine's own curve."""


def fit_curve(left: Left, data: DataSet, missing: float) -> Curve:
    """The engine's logistic curve on what is `left` of shares, by validation facts; it has no bend below.

    It is fitted on the twenty likeliest objects of (s, r) that are no known ones, among those that r takes. Its odds
    are multiplied by how many facts are `missing` for each validation fact.
    """
    known, truth = (KnownFacts(data.split.graph(*parts)) for parts in (("train",), ("train", "valid")))
    asked = both_sides(data.split.valid, len(data.split.relations))
    asked = asked.take(~holds(known.graph, asked))
    pairs = np.unique(np.column_stack([asked.path[:, 0], asked.source]), axis=0)
    pairs = np.random.default_rng(SEED).permutation(pairs)[:_ASKED]
    features, label = [], []
    for relation in np.unique(pairs[:, 0]).tolist():
        sources, columns = pairs[pairs[:, 0] == relation, 1], left.columns(relation)
        among = known.candidates(relation)
        for first in range(0, len(sources), _TOGETHER):
            part = sources[first : first + _TOGETHER]
            share = left.shares(part, columns)
            share[known.facts_of(part, relation)] = 0.0
            true = np.zeros(share.shape, dtype=bool)
            true[truth.facts_of(part, relation)] = True
            share, true = share[:, among], true[:, among]
            best = np.argsort(-share, axis=1, kind="stable")[:, :_BEST]
            share, true = (np.take_along_axis(each, best, axis=1) for each in (share, true))
            features.append(np.log(share[share > 0]).astype(np.float64))
            label.append(true[share > 0])
    odds = np.concatenate(features)
    bent = np.column_stack([np.minimum(odds, BEND), np.maximum(odds - BEND, 0.0)])
    (slope, top), intercept = fit_logistic(bent, np.concatenate(label), (_LEAST, _LEAST))
    low = float(odds.min())
    return Curve(low=low, low_slope=slope, slope=slope, top_slope=top, intercept=intercept + float(np.log(missing)))


def engine_of(stage: Stage, vectors: Vectors, calibrated: Calibrated, data: DataSet) -> Engine:
    """An engine that has no more than the parts of a stage."""
    known, calibration, table = data.split.graph("train"), calibrated.calibration, calibrated.normalisers
    if stage == "engine":
        return Engine(vectors, known, calibrated)
    calibration = calibration.model_copy(update={"chains": {}})
    if stage == "shares":
        calibration = calibration.model_copy(update={"scale": 1.0, "parts": ONE_PART})
    engine = Engine(vectors, known, Calibrated(calibration, table))
    if stage == "hops":
        return engine
    left: Left = Shares(engine)
    if stage == "curve":
        left = Shares(engine, fit_curve(left, data, calibration.missing))
    if stage == "forward":
        curve = fit_curve(OneWay(engine), data, calibration.missing)
        engine = Engine(vectors, known, Calibrated(calibration.model_copy(update={"hop": curve}), table))
        left = OneWay(engine)
    engine.hops = cast("Hops", left)  # a sweep asks of hops no more than this
    return engine


# Models, trained once


@final
class Models:
    """The models of one data set, in folders below `folder`, and the calibration of each or of several merged."""

    def __init__(self, data: DataSet, folder: Path, device: str, say: Callable[[str], None]) -> None:
        self._data = data
        self._folder = folder
        self._device = device
        self._say = say
        self._calibrated: dict[tuple[str, ...], tuple[Vectors, Calibrated]] = {}

    def trained(self, name: str) -> Model:
        """One of them, from its folder or trained into it."""
        settings = overlay(overlay(_COMMON, _MODELS[name]), {"training": {"device": self._device}})
        self._say(f"{name}: training, or from {self._folder / name}")
        run = fit(self._data, without_look(self._data, settings), self._folder / name)
        if not run.complete:
            raise KeyboardInterrupt
        return run.model

    def calibrated(self, names: tuple[str, ...]) -> tuple[Vectors, Calibrated]:
        """The vectors of one, or of the mean of several, and their calibration."""
        if names not in self._calibrated:
            models = [self.trained(name) for name in names]
            model = models[0] if len(models) == 1 else merge_models(models, [1 / len(models)] * len(models))
            vectors = Vectors.of_model(model)
            self._say(f"{' and '.join(names)}: calibrating")
            self._calibrated[names] = vectors, calibrate(vectors, self._data, seed=SEED)
        return self._calibrated[names]


# Measuring


def measure_row(row: Row, models: Models, data: DataSet, queries: QuerySet) -> dict[str, Any]:
    """The figures of a row: of each type and their mean, and of that by the facts that the easiest proof lacks.

    `values` are the MRR of each query, all its answers or those that lack two facts or more, weighed so that the mean
    is that of types.
    """
    engine = engine_of(row.stage, *models.calibrated(row.models), data)
    cpu = torch.device("cpu")
    report = judge_queries(engine, data.split, queries, cpu, name=data.name, memory=_MEMORY, seed=SEED)
    mean = report.means["without negation"]
    lacking = {
        str(number): {"mrr": each.means["mrr"], "answers": each.answers} for number, each in mean.lacking.items()
    }
    return {
        **_means(mean),
        "interval": list(mean.all.intervals["mrr"]),
        "queries": mean.all.queries,
        "answers": mean.all.answers,
        "lacking": lacking,
        "types": {type_: _means(each) for type_, each in report.types.items()},
        "values": {str(least): _values(report.answers, least) for least in (1, 2)},
    }


def _means(report: TypeReport) -> dict[str, float]:
    return {name: report.all.means[name] for name in ("mrr", "hits_at_3")}


def _values(answers: Mapping[str, RankedAnswers], least: int) -> list[float]:
    """The reciprocal ranks of answers that lack so many facts at least, meaned over each query: [Q]."""
    parts = [answers[type_] for type_ in FAMILIES["without negation"] if type_ in answers]
    own = [each.take(each.lacking >= least).by_query("half")[:, 0] for each in parts if (each.lacking >= least).any()]
    total = sum(map(len, own))
    values = [each * (total / (len(own) * len(each))) for each in own]
    joined: list[float] = np.concatenate([np.zeros(0), *values]).round(4).tolist()
    return joined


def record_parts(
    data: DataSet, queries: QuerySet, limit: int, records: Path, runs: Path, device: str, say: Callable[[str], None]
) -> dict[str, Any]:
    """The record of a data set and a query set: rows without figures are measured, and each kept as it comes."""
    asked, file = queries.take(limit, SEED), records / "parts" / f"{Path(data.name).name}-{queries.name}.json"
    models = Models(data, runs / Path(data.name).name, device, say)
    said = {"data": Path(data.name).name, "queries": queries.name, "limit": limit, "width": WIDTH, "seed": SEED}
    kept = read_parts(file) or {**said, "rows": {}}
    if any(kept.get(key) != value for key, value in said.items()):
        raise ConfigError(f"{file} is of another --limit or size; name another folder with --out, or remove it.")
    for row in ROWS:
        if row.name in kept["rows"]:
            continue
        commit, began = current_commit(), time.process_time()
        figures = measure_row(row, models, data, asked)
        figures |= {"cpu_seconds": round(time.process_time() - began, 1), "commit": commit.hash, "dirty": commit.dirty}
        kept["rows"][row.name] = figures
        write_file(file, (json.dumps(kept) + "\n").encode())
        say(f"{row.name}: MRR {figures['mrr']:.3f}, {figures['cpu_seconds']:.0f} s of a processor")
    return kept


def read_parts(file: Path) -> dict[str, Any]:
    """A record of some rows; nothing where there is none."""
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return kept


# Showing


def parts_tables(records: Path) -> list[Shown]:
    """A table for each record below a folder."""
    return [parts_table(read_parts(file)) for file in sorted((records / "parts").glob("*.json"))]


def parts_table(record: Mapping[str, Any]) -> Shown:
    """Every row that has figures, and what it changes against another: the mean, and its interval over queries."""
    names, rows = [row.name for row in ROWS], []
    for number, row in enumerate(ROWS, start=1):
        own = record["rows"].get(row.name)
        if own is None:
            continue
        against = record["rows"].get(names[row.against - 1]) if row.against else None
        lacking = [own["lacking"].get(str(each), {}).get("mrr") for each in (1, 2, 3)]
        changes = [_change(own, against, least) for least in ("1", "2")]
        cells = f"{number}. {row.name}", own["mrr"], changes[0], own["hits_at_3"], *lacking, changes[1]
        rows.append((*cells, str(row.against or "")))
    answers = next(iter(record["rows"].values()))["answers"] if rows else 0
    title = (
        f"{record['data']}, {record['queries']}: {record['limit']} queries of each type at most, "
        f"{counted(answers, 'hard answer')}"
    )
    lacks = (f"lacks {each}" for each in (1, 2, 3))
    header = ("row", "MRR", "change", "Hits@3", *lacks, "change, lacks 2 or 3", "against row")
    return Shown(title, header, tuple(rows), 3)


def _change(own: Mapping[str, Any], against: Mapping[str, Any] | None, least: str) -> str:
    """The difference of two means and its 95 % interval, over the queries that both have."""
    if against is None or not own["values"][least]:
        return ""
    difference = np.array(own["values"][least]) - against["values"][least]
    low, high = mean_intervals({"mrr": difference}, SEED)["mrr"]
    return f"{difference.mean():+.3f} ({low:+.3f} to {high:+.3f})"
