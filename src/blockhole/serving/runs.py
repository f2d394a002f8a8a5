"""The runs that are served, each ready for questions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from blockhole.answering.engine import Engine, Question
from blockhole.answering.known import NextRelations
from blockhole.errors import ConfigError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import NameIndex
from blockhole.queries.language import Hop, PathQuery
from blockhole.runs.run import Run
from blockhole.serving.schemas import Place, Problem, Refusal, RunReport


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

    @classmethod
    def load(cls, name: str, folder: Path) -> ServedRun:
        """The run in `folder`, in memory, whatever becomes of its files; its first question is as fast as others."""
        run = Run.open(folder)
        engine = Engine.open(run, in_memory=True)
        following = NextRelations(engine.known)
        following.anywhere()
        example = _example(engine.graph)
        if example is not None:
            engine.ask_together([Question(example), Question(example, candidates="all")])
        operators, entity = engine.vectors.operators, engine.vectors.entity
        report = RunReport(
            name=name,
            model=run.config.model.name,
            data=run.config.data,
            entities=engine.graph.num_entities,
            relations=engine.graph.num_relations,
            facts=len(engine.graph),
            parameters=operators.parameter_count() + entity[1:].numel(),
            epochs=run.state.epoch,
            calibrated=engine.calibration is not None,
            loaded=datetime.now(UTC).isoformat(timespec="seconds"),
            example=None if example is None else str(example),
        )
        return cls(name, folder, engine, NameIndex(engine.graph.entities.names), following, report)


@final
class Runs:
    """The served runs by name, in the order of the command line."""

    def __init__(self, runs: Sequence[ServedRun]) -> None:
        self._runs = {run.name: run for run in runs}
        self.default = runs[0].name
        self._reloading = asyncio.Lock()

    def find(self, name: str | None) -> ServedRun:
        """The run of that name, or the first; whoever holds it can use it to the end, whatever replaces it."""
        run = self._runs.get(self.default if name is None else name)
        if run is None:
            message = f"there is no run {name!r} here; the runs are {', '.join(self._runs)}."
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


def _example(graph: KnowledgeGraph) -> PathQuery | None:
    """A query that a fact answers."""
    if not len(graph):
        return None
    source, relation, _ = graph.triples[0].tolist()
    return PathQuery(graph.entities[source], (Hop(graph.relations[relation]),))
