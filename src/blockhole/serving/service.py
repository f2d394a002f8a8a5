"""What the routes ask for: questions in the shapes of requests, results in those of the command line."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import final

from blockhole.answering.answers import AnswersReport
from blockhole.answering.connections import PathsReport, paths
from blockhole.answering.engine import Question, Verdict, check_top, not_calibrated
from blockhole.answering.known import Neighbourhood, neighbourhood
from blockhole.answering.proofs import Explanation, explain
from blockhole.answering.search import Deadline
from blockhole.answering.sparql.results import Solutions, Statements, Truth
from blockhole.errors import ConfigError, QueryError, RunError
from blockhole.queries.language import Query, encode_hop, parse, pieces
from blockhole.serving.lanes import Batcher, Lane
from blockhole.serving.observing import Metrics
from blockhole.serving.protocol import Asked
from blockhole.serving.schemas import (
    AskBody,
    CheckBody,
    EntitiesReport,
    ExplainBody,
    ParsedReport,
    PathsBody,
    RelationsReport,
    Reordered,
    SuggestionsReport,
    pieces_of,
    refusing,
)
from blockhole.serving.served_runs import ServedRun
from blockhole.serving.settings import MAX_ANSWERS, MAX_NAMES, MAX_NEIGHBOURS, MAX_PATHS, MAX_PROOFS, ServerSettings
from blockhole.serving.suggestions import beginning_as, find_entities, relations_after, suggest

LANES = {
    "/api/ask": "ask",
    "/api/check": "short",
    "/api/complete": "short",
    "/api/entity": "short",
    "/api/entities": "short",
    "/api/relations": "short",
    "/api/explain": "long",
    "/api/paths": "long",
    "/sparql": "sparql",
}
"""Which lane answers a route."""


@final
class Service:
    """Answers requests in four lanes, so that what takes milliseconds never waits for what may take seconds."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self._settings = settings
        names = ("ask", "short", "long", "sparql")
        self._lanes = {name: Lane(name, settings.threads, settings.queue, settings.timeout) for name in names}
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

    # Questions.

    async def ask(self, run: ServedRun, body: AskBody) -> AnswersReport:
        """Ranked answers; questions that come at the same time are answered together."""
        began = perf_counter()
        deadline = Deadline(self._settings.timeout)
        _check_top(body.top, MAX_ANSWERS)
        _check_offset(body.offset)
        with refusing({"query": body.query}):
            query = self._parse(body.query)
            encoded = run.engine.encode_known(query)
            if encoded is None:  # says why, and what looks alike
                encoded = await self._lanes["short"].run(partial(run.engine.encode, query))
            question = Question(encoded, body.top, body.candidates, body.only, body.offset, deadline)
            answers = await self._batcher.ask(run.engine, question)
        return AnswersReport.of(answers, perf_counter() - began)

    async def check(self, run: ServedRun, body: CheckBody) -> Verdict:
        """Whether an entity answers a query."""
        with refusing({"query": body.query, "entity": body.entity}):
            _require_calibration(run)
            query = self._parse(body.query)
            deadline = Deadline(self._settings.timeout)
            return await self._lanes["short"].run(partial(run.engine.check, query, body.entity, deadline=deadline))

    async def explain(self, run: ServedRun, body: ExplainBody) -> Explanation:
        """Proofs of an answer."""
        deadline = Deadline(self._settings.timeout)
        _check_top(body.top, MAX_PROOFS)
        with refusing({"query": body.query, "entity": body.entity}):
            _require_calibration(run)
            query = self._parse(body.query)
            find = partial(explain, run.engine, query, body.entity, top=body.top, deadline=deadline)
            return await self._lanes["long"].run(find)

    async def paths(self, run: ServedRun, body: PathsBody) -> PathsReport:
        """Relation paths between two entities."""
        deadline = Deadline(self._settings.timeout)
        _check_top(body.top, MAX_PATHS)
        with refusing({"source": body.source, "target": body.target}, setting="max_length"):
            _require_calibration(run)
            find = partial(paths, max_length=body.max_length, top=body.top, deadline=deadline)
            return await self._lanes["long"].run(partial(find, run.engine, body.source, body.target))

    async def sparql(self, run: ServedRun, asked: Asked) -> Solutions | Truth | Statements:
        """The results of a SPARQL query."""
        deadline = Deadline(self._settings.timeout)
        with refusing({"query": asked.query}, setting="threshold"):
            options = {"known": asked.known, "threshold": asked.threshold, "candidates": asked.candidates}
            return await self._lanes["sparql"].run(
                partial(run.engine.sparql, asked.query, **options, deadline=deadline)  # type: ignore[arg-type]
            )

    async def entity(self, run: ServedRun, name: str, limit: int, relation: str | None, offset: int) -> Neighbourhood:
        """The facts about an entity, or those of one relation."""
        graph = run.engine.graph
        _check_limit(limit, MAX_NEIGHBOURS)
        _check_offset(offset)

        def work() -> Neighbourhood:
            wanted = None if relation is None else encode_hop(relation, graph.relations)
            return neighbourhood(graph, name, limit=limit, relation=wanted, offset=offset)

        with refusing({"name": name, "relation": relation}):
            return await self._lanes["short"].run(work)

    # Queries that are being typed.

    async def complete(self, run: ServedRun, text: str, caret: int) -> SuggestionsReport:
        """What the name at the caret may become."""
        if _typed_hops(text) > self._settings.max_length:
            return SuggestionsReport(text, pieces_of(text)[-1], False, ())  # asking will say that it is too long
        return await self._lanes["short"].run(partial(suggest, run, text, caret))

    async def entities(self, run: ServedRun, prefix: str, limit: int) -> EntitiesReport:
        """Entity names that what was typed may become."""
        _check_limit(limit, MAX_NAMES)
        found = await self._lanes["short"].run(partial(find_entities, run, prefix, limit))
        return EntitiesReport(prefix, tuple(found))

    async def relations(self, run: ServedRun, after: str | None, prefix: str, limit: int) -> RelationsReport:
        """Relations that make sense after the beginning of a query."""
        _check_limit(limit, MAX_NAMES)
        with refusing({"after": after}):
            if after is not None:
                self._check_length(_typed_hops(after))
            found = await self._lanes["short"].run(partial(relations_after, run, after))
        return RelationsReport(after, tuple(beginning_as(found, prefix)[:limit]))

    def parse(self, text: str) -> ParsedReport:
        """A query taken apart, and the same relations in other orders."""
        with refusing({"query": text}):
            query = self._parse(text)
        orders: dict[str, None] = {}
        source, hops = query.chain() if query.is_chain else ("", ())
        for at in range(len(hops) - 1):
            first, second = hops[at : at + 2]
            if first != second:
                orders[str(Query(source, (*hops[:at], second, first, *hops[at + 2 :])))] = None
        own = str(query)
        return ParsedReport(own, pieces_of(own), tuple(Reordered(each, pieces_of(each)) for each in orders))

    def _parse(self, text: str) -> Query:
        query = parse(text)
        self._check_length(query.num_hops)
        return query

    def _check_length(self, hops: int) -> None:
        most = self._settings.max_length
        if hops > most:
            raise QueryError(f"the query has {hops:,} hops; a query may have {most} at most.")


def _typed_hops(text: str) -> int:
    return sum(piece.kind == "relation" for piece in pieces(text))


def _require_calibration(run: ServedRun) -> None:
    """Refuse a run whose scores cannot become probabilities, as the command line does, with its name for its folder."""
    if run.engine.calibration is None:
        raise RunError(not_calibrated(run.name) + ".")


def _check_top(top: int, most: int) -> None:
    with refusing({}, setting="top"):
        check_top(top)
        if top > most:
            raise ConfigError(f"top may be {most:,} at most here; it cannot be {top:,}.")


def _check_offset(offset: int) -> None:
    with refusing({}, setting="offset"):
        if not 0 <= offset < 2**31:
            raise ConfigError(f"offset is a place in a list, at least 0; it cannot be {offset}.")


def _check_limit(limit: int, most: int) -> None:
    with refusing({}, setting="limit"):
        if not 1 <= limit <= most:
            raise ConfigError(f"limit is a number from 1 to {most:,}; it cannot be {limit}.")
