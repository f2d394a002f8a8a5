"""What the routes ask for: questions in the shapes of requests, results in those of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from time import perf_counter
from typing import NamedTuple, TypeVar, final

import numpy as np
from pydantic_core import to_json

from blockhole.answering.answers import Answers, AnswersReport, Spread, answers_frame
from blockhole.answering.connections import PathsReport, paths
from blockhole.answering.engine import Question, Verdict, check_top
from blockhole.answering.known import Neighbourhood, neighbourhood
from blockhole.answering.overview import RelationOverview, relation_overview, shared_facts
from blockhole.answering.proofs import Explanation, explain
from blockhole.answering.search import Deadline
from blockhole.answering.sparql.results import Solutions, Statements, Truth
from blockhole.answering.sparql.writing import as_sparql, from_sparql
from blockhole.errors import QueryError, grouped
from blockhole.files.tables import write_rows
from blockhole.queries.language import Intersection, Query, encode_entity, encode_hop, parse, pieces
from blockhole.queries.tree import write_node
from blockhole.serving.lanes import Batcher, Lane
from blockhole.serving.observing import Metrics
from blockhole.serving.schemas import (
    AskBody,
    BranchReport,
    CheckBody,
    EntitiesReport,
    ExplainBody,
    FacetsBody,
    FacetsReport,
    ParsedReport,
    PathsBody,
    Problem,
    ReadReport,
    Refusal,
    RelationsReport,
    Reordered,
    RunPage,
    SearchReport,
    SparqlQuestion,
    SpreadBody,
    SuggestionsReport,
    TranslatedReport,
    invalid,
    pieces_of,
    refusing,
)
from blockhole.serving.served_runs import ServedRun, Surveys, run_page
from blockhole.serving.settings import (
    MAX_ANSWERS,
    MAX_KNOWN,
    MAX_NAMES,
    MAX_NEIGHBOURS,
    MAX_PATHS,
    MAX_PROOFS,
    ServerSettings,
)
from blockhole.serving.suggestions import beginning_as, find_entities, read_text, relations_after, suggest

Form = TypeVar("Form")


class Asked(NamedTuple):
    """The answers to a question, and how many seconds they took."""

    answers: Answers
    seconds: float

    def report(self) -> AnswersReport:
        """What is told of them."""
        return AnswersReport.of(self.answers, self.seconds)

    def json(self) -> bytes:
        """The same as the server sends it."""
        return to_json(self.report(), inf_nan_mode="null")


LANES = {
    "/api/v1/ask": "ask",
    "/api/v1/check": "short",
    "/api/v1/complete": "short",
    "/api/v1/entity": "short",
    "/api/v1/entities": "short",
    "/api/v1/relations": "short",
    "/api/v1/relation": "short",
    "/api/v1/read": "short",
    "/api/v1/translate": "short",
    "/api/v1/facets": "short",
    "/api/v1/run": "short",
    "/api/v1/explain": "long",
    "/api/v1/spread": "long",
    "/api/v1/paths": "long",
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
        self._searches: dict[str, Deadline] = {}
        self._surveys = Surveys(lambda: any(lane.size() for lane in self._lanes.values()))
        self._batcher = Batcher(self._lanes["ask"], metrics.batch.observe)
        metrics.watch({name: lane.size for name, lane in self._lanes.items()})

    def check_room(self, path: str) -> None:
        """Refuse a request that would find its lane full, before anything is spent on it."""
        lane = LANES.get(path)
        if lane is not None:
            self._lanes[lane].check_room()

    def survey(self, run: ServedRun) -> None:
        """Make a run that comes into service as fast as it will be, in the background."""
        self._surveys.begin(run)

    def close(self) -> None:
        """Take no more work."""
        self._surveys.close()
        for lane in self._lanes.values():
            lane.close()

    # Searches in progress.

    @contextmanager
    def _searching(self, request: str | None) -> Iterator[Deadline]:
        """The deadline of a request's search, found by the id of the request until it ends."""
        deadline = Deadline(self._settings.timeout)
        if request is not None:
            self._searches[request] = deadline
        try:
            yield deadline
        finally:
            if request is not None and self._searches.get(request) is deadline:
                del self._searches[request]

    def search(self, request: str) -> SearchReport:
        """How far the search of a request is."""
        deadline = self._searches.get(request)
        if deadline is None:
            message = (
                "there is no search of that id in progress; it is the X-Request-Id that the question was sent with."
            )
            raise Refusal(404, Problem(kind="not_found", message=message))
        passed = deadline.seconds - deadline.left
        return SearchReport(request, round(passed, 3), deadline.seconds, deadline.looks)

    def cancel(self, request: str) -> SearchReport:
        """End the search of a request; who asked is told that it was cancelled."""
        report = self.search(request)
        self._searches[request].cancel()
        return report

    # Questions.

    async def ask(
        self, run: ServedRun, body: AskBody, form: Callable[[Asked], Form], request: str | None = None
    ) -> list[Form]:
        """Ranked answers to each question, each in a form; those that come at the same time are answered together."""
        began = perf_counter()
        _check_top(body.top, MAX_KNOWN if body.only == "known" and isinstance(body.query, str) else MAX_ANSWERS)
        _check_offset(body.offset)
        found = []
        with self._searching(request) as deadline:
            for text in [body.query] if isinstance(body.query, str) else body.query:
                with refusing({"query": text}):
                    query = self._parse(text)
                    encoded = run.engine.encode_known(query)
                    if encoded is None:  # says why, and what looks alike
                        encoded = await self._lanes["short"].run(partial(run.engine.encode, query))
                    question = Question(encoded, body.top, body.candidates, body.only, body.offset, deadline)
                    finish = partial(_finished, form, began)
                    found.append(await self._batcher.ask(run.engine, question, encoded, finish))
                began = perf_counter()
        return found

    async def table(self, many: list[Answers], suffix: str) -> bytes:
        """All answers as rows of a table, in the format of a suffix."""

        def work() -> bytes:
            file = BytesIO()
            write_rows(answers_frame(many), file, suffix)
            return file.getvalue()

        return await self._lanes["short"].run(work)

    async def spread(self, run: ServedRun, body: SpreadBody, request: str | None = None) -> Spread:
        """How probable the predicted answers to a query are."""
        with refusing({"query": body.query}), self._searching(request) as deadline:
            run.engine.require_calibration()
            query = self._parse(body.query)

            def work() -> Spread:
                return run.engine.spread(run.engine.encode(query), body.candidates, deadline)

            return await self._lanes["long"].run(work)

    async def check(self, run: ServedRun, body: CheckBody) -> Verdict:
        """Whether an entity answers a query."""
        with refusing({"query": body.query, "entity": body.entity}):
            query = self._parse(body.query)
            deadline = Deadline(self._settings.timeout)
            return await self._lanes["short"].run(partial(run.engine.check, query, body.entity, deadline=deadline))

    async def explain(self, run: ServedRun, body: ExplainBody, request: str | None = None) -> Explanation:
        """Proofs of an answer."""
        _check_top(body.top, MAX_PROOFS)
        with refusing({"query": body.query, "entity": body.entity}), self._searching(request) as deadline:
            query = self._parse(body.query)
            find = partial(explain, run.engine, query, body.entity, top=body.top, deadline=deadline)
            return await self._lanes["long"].run(find)

    async def paths(self, run: ServedRun, body: PathsBody, request: str | None = None) -> PathsReport:
        """Relation paths between two entities."""
        _check_top(body.top, MAX_PATHS)
        names = {"source": body.source, "target": body.target}
        with refusing(names, setting="max_length"), self._searching(request) as deadline:
            find = partial(paths, max_length=body.max_length, top=body.top, deadline=deadline)
            return await self._lanes["long"].run(partial(find, run.engine, body.source, body.target))

    async def sparql(
        self, run: ServedRun, asked: SparqlQuestion, request: str | None = None
    ) -> Solutions | Truth | Statements:
        """The results of a SPARQL query."""
        with refusing({"query": asked.query}, setting="threshold"), self._searching(request) as deadline:

            def find() -> Solutions | Truth | Statements:
                return run.engine.sparql(
                    asked.query,
                    known=asked.known,
                    threshold=asked.threshold,
                    candidates=asked.candidates,
                    deadline=deadline,
                )

            return await self._lanes["sparql"].run(find)

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

    async def facets(self, run: ServedRun, body: FacetsBody) -> FacetsReport:
        """What the known answers to a query and some further entities have in common."""
        engine = run.engine

        def work() -> FacetsReport:
            encoded = engine.encode(self._parse(body.query))
            others = [encode_entity(name, engine.graph.entities, engine.graph.relations) for name in body.entities]
            entities = np.unique(np.append(engine.known.plan_answers(encoded.plan), np.array(others, dtype=np.int32)))
            root = encoded.query.root
            asked = set(map(write_node, root.parts if isinstance(root, Intersection) else [root]))
            shared = shared_facts(engine.graph, entities.astype(np.int64))
            facets = tuple(each for each in shared if each.branch not in asked)
            return FacetsReport(str(encoded.query), len(entities), facets)

        with refusing({"query": body.query, **{f"entities.{i}": name for i, name in enumerate(body.entities)}}):
            return await self._lanes["short"].run(work)

    # Relations and runs as pages.

    async def relation(self, run: ServedRun, name: str) -> RelationOverview:
        """What a relation is."""
        with refusing({"name": name}):
            return await self._lanes["short"].run(partial(relation_overview, run.engine.known, name))

    async def run_page(self, run: ServedRun) -> RunPage:
        """What a run is, and how it was trained."""
        try:
            with refusing({"run": run.name}):
                return await self._lanes["short"].run(partial(run_page, run))
        except Refusal as refusal:
            raise run.refusal(refusal) from None

    # Queries that are being typed.

    async def read(self, run: ServedRun, text: str) -> ReadReport:
        """What a text is: an entity or a query."""
        with refusing({"query": text, "query ": text.strip()}):
            self._check_length(_typed_hops(text))
            return await self._lanes["short"].run(partial(read_text, run, text))

    async def translate(self, run: ServedRun, query: str | None, sparql: str | None) -> TranslatedReport:
        """A question in both languages, from either."""
        if (query is None) == (sparql is None):
            raise invalid("give one of query and sparql; what it is in the other language comes back.")

        def work() -> TranslatedReport:
            meant = self._parse(query) if query is not None else from_sparql(sparql or "", run.engine)
            encoded = run.engine.encode(meant)
            return TranslatedReport(str(encoded.query), as_sparql(encoded.query, run.engine.graph))

        with refusing({"query": query, "sparql": sparql}):
            return await self._lanes["short"].run(work)

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
        tree = BranchReport.of(query.root)
        return ParsedReport(own, pieces_of(own), tree, tuple(Reordered(each, pieces_of(each)) for each in orders))

    def _parse(self, text: str) -> Query:
        query = parse(text)
        self._check_length(query.num_hops)
        return query

    def _check_length(self, hops: int) -> None:
        most = self._settings.max_length
        if hops > most:
            raise QueryError(f"the query has {hops:,} hops; a query may have {most} at most.")


def _finished(form: Callable[[Asked], Form], began: float, answers: Answers) -> Form:
    return form(Asked(answers, perf_counter() - began))


def _typed_hops(text: str) -> int:
    return sum(piece.kind == "relation" for piece in pieces(text))


def _check_top(top: int, most: int) -> None:
    with refusing({}, setting="top"):
        check_top(top)
    if top > most:
        raise invalid(f"top may be {most:,} at most here; it cannot be {grouped(top)}.", "top")


def _check_offset(offset: int) -> None:
    if not 0 <= offset < 2**31:
        raise invalid(f"offset is a place in a list, at least 0; it cannot be {grouped(offset)}.", "offset")


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise invalid(f"limit is a number from 1 to {most:,}; it cannot be {grouped(limit)}.", "limit")
