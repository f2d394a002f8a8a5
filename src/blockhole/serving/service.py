"""What the routes ask for: questions in the shapes of requests, results in those of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from heapq import nlargest
from time import perf_counter
from typing import Literal, final

from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from blockhole.answering.answers import AnswersReport
from blockhole.answering.connections import Deadline, PathsReport, connections
from blockhole.answering.engine import Engine, Question, Verdict, check_top, not_calibrated
from blockhole.answering.explanation import Explanation, explain
from blockhole.answering.known import Neighbourhood, neighbourhood
from blockhole.errors import ConfigError, QueryError, RunError
from blockhole.graph.vocabulary import NameIndex
from blockhole.queries.language import (
    Hop,
    Query,
    encode_hop,
    encode_prefix,
    parse,
    typed_hop,
    typed_name,
    write_name,
)
from blockhole.serving.lanes import Batcher, Lane
from blockhole.serving.observing import Metrics
from blockhole.serving.runs import ServedRun
from blockhole.serving.schemas import (
    AskBody,
    CheckBody,
    Completion,
    EntitiesReport,
    ExplainBody,
    PathsBody,
    RelationReport,
    RelationsReport,
    refusing,
)
from blockhole.serving.settings import MAX_ANSWERS, MAX_CHAINS, MAX_NAMES, MAX_NEIGHBOURS, MAX_PATHS, ServerSettings

# Entity names that what was typed may become.


_CHUNK = 10_000
"""Names compared at a time: Python's lock is held for a few milliseconds, and then others have their turn."""
_SHORTEST = 3
_ALIKE = 0.7


def similar(index: NameIndex, typed: str, count: int) -> list[int]:
    """At most `count` ids of names that begin almost as `typed`: letters swapped, wrong, missing or too many.

    Beginnings one letter longer than what was typed are compared, for the rest of the name is yet to come.
    """
    wanted = typed.casefold()
    if not _SHORTEST <= len(wanted) <= 64:
        return []
    best = nlargest(count, _alike(index, wanted, count), key=lambda found: (found[0], -found[1]))
    return index.ids([place for _, place in best])


def _alike(index: NameIndex, wanted: str, count: int) -> Iterator[tuple[float, int]]:
    """The best of each chunk of names, as likeness and place."""
    for first in range(0, len(index), _CHUNK):
        beginnings = [name[: len(wanted) + 1] for name in index.folded[first : first + _CHUNK]]
        found = extract(wanted, beginnings, scorer=OSA.normalized_similarity, score_cutoff=_ALIKE, limit=count)
        for _, likeness, place in found:
            yield likeness, first + place


# What the routes ask for: questions in the shapes of requests, results in those of the command line.


LANES = {
    "/api/ask": "ask",
    "/api/check": "short",
    "/api/entity": "short",
    "/api/entities": "short",
    "/api/relations": "short",
    "/api/explain": "long",
    "/api/paths": "long",
}
"""Which lane answers a route."""


@final
class Service:
    """Answers requests in three lanes, so that what takes milliseconds never waits for what may take seconds."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._lanes = {
            name: Lane(name, settings.threads, settings.queue, settings.timeout) for name in ("ask", "short", "long")
        }
        self._batcher = Batcher(self._lanes["ask"], metrics.batch.observe)
        metrics.watch({name: lane.size for name, lane in self._lanes.items()})

    def check_room(self, path: str) -> None:
        """Refuse a request that would find its lane full, before anything is spent on it."""
        lane = LANES.get(path)
        if lane is not None:
            self._lanes[lane].check_room()

    def close(self) -> None:
        """Take no more work."""
        for lane in self._lanes.values():
            lane.close()

    async def ask(self, run: ServedRun, body: AskBody) -> AnswersReport:
        """Ranked answers; questions that come at the same time are answered together."""
        began = perf_counter()
        with refusing({"query": body.query}):
            _check_top(body.top, MAX_ANSWERS)
            query = self._parse(body.query)
            if not _knows(run.engine, query):
                await self._lanes["short"].run(partial(run.engine.encode, query))  # names what looks alike
            answers = await self._batcher.ask(run.engine, Question(query, body.top, body.candidates, body.only))
        return AnswersReport(answers.query, answers.ranked, round(1000 * (perf_counter() - began), 3))

    async def check(self, run: ServedRun, body: CheckBody) -> Verdict:
        """Whether a path holds."""
        with refusing({"query": body.query, "entity": body.entity}):
            _require_calibration(run)
            query = self._parse(body.query)
            return await self._lanes["short"].run(partial(run.engine.check, query, body.entity))

    async def explain(self, run: ServedRun, body: ExplainBody) -> Explanation:
        """Chains of entities to an answer."""
        with refusing({"query": body.query, "entity": body.entity}):
            _require_calibration(run)
            _check_top(body.top, MAX_CHAINS)
            query = self._parse(body.query)
            return await self._lanes["long"].run(partial(explain, run.engine, query, body.entity, top=body.top))

    async def paths(self, run: ServedRun, body: PathsBody) -> PathsReport:
        """Relation paths between two entities."""
        deadline = Deadline(self._settings.timeout)
        with refusing({"source": body.source, "target": body.target}):
            _require_calibration(run)
            _check_top(body.top, MAX_PATHS)
            find = partial(connections, max_length=body.max_length, top=body.top, deadline=deadline)
            found = await self._lanes["long"].run(partial(find, run.engine, body.source, body.target))
        return PathsReport(body.source, body.target, tuple(found))

    async def entities(self, run: ServedRun, prefix: str, limit: int) -> EntitiesReport:
        """Entity names that what was typed may become."""
        with refusing({}):
            _check_limit(limit, MAX_NAMES)
            found = await self._lanes["short"].run(partial(_complete, run, typed_name(prefix), limit))
        return EntitiesReport(prefix, found)

    async def relations(self, run: ServedRun, after: str | None, prefix: str, limit: int) -> RelationsReport:
        """Relations that make sense after the beginning of a query."""
        with refusing({"after": after}):
            _check_limit(limit, MAX_NAMES)
            found = await self._lanes["short"].run(partial(self._follow, run, after))
        typed = typed_hop(prefix)
        name = typed.name.casefold()
        fitting = [
            each for each in found if each.name.casefold().startswith(name) and (each.inverse or not typed.inverse)
        ]
        return RelationsReport(after, tuple(fitting[:limit]))

    async def entity(self, run: ServedRun, name: str, limit: int, relation: str | None, offset: int) -> Neighbourhood:
        """The facts about an entity, or those of one relation."""
        graph = run.engine.graph

        def work() -> Neighbourhood:
            wanted = None if relation is None else encode_hop(relation, graph)
            return neighbourhood(graph, name, limit=limit, relation=wanted, offset=offset)

        with refusing({"name": name, "relation": relation}):
            _check_limit(limit, MAX_NEIGHBOURS)
            if not 0 <= offset < 2**31:
                raise ConfigError(f"offset is a place in a list, at least 0; it cannot be {offset}.")
            return await self._lanes["short"].run(work)

    def _parse(self, text: str) -> Query:
        query = parse(text)
        self._check_length(len(query.hops))
        return query

    def _check_length(self, hops: int) -> None:
        most = self._settings.max_length
        if hops > most:
            raise QueryError(f"the query has {hops:,} hops; a query may have {most} at most.")

    def _follow(self, run: ServedRun, after: str | None) -> list[RelationReport]:
        graph = run.engine.graph
        if after is None:
            following = run.following.anywhere()
        else:
            source, path = encode_prefix(after, graph)
            self._check_length(len(path))
            following = run.following.after(source, path)
        hops = [(Hop(*graph.relation_name(each.relation)), each) for each in following]
        return [RelationReport(hop.relation, hop.inverse, str(hop), each.known, each.entities) for hop, each in hops]


def _knows(engine: Engine, query: Query) -> bool:
    graph = engine.graph
    return query.source in graph.entities and all(hop.relation in graph.relations for hop in query.hops)


def _complete(run: ServedRun, typed: str, limit: int) -> tuple[Completion, ...]:
    """Names that begin with what was typed; where those are few, names that hold it, and then similar ones."""
    names = run.engine.graph.entities
    found: dict[int, Literal["prefix", "within", "similar"]] = dict.fromkeys(
        run.entities.beginning(typed, limit), "prefix"
    )
    if len(found) < limit:
        found |= dict.fromkeys(run.entities.holding(typed, limit - len(found)), "within")
    if len(found) < limit:
        others = [i for i in similar(run.entities, typed, limit) if i not in found]
        found |= dict.fromkeys(others[: limit - len(found)], "similar")
    return tuple(Completion(names[i], write_name(names[i]), match) for i, match in found.items())


def _require_calibration(run: ServedRun) -> None:
    """Refuse a run whose scores cannot become probabilities, as the command line does, with its name for its folder."""
    if run.engine.calibration is None:
        raise RunError(not_calibrated(run.name) + ".")


def _check_top(top: int, most: int) -> None:
    check_top(top)
    if top > most:
        raise ConfigError(f"top may be {most:,} at most here; it cannot be {top:,}.")


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise ConfigError(f"limit is a number from 1 to {most:,}; it cannot be {limit}.")
