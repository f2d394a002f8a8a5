"""What takes longer than a request and is made once for a run: a map of its entities, how well it predicts, rules."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from threading import Event, Lock, Thread
from typing import Any, Generic, Literal, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from pydantic_core import to_json

from blockhole.answering.overview import entity_types, most_connected
from blockhole.answering.rules import rule_reasons
from blockhole.errors import BlockholeError, Cancelled
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.language import Hop, encode_hop
from blockhole.queries.plans import Plan
from blockhole.runs.folder import MAP, RULES, VALIDATION, replacing_next
from blockhole.runs.run import Run
from blockhole.saving import read_sealed, sealed
from blockhole.serving.observing import log
from blockhole.serving.schemas import HopReport
from blockhole.serving.served_runs import ServedRun

_POINTS = 4000
"""Entities on the map, those with the most facts: more than a screen can tell apart."""
_WIDTH = 50
"""Principal components that neighbours are looked for in."""
_EARLY, _LATE, _EVERY = 250, 500, 25
_ASKED = 200
"""Validation facts that are asked for."""

State = Literal["making", "ready", "missing"]
Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class MapReport:
    """Entities in the plane, near to each other where their vectors are; `method` is how they came there.

    `type` is the place in `types` of each, which is what the relation `typed_by` says or, where there is none, the
    relation that an entity has most facts of. While it is being made, `done` is the share that is and the lists are
    empty.
    """

    state: State
    done: float
    method: str | None = None
    message: str | None = None
    entities: tuple[str, ...] = ()
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    type: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    typed_by: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Bin:
    """Predicted answers of about one probability, and the share of them that is true."""

    probability: float
    true: float
    pairs: int


@final
@dataclass(frozen=True, slots=True)
class PredictedRelation:
    """Of the validation facts of a relation that were asked for, how many were among the ten best of all entities."""

    text: str
    facts: int
    found: int


@final
@dataclass(frozen=True, slots=True)
class ValidationReport:
    """How well a run predicts validation facts: by relation, and what its probabilities are worth."""

    state: State
    done: float
    message: str | None = None
    facts: int = 0
    ece: float | None = None
    bins: tuple[Bin, ...] = ()
    relations: tuple[PredictedRelation, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class RuleReport:
    """A rule: where the hops of its `body` lead from x to y, `head` leads from x to y too; figures as `rules` has them.

    `text` is the rule as the command line writes it.
    """

    text: str
    head: HopReport
    body: tuple[HopReport, ...]
    support: int
    confidence: float
    pca_confidence: float

    def names(self, relation: str) -> bool:
        """Whether a relation takes part in it."""
        return any(hop.name == relation for hop in (self.head, *self.body))


@final
@dataclass(frozen=True, slots=True)
class RulesReport:
    """Rules that tell much of relations, best first."""

    state: State
    done: float
    message: str | None = None
    rules: tuple[RuleReport, ...] = ()


Report = TypeVar("Report", MapReport, ValidationReport, RulesReport)
Progress = Callable[[float], None]


@final
class _Job(Generic[Report]):
    """One picture on its way, in a thread that never keeps the server from ending."""

    def __init__(
        self, kind: type[Report], work: Callable[[Progress], Report], told: Callable[[str], str], ended: Event
    ) -> None:
        """`told` makes what strangers may read of a message."""
        self._kind: type[Report] = kind
        self._work: Callable[[Progress], Report] = work
        self._told = told
        self._ended = ended
        self._done = 0.0
        self._report: Report | None = None
        Thread(target=self._run, daemon=True).start()

    @property
    def report(self) -> Report:
        """The picture, or how far it is."""
        return self._kind("making", round(self._done, 3)) if self._report is None else self._report

    def _run(self) -> None:
        try:
            self._report = self._work(self._progress)
        except (BlockholeError, OSError) as failure:
            log(logging.WARNING, "picture failed", reason=str(failure))
            self._report = self._missing(str(failure).partition("\n")[0])
        except Exception as bug:
            log(logging.ERROR, "picture failed", reason=repr(bug))
            self._report = self._missing("the server could not make it; its log says why.")

    def _missing(self, why: str) -> Report:
        return self._kind("missing", 0.0, message=self._told(why))

    def _progress(self, done: float) -> None:
        if self._ended.is_set():
            raise Cancelled
        self._done = done


@final
class Pictures:
    """The pictures of all runs, each made when it is first asked for and kept in the run's folder."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str, str], _Job[Any]] = {}
        self._lock = Lock()
        self._ended = Event()

    def map(self, run: ServedRun) -> MapReport:
        """The map of a run, or how far it is."""
        return self._made(run, MAP, MapReport, draw_map)

    def validation(self, run: ServedRun) -> ValidationReport:
        """How well a run predicts, or how far that is measured."""
        return self._made(run, VALIDATION, ValidationReport, measure_validation)

    def rules(self, run: ServedRun, relation: str) -> RulesReport:
        """The rules of a run that a relation takes part in, or how far all rules are counted."""
        graph = run.engine.graph
        name, _ = graph.relation_name(encode_hop(relation, graph.relations))
        report = self._made(run, RULES, RulesReport, tell_rules)
        return replace(report, rules=tuple(rule for rule in report.rules if rule.names(name)))

    def close(self) -> None:
        """Make no more of them."""
        self._ended.set()

    def _made(
        self, run: ServedRun, file: str, kind: type[Report], make: Callable[[ServedRun, Progress], Report]
    ) -> Report:
        key = (run.name, run.report.loaded + run.weights, file)
        with self._lock:
            if key not in self._jobs:
                self._jobs = {each: job for each, job in self._jobs.items() if (each[0], each[2]) != (run.name, file)}
                work = partial(_kept_or, run, file, kind, make)
                self._jobs[key] = _Job(kind, work, run.named, self._ended)
            job: _Job[Report] = self._jobs[key]
        return job.report


def _kept_or(
    run: ServedRun,
    name: str,
    kind: type[Report],
    make: Callable[[ServedRun, Progress], Report],
    progress: Progress,
) -> Report:
    """What was kept of these weights, or what `make` makes, which is kept in the run's folder where it can be."""
    with suppress(OSError, ValueError, BlockholeError):  # a file that is damaged is made again
        stored = read_sealed(run.folder / name)
        if isinstance(stored, dict) and stored.get("weights") == run.weights:
            return TypeAdapter(kind).validate_python(stored.get("content"))
    report = make(run, progress)
    if report.state == "ready":
        with suppress(OSError, BlockholeError), replacing_next(run.folder / name) as unfinished:
            content = json.loads(to_json(report))
            unfinished.write_text(sealed({"weights": run.weights, "content": content}), encoding="utf-8")
    return report


# The map


def draw_map(run: ServedRun, progress: Progress) -> MapReport:
    """The map of a run: t-SNE of the vectors by openTSNE where that is installed, else principal components."""
    engine = run.engine
    chosen = np.array(most_connected(engine.graph, _POINTS))
    rows = principal(engine.vectors.candidates(chosen).astype(np.float64), _WIDTH)
    names, types, relation = entity_types(engine.graph, chosen)
    if len(chosen) >= 10 and find_spec("openTSNE") is not None:
        method, plane = "t-SNE", _embedded(rows, progress)
    else:
        method, plane = "principal components", rows[:, :2]
    plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    low, high = plane.min(axis=0, initial=0), plane.max(axis=0, initial=1e-9)
    plane = np.round((plane - low) / (high - low).max(), 4)
    entities = tuple(engine.graph.entities[each] for each in chosen.tolist())
    x, y = (tuple(column.tolist()) for column in plane.T)
    return MapReport("ready", 1.0, method, None, entities, x, y, tuple(types.tolist()), tuple(names), relation)


def principal(rows: Floats, width: int) -> Floats:
    """The first principal components of rows: [N, D] → [N, min(width, D, N)]."""
    centred = rows - rows.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    components: Floats = centred @ vectors[:, ::-1][:, : min(width, len(rows))]
    return components


def _embedded(rows: Floats, progress: Progress) -> Floats:
    from openTSNE import TSNE

    steps = 0

    def step(*_: object) -> None:
        nonlocal steps
        steps += _EVERY
        progress(min(steps / (_EARLY + _LATE), 0.99))

    maker = TSNE(
        perplexity=min(30, (len(rows) - 1) / 3),
        early_exaggeration_iter=_EARLY,
        n_iter=_LATE,
        neighbors="exact",
        negative_gradient_method="bh",
        initialization="pca",
        random_state=0,
        n_jobs=1,
        callbacks=[step],
        callbacks_every_iters=_EVERY,
    )
    return np.asarray(maker.fit(rows), dtype=np.float64)


# How well it predicts


def measure_validation(run: ServedRun, progress: Progress) -> ValidationReport:
    """Ask for a sample of the validation facts that train lacks, and count what the first ten predictions hold."""
    from blockhole.answering.reliability import Judged, judge_answers, measured_by_type  # brings torch along

    engine = run.engine
    if engine.calibration is None:
        return ValidationReport("missing", 0.0, "the run has no calibration; make it with: blockhole calibrate RUN")
    data = Run.open(run.folder).load_data()
    if data is None or (data.split.entities.names, data.split.relations.names) != (
        engine.graph.entities.names,
        engine.graph.relations.names,
    ):
        return ValidationReport("missing", 0.0, "the data that the run was trained on is not here.")
    truth = data.split.graph("train", "valid")
    facts = data.split.valid[: _ASKED * 50]
    new = [fact for fact in facts.tolist() if fact[2] not in engine.graph.adjacency.neighbours(fact[0], fact[1])]
    if not new:
        return ValidationReport("missing", 0.0, "the data has no validation facts that train lacks.")
    chosen = [new[i] for i in np.unique(np.linspace(0, len(new) - 1, _ASKED).round().astype(int)).tolist()]
    asked: dict[int, dict[int, int]] = {}
    for source, relation, _ in chosen:
        answers = truth.adjacency.neighbours(source, relation)
        known = engine.graph.adjacency.neighbours(source, relation)
        asked.setdefault(relation, {})[source] = len(np.setdiff1d(answers, known))
    whole, before, found, judged = sum(map(len, asked.values())), 0, [], []
    for relation, sources in asked.items():
        plans = [Plan.of_chain(source, [relation]) for source in sources]
        # A child has one father: whoever lacks one is no object of fatherOf, and among those would never be found.
        one = judge_answers(engine, plans, truth, candidates="all")
        judged.append(judge_answers(engine, plans, truth))  # as people ask
        text = engine.graph.relations[relation]
        found.append(PredictedRelation(text, sum(sources.values()), int(one.true.sum())))
        before += len(plans)
        progress(before / whole)
    measured = measured_by_type({"1p": Judged.joined(judged)})
    figures = measured["1p"].to_dict() if measured else {"ece": None, "bins": []}
    bins = tuple(Bin(**each) for each in figures["bins"])
    order = tuple(sorted(found, key=lambda each: -each.facts))
    return ValidationReport("ready", 1.0, None, sum(each.facts for each in order), figures["ece"], bins, order)


# Rules


def tell_rules(run: ServedRun, progress: Progress) -> RulesReport:
    """The rules that tell most of each relation, in names."""
    engine = run.engine
    found = rule_reasons(engine).telling(lambda done, whole: progress(done / whole))
    figures = zip(
        found.head.tolist(),
        found.body,
        found.support.tolist(),
        found.confidence.tolist(),
        found.pca_confidence.tolist(),
        strict=True,
    )
    rules = []
    for relation, body, support, confidence, pca_confidence in figures:
        head, *hops = (_hop(engine.graph, each) for each in (relation, *body))
        text = f"{'/'.join(hop.text for hop in hops)} ⇒ {head.text}"
        rules.append(RuleReport(text, head, tuple(hops), round(support), confidence, pca_confidence))
    return RulesReport("ready", 1.0, rules=tuple(rules))


def _hop(graph: KnowledgeGraph, relation: int) -> HopReport:
    name, inverse = graph.relation_name(relation)
    return HopReport(name, inverse, str(Hop(name, inverse)))
