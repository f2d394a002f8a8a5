"""The runs that are served, each ready for questions, and queries to begin with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter
from typing import final

from blockhole.answering.engine import Engine, Question, not_calibrated
from blockhole.answering.known import NextRelations
from blockhole.errors import BlockholeError, ConfigError, quoted
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import NameIndex
from blockhole.queries.language import Hop, Query, encode_tree, find_plan, parse
from blockhole.runs.checkpoint import map_best_weights, weights_id
from blockhole.runs.run import Run
from blockhole.serving.schemas import (
    Example,
    Place,
    Problem,
    Refusal,
    RunPage,
    RunReport,
    Training,
    pieces_of,
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ServedRun:
    """A run with all that questions need, loaded at one moment; never changed, only replaced by a newer one."""

    name: str
    folder: Path
    engine: Engine
    entities: NameIndex
    following: NextRelations
    report: RunReport
    weights: str

    @classmethod
    def load(cls, name: str, folder: Path) -> ServedRun:
        """The run in `folder`, in memory, whatever becomes of its files; its first question is as fast as others."""
        run, weights = Run.open(folder), weights_id(folder)
        engine = Engine.open(run, in_memory=True)
        # Where they lie is nobody's business.
        engine.lacking = not_calibrated(run, lambda path: name if path == run.folder else path.name)
        following = NextRelations(engine.known)
        following.anywhere()
        example = _example(engine.graph)
        if example is not None:
            engine.ask_together([Question(example), Question(example, candidates="all")])
        examples = _examples(engine.graph, following, example)
        report = RunReport(
            name=name,
            model=run.config.model.name,
            data=None if run.config.data is None else Path(run.config.data).name,  # where it lies is nobody's business
            entities=engine.graph.num_entities,
            relations=engine.graph.num_relations,
            facts=len(engine.graph),
            parameters=sum(table.size for table in map_best_weights(folder).values()),
            epochs=run.state.epoch,
            calibrated=engine.calibration is not None,
            loaded=datetime.now(UTC).isoformat(timespec="seconds"),
            example=None if example is None else str(example),
            examples=tuple(examples),
        )
        return cls(name, folder, engine, NameIndex(engine.graph.entities.names), following, report, weights)

    def named(self, message: str) -> str:
        """A message with the run's name for its folder: where it lies on the server is nobody's business."""
        places = (str(self.folder.resolve()), str(self.folder.absolute()), str(self.folder))
        for place in places:
            message = message.replace(place, self.name) if "/" in place else message
        return message

    def refusal(self, refusal: Refusal) -> Refusal:
        """A refusal for something about the run's folder, as strangers may read it."""
        problem = refusal.problem.model_copy(update={"message": self.named(refusal.problem.message)})
        return Refusal(refusal.status, problem, refusal.headers)


def run_page(run: ServedRun) -> RunPage:
    """The settings and the figures of a run's training; where its folder is gone, what is in memory of it."""
    settings: dict[str, str] = {}
    curves: list[Training] = []
    if run.folder.is_dir():
        opened = Run.open(run.folder)
        for part, values in opened.config.model_dump(mode="json").items():
            if isinstance(values, dict):
                settings |= {f"{part}.{name}": str(value) for name, value in values.items() if value is not None}
        found: dict[str, list[tuple[float, float]]] = {}
        for line in opened.metrics():
            event, epoch = line.get("event"), line.get("epoch")
            for name, value in line.items():
                figure = isinstance(value, int | float) and name not in ("epoch", "seconds")
                if figure and isinstance(epoch, int | float) and isinstance(value, int | float):
                    found.setdefault(f"{event} {name}", []).append((float(epoch), float(value)))
        for name, points in found.items():
            epochs, values = zip(*points, strict=True)
            curves.append(Training(name, epochs, values))
    calibration = run.engine.calibration
    return RunPage(run.report, settings, tuple(curves), None if calibration is None else calibration.brier)


@final
class ServedRuns:
    """The served runs by name, in the order of the command line."""

    def __init__(self, runs: Sequence[ServedRun]) -> None:
        self._runs = {run.name: run for run in runs}
        self.default = runs[0].name
        self._reloading = asyncio.Lock()

    def find(self, name: str | None) -> ServedRun:
        """The run of that name, or the first; whoever holds it can use it to the end, whatever replaces it."""
        run = self._runs.get(self.default if name is None else name)
        if run is None:
            message = f"there is no run {quoted(name)} here; the runs are {', '.join(self._runs)}."
            place = Place(field="run", text=name)
            raise Refusal(404, Problem(kind="unknown_run", message=message, place=place, nearest=tuple(self._runs)))
        return run

    def reports(self) -> tuple[RunReport, ...]:
        """What each run is."""
        return tuple(run.report for run in self._runs.values())

    async def reload(self, name: str) -> ServedRun:
        """Load a run's folder anew beside the old one, then let it answer; where that fails, the old one goes on."""
        folder = self.find(name).folder
        async with self._reloading:
            run = await asyncio.to_thread(ServedRun.load, name, folder)
            self._runs[name] = run
        return run

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs."""
        return tuple(self._runs)


SURVEYED = 60.0
"""Seconds that a survey may work: what is left of a large graph, questions find out themselves."""
REST = 3
"""How many times as long as it has worked a survey rests beside requests."""


@final
class Surveys:
    """Surveys runs as they come into service (`Engine.survey`), one after the other, while there is little else to do.

    Without it, the first thousand questions of several hops take three times as long as those that come later.
    """

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._latest: dict[str, ServedRun] = {}
        self._turn, self._ended = Lock(), Event()

    def begin(self, run: ServedRun) -> None:
        """Survey a run in the background, instead of what it replaces."""
        self._latest[run.name] = run
        Thread(target=self._survey, args=(run,), name="survey", daemon=True).start()

    def close(self) -> None:
        """End what is under way."""
        self._ended.set()

    def _survey(self, run: ServedRun) -> None:
        with self._turn, suppress(BlockholeError):  # a question that meets the same will say so
            began, spent = perf_counter(), 0.0
            for _ in run.engine.survey():
                took = perf_counter() - began
                spent += took
                resting = REST * took if self._is_busy() else 0.0
                if self._ended.wait(resting) or self._latest[run.name] is not run or spent > SURVEYED:
                    return
                began = perf_counter()


def names_of(folders: Sequence[Path]) -> list[str]:
    """A name for each folder: its own, with as many of the folders above it as tell it from the others."""
    whole = [folder.resolve().parts for folder in folders]
    if len(set(whole)) < len(whole):
        twice = next(folder for i, folder in enumerate(folders) if whole[i] in whole[:i])
        raise ConfigError(f"{twice} is named twice; name every run once.")
    depth = 1
    while len({parts[-depth:] for parts in whole}) < len(whole):
        depth += 1
    return ["/".join(parts[-depth:]) for parts in whole]


def _example(graph: KnowledgeGraph) -> Query | None:
    """A query that a fact answers."""
    if not len(graph):
        return None
    source, relation, _ = graph.triples[0].tolist()
    return Query(graph.entities[source], (Hop(graph.relations[relation]),))


# The two paths of the paper's Figure 1, for runs on the bundled royal family, and one that leaves some answers out.
# William's father is held out of it, so William is none of those that fatherOf is known to take: all entities are
# candidates.
_FIGURE_1 = {
    "William/^fatherOf/brotherOf/fatherOf": "children of his paternal uncles",
    "William/brotherOf/^fatherOf/fatherOf": "children of his brother’s father",
    "William/^fatherOf/brotherOf/fatherOf & !Andrew/fatherOf": "children of his paternal uncles, but not Andrew’s",
}
_LONGEST_EXAMPLE = 3


def _examples(graph: KnowledgeGraph, following: NextRelations, example: Query | None) -> list[Example]:
    """Queries of the run's own names: those of Figure 1 where it has them, and walks that go on where facts lead."""
    figure = [
        Example(text, "all", words, pieces_of(text))
        for text, words in _FIGURE_1.items()
        if find_plan(parse(text), graph)
    ]
    walks = [] if example is None else [example]
    while walks and len(walks[-1].hops) < _LONGEST_EXAMPLE:
        after = following.after(encode_tree(walks[-1], graph))
        onward = [Hop(*graph.relation_name(each.relation)) for each in after if each.known]
        used = {hop.relation for hop in walks[-1].hops}
        fresh = [hop for hop in onward if hop.relation not in used] or onward
        if not fresh:
            break
        walks.append(Query(walks[-1].source, (*walks[-1].hops, fresh[0])))
    return figure + [
        Example(str(walk), "typed", _in_words(walk), pieces_of(str(walk))) for walk in walks[1 if figure else 0 :]
    ]


def _in_words(query: Query) -> str:
    """Such as: from William, back over fatherOf, along brotherOf."""
    steps = [f"back over {hop.relation}" if hop.inverse else f"along {hop.relation}" for hop in query.hops]
    return ", ".join([f"from {query.source}", *steps])
