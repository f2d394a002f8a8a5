"""What takes longer than a request and is made once for a run: the map of its entities, and how well it predicts."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Event, Lock, Thread
from typing import Any, Generic, Literal, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from pydantic_core import to_json

from blockhole.answering.overview import entity_types, most_connected
from blockhole.errors import BlockholeError
from blockhole.queries.plans import Plan
from blockhole.runs.folder import replacing_next
from blockhole.runs.run import Run
from blockhole.saving import read_sealed, sealed
from blockhole.serving.observing import log
from blockhole.serving.served_runs import ServedRun

_POINTS = 4000
"""Entities on the map, those with the most facts: more than a screen can tell apart."""
_WIDTH = 50
"""Principal components that neighbours are looked for in."""
_EARLY, _LATE, _EVERY = 250, 500, 25
_ASKED = 200
"""Validation facts that are asked for."""
MAP, VALIDATION = "map.json", "validation.json"

State = Literal["making", "ready", "missing"]
Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class MapReport:
    """Entities in the plane, near to each other where their vectors are; `method` is how they came there.

    `type` is the place in `types` of each. While it is being made, `done` is the share that is and the lists are empty.
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
    """Of the validation facts of a relation that were asked for, how many stood among the first ten predictions."""

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


Report = TypeVar("Report", MapReport, ValidationReport)
Progress = Callable[[float], None]


@final
class _Job(Generic[Report]):
    """One picture on its way, in a thread that never keeps the server from ending."""

    def __init__(self, work: Callable[[Progress], Report], missing: Callable[[str], Report]) -> None:
        self.done = 0.0
        self.report: Report | None = None
        Thread(target=self._run, args=(work, missing), daemon=True).start()

    def _run(self, work: Callable[[Progress], Report], missing: Callable[[str], Report]) -> None:
        try:
            self.report = work(self._progress)
        except (BlockholeError, OSError) as failure:
            log(logging.WARNING, "picture failed", reason=str(failure))
            self.report = missing(str(failure).partition("\n")[0])
        except Exception as bug:
            log(logging.ERROR, "picture failed", reason=repr(bug))
            self.report = missing("the server could not make it; its log says why.")

    def _progress(self, done: float) -> None:
        self.done = done


@final
class Pictures:
    """The pictures of all runs, each made when it is first asked for and kept in the run's folder."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str, str], _Job[Any]] = {}
        self._lock = Lock()
        self._ended = Event()

    def map(self, run: ServedRun) -> MapReport:
        """The map of a run, or how far it is."""
        job = self._job(
            run,
            MAP,
            lambda progress: _kept_or(run, MAP, MapReport, lambda: draw_map(run, progress, self._ended)),
            lambda why: MapReport("missing", 0.0, message=run.named(why)),
        )
        report: MapReport | None = job.report
        return MapReport("making", round(job.done, 3)) if report is None else report

    def validation(self, run: ServedRun) -> ValidationReport:
        """How well a run predicts, or how far that is measured."""
        job = self._job(
            run,
            VALIDATION,
            lambda progress: _kept_or(run, VALIDATION, ValidationReport, lambda: measure_validation(run, progress)),
            lambda why: ValidationReport("missing", 0.0, message=run.named(why)),
        )
        report: ValidationReport | None = job.report
        return ValidationReport("making", round(job.done, 3)) if report is None else report

    def close(self) -> None:
        """Make no more of them."""
        self._ended.set()

    def _job(
        self, run: ServedRun, kind: str, work: Callable[[Progress], Report], missing: Callable[[str], Report]
    ) -> _Job[Report]:
        key = (run.name, run.report.loaded + run.weights, kind)
        with self._lock:
            if key not in self._jobs:
                self._jobs = {each: job for each, job in self._jobs.items() if (each[0], each[2]) != (run.name, kind)}
                self._jobs[key] = _Job(work, missing)
            return self._jobs[key]


def _kept_or(run: ServedRun, name: str, kind: type[Report], make: Callable[[], Report]) -> Report:
    """What was kept of these weights, or what `make` makes, which is kept in the run's folder where it can be."""
    with suppress(OSError, ValueError, BlockholeError):  # a file that is damaged is made again
        stored = read_sealed(run.folder / name)
        if isinstance(stored, dict) and stored.get("weights") == run.weights:
            return TypeAdapter(kind).validate_python(stored.get("content"))
    report = make()
    if report.state == "ready":
        with suppress(OSError, BlockholeError), replacing_next(run.folder / name) as unfinished:
            content = json.loads(to_json(report))
            unfinished.write_text(sealed({"weights": run.weights, "content": content}), encoding="utf-8")
    return report


# The map


def draw_map(run: ServedRun, progress: Progress, ended: Event) -> MapReport:
    """The map of a run: t-SNE of the vectors by openTSNE where that is installed, else principal components."""
    engine = run.engine
    chosen = np.array(most_connected(engine.graph, _POINTS))
    rows = principal(engine.vectors.candidates(chosen).astype(np.float64), _WIDTH)
    names, types = entity_types(engine.graph, chosen)
    if len(chosen) >= 10 and find_spec("openTSNE") is not None:
        method, plane = "t-SNE", _embedded(rows, progress, ended)
    else:
        method, plane = "principal components", rows[:, :2]
    plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    low, high = plane.min(axis=0, initial=0), plane.max(axis=0, initial=1e-9)
    plane = np.round((plane - low) / (high - low).max(), 4)
    entities = tuple(engine.graph.entities[each] for each in chosen.tolist())
    x, y = (tuple(column.tolist()) for column in plane.T)
    return MapReport("ready", 1.0, method, None, entities, x, y, tuple(types.tolist()), tuple(names))


def principal(rows: Floats, width: int) -> Floats:
    """The first principal components of rows: [N, D] → [N, min(width, D, N)]."""
    centred = rows - rows.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    components: Floats = centred @ vectors[:, ::-1][:, : min(width, len(rows))]
    return components


def _embedded(rows: Floats, progress: Progress, ended: Event) -> Floats:
    from openTSNE import TSNE

    steps = 0

    def step(*_: object) -> bool:
        nonlocal steps
        steps += _EVERY
        progress(min(steps / (_EARLY + _LATE), 0.99))
        return ended.is_set()

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
        one = judge_answers(engine, plans, truth)
        judged.append(one)
        text = engine.graph.relations[relation]
        found.append(PredictedRelation(text, sum(sources.values()), int(one.true.sum())))
        before += len(plans)
        progress(before / whole)
    measured = measured_by_type({"1p": Judged.joined(judged)})
    figures = measured["1p"].to_dict() if measured else {"ece": None, "bins": []}
    bins = tuple(Bin(**each) for each in figures["bins"])
    order = tuple(sorted(found, key=lambda each: -each.facts))
    return ValidationReport("ready", 1.0, None, sum(each.facts for each in order), figures["ece"], bins, order)
