"""The application: its routes, the explorer page, and one shape for every failure."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, TypeAlias, final

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blockhole import __version__
from blockhole.answering.answers import AnswersReport, Spread
from blockhole.answering.connections import PathsReport
from blockhole.answering.engine import Verdict
from blockhole.answering.known import Neighbourhood
from blockhole.answering.overview import RelationOverview
from blockhole.answering.proofs import Explanation
from blockhole.answering.search import Candidates
from blockhole.errors import nearest_or_all, ought_to_be, quoted
from blockhole.serving.front import ApiKey, Callers, Front, Hosts, failure_json, negotiated
from blockhole.serving.observing import CONTENT_TYPE, Metrics, log
from blockhole.serving.page import add_explorer
from blockhole.serving.pictures import MapReport, Pictures, RulesReport, ValidationReport
from blockhole.serving.protocol import (
    FORMATS,
    asked_in_body,
    described,
    refuse_data_sets,
    refuse_misspelt,
    results_in,
)
from blockhole.serving.schemas import (
    AskBody,
    CheckBody,
    EntitiesReport,
    ExplainBody,
    FacetsBody,
    FacetsReport,
    Failure,
    Health,
    ParsedReport,
    PathsBody,
    Problem,
    ReadReport,
    Refusal,
    RelationsReport,
    RunPage,
    RunReport,
    RunsReport,
    SearchReport,
    SparqlQuestion,
    SpreadBody,
    Success,
    SuggestionsReport,
    TranslatedReport,
    invalid,
    malformed,
    refusing,
    too_large,
)
from blockhole.serving.served_runs import ServedRuns
from blockhole.serving.service import Asked, Service
from blockhole.serving.settings import MAX_NAMES, MAX_NEIGHBOURS, MAX_TEXT, ServerSettings

_COMPRESSED = 1400
"""Bytes of a response that is worth compressing: less fits into one packet as it is."""


@final
@dataclass(frozen=True, slots=True)
class State:
    """What the routes work with."""

    runs: ServedRuns
    service: Service
    metrics: Metrics
    pictures: Pictures = field(default_factory=Pictures)

    async def reload(self, name: str) -> RunReport:
        """Load a run's folder anew; the log says where it lies, the response only its name."""
        run = self.runs.find(name)
        try:
            with refusing({"run": name}):
                loaded = await self.runs.reload(name)
        except Refusal as refusal:
            self.metrics.count_reload(name, succeeded=False)
            log(logging.ERROR, "reload failed", run=name, reason=refusal.problem.message)
            raise run.refusal(refusal) from None
        self.metrics.count_reload(name, succeeded=True)
        self.service.survey(loaded)
        log(logging.INFO, "reloaded", run=name, epochs=loaded.report.epochs)
        return loaded.report


def build_app(state: State, settings: ServerSettings, host: str = "localhost") -> ASGIApp:
    """The application that answers with what `state` holds, on a server that listens on `host`."""

    agents = _Agents(state)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for name in state.runs.names:
            state.service.survey(state.runs.find(name))
        yield
        await agents.close()
        state.pictures.close()
        state.service.close()

    app = FastAPI(
        title="BlockHolE",
        summary="Path queries over knowledge graphs that miss edges.",
        version=__version__,
        docs_url=None,  # the page it would show comes from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers={
            Refusal: _refused,
            RequestValidationError: _invalid,
            HTTPException: _http_failure,
            Exception: _bug,
        },
    )
    app.state.serving = state
    app.include_router(router)
    add_explorer(app)
    app.openapi = partial(_described, app)  # type: ignore[method-assign]
    if find_spec("mcp") is not None:
        # Answers come with their questions: a GET would hold a connection open for news that never come.
        app.router.routes.append(Route(_AGENTS, agents, methods=["POST"], include_in_schema=False))
    key = None if settings.api_key is None else ApiKey(settings.api_key)
    questions = _Questions(_packed(app), state)
    hosts, callers = Hosts(host, settings.allowed_hosts), Callers(settings.per_caller)
    return Front(questions, state.metrics, hosts, key, callers, state.service.check_room, settings.cors_origins)


def _packed(app: ASGIApp) -> ASGIApp:
    return GZipMiddleware(app, minimum_size=_COMPRESSED, compresslevel=5)


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, in which every route but one says how a key is sent, where the server has one."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, summary=app.summary, description=_ABOUT, routes=app.routes
        )
        document["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "basic": {"type": "http", "scheme": "basic", "description": "The key is the password; the name is free."},
        }
        document["security"] = [{}, *({name: []} for name in document["components"]["securitySchemes"])]
        document["paths"]["/healthz"]["get"]["security"] = []
        app.openapi_schema = document
    return app.openapi_schema


_ABOUT = """\
Answers, known and predicted, to queries over a knowledge graph that misses edges. Addresses begin with their version,
/api/v1. What will go in a later version is announced by the header Deprecation, and what replaces it by Link."""


_AGENTS = "/mcp"
"""Where agents find their tools."""


@final
class _Agents:
    """The tools for agents; loading their packages takes as long as starting a server, so the first agent waits."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._beginning, self._ended = asyncio.Lock(), asyncio.Event()
        self._app: ASGIApp | None = None
        self._open: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an agent."""
        async with self._beginning:
            if self._app is None:
                self._app = await self._begin()
        await self._app(scope, receive, send)

    async def _begin(self) -> ASGIApp:
        agents = await asyncio.to_thread(import_module, "blockhole.serving.agents")
        server = agents.agent_server(self._state.runs, self._state.service)
        app: ASGIApp = agents.agent_app(server, _AGENTS)
        begun = asyncio.Event()

        async def hold_open() -> None:  # what one task begins the same has to end
            async with server.session_manager.run():
                begun.set()
                await self._ended.wait()

        self._open = asyncio.create_task(hold_open())
        await begun.wait()
        return app

    async def close(self) -> None:
        """Take no more questions."""
        self._ended.set()
        if self._open is not None:
            await self._open


# Routes, each with the shape of its success and of its failures.


async def _state(request: Request) -> State:
    state: State = request.app.state.serving
    return state


async def _check_parameters(request: Request) -> None:
    """Refuse a parameter that the route does not have; to pass over it would answer another question than was meant."""
    route, path = request.scope["route"], request.scope["path"]
    if not path.startswith(("/api/", "/sparql")):
        return  # what looks after servers adds its own, to /healthz and /metrics
    known = [parameter.alias for parameter in route.dependant.query_params]
    if path == "/sparql":  # clients add their own here, such as format and output
        refuse_misspelt(request.query_params)
        return
    for name in request.query_params:
        if name not in known:
            raise _unknown_field(name, known, "parameter")


router = APIRouter(dependencies=[Depends(_check_parameters)])
Serving: TypeAlias = Annotated[State, Depends(_state)]
RunParameter: TypeAlias = Annotated[
    str | None, Query(alias="run", max_length=MAX_TEXT, description="Which run answers; the first where none is named.")
]


def _failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The statuses of a route besides 200, all of one shape."""
    reasons = {
        400: "The body is not JSON, or the query does not parse.",
        401: "The API key is missing or wrong.",
        403: "A page of another site sent it.",
        404: "A name, or the run, is unknown.",
        406: "Answers are not to be had as any kind of content that the request accepts.",
        408: "The request did not arrive in time.",
        409: "The search was cancelled.",
        413: "The body is too large.",
        415: "The body is not of a kind that the route takes.",
        421: "The request was sent to another host than this server.",
        422: "A field is missing, unknown or out of range, or the run cannot answer.",
        429: "The caller has too many requests in progress: ask again after Retry-After seconds.",
        431: "Address and headers are too long.",
        503: "The server is busy, or the time for an answer is over: ask again after Retry-After seconds.",
    }
    every = {400, 401, 403, 421, 422, 429, 431, *statuses}
    return {status: {"model": Failure, "description": reasons[status]} for status in sorted(every)}


_POST = _failures(404, 408, 409, 413, 415, 503)
_GET = _failures(404, 503)
_OPEN = {status: failure for status, failure in _failures().items() if status not in (401, 422)}


def _success(run: str | None, result: object) -> Response:
    body = to_json({"run": run, "result": result}, inf_nan_mode="null")
    return Response(body, media_type="application/json")


_TABLES = {
    "application/json": "",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/x-ndjson": ".jsonl",
    "application/vnd.apache.parquet": ".parquet",
    "application/vnd.apache.arrow.stream": ".arrow",
}
"""What answers can be sent as, and as files of which suffix these are written."""
_ASKED = {**_POST, **_failures(404, 406, 408, 409, 413, 415, 503), 200: {"content": {kind: {} for kind in _TABLES}}}


@router.post("/api/v1/ask", response_model=Success[AnswersReport | list[AnswersReport]], responses=_ASKED)
async def ask(body: AskBody, state: Serving, request: Request) -> Response:
    """The best answers to a query, or to each of several: known where the graph leads there, else predicted.

    A list of queries has a list of results. As a table, of which `Accept` names the kind, there is a row an answer.
    """
    kind = negotiated(request.headers.getlist("accept"), [*_TABLES])
    if not _TABLES[kind]:
        return await _asked(state, body, request.state.request_id)
    run = state.runs.find(body.run)
    many = await state.service.ask(run, body, lambda asked: asked.answers, request.state.request_id)
    return Response(await state.service.table(many, _TABLES[kind]), media_type=kind)


@final
class _Questions:
    """What most requests are, a question in JSON to `ask`, without the framework, which takes longer than answers.

    Whatever is not quite that, a mistake above all, goes on to the route of that address as it came.
    """

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app = app
        self._state = state
        self._packed = _packed(_send_held)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question, or pass a request on."""
        if scope["type"] != "http" or scope["path"] != "/api/v1/ask" or not _is_plain(scope):
            await self._app(scope, receive, send)
            return
        received = [await self._receive(receive)]
        while received[-1].get("more_body"):
            received.append(await self._receive(receive))
        try:
            body = AskBody.model_validate(json.loads(b"".join(message["body"] for message in received)))
        except (ValueError, KeyError, RecursionError):
            await self._app(scope, _again(received, receive), send)
            return
        try:
            response = await _asked(self._state, body, scope["state"]["request_id"])
        except Refusal:
            raise  # which is answered further out
        except Exception as failure:
            await (await _bug(Request(scope), failure))(scope, receive, send)
            raise
        if len(response.body) < _COMPRESSED:
            await response(scope, receive, send)
        else:
            await self._packed({**scope, "response": response}, receive, send)

    async def _receive(self, receive: Receive) -> Message:
        try:
            return await receive()
        except HTTPException:
            raise too_large() from None


async def _send_held(scope: Scope, receive: Receive, send: Send) -> None:
    """Send the response that the scope holds."""
    await scope["response"](scope, receive, send)


def _is_plain(scope: Scope) -> bool:
    """Whether it is a POST without parameters whose answer may be JSON."""
    accept = [value for name, value in scope["headers"] if name == b"accept"]
    return scope["method"] == "POST" and not scope["query_string"] and accept in ([], [b"*/*"], [b"application/json"])


def _again(received: list[Message], receive: Receive) -> Receive:
    """What has been received, and then the rest."""
    messages = iter(received)

    async def once_more() -> Message:
        return next(messages, None) or await receive()

    return once_more


async def _asked(state: State, body: AskBody, request_id: str) -> Response:
    run = state.runs.find(body.run)
    asked = await state.service.ask(run, body, Asked.json, request_id)
    result = asked[0] if isinstance(body.query, str) else b"[%s]" % b",".join(asked)
    return Response(b'{"run":%s,"result":%s}' % (to_json(run.name), result), media_type="application/json")


@router.post("/api/v1/spread", response_model=Success[Spread], responses=_POST)
async def spread(body: SpreadBody, state: Serving, request: Request) -> Response:
    """How many predicted answers a query has in each hundredth of probability: of all, or of the most probable."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.spread(run, body, request.state.request_id))


@router.post("/api/v1/check", response_model=Success[Verdict], responses=_POST)
async def check(body: CheckBody, state: Serving) -> Response:
    """Whether a path holds between its source and an entity."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.check(run, body))


@router.post("/api/v1/explain", response_model=Success[Explanation], responses=_POST)
async def explain(body: ExplainBody, state: Serving, request: Request) -> Response:
    """The best proofs of an answer: trees with an entity for every part of the query, each hop known or predicted."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.explain(run, body, request.state.request_id))


@router.post("/api/v1/paths", response_model=Success[PathsReport], responses=_POST)
async def paths(body: PathsBody, state: Serving, request: Request) -> Response:
    """The relation paths that lead from one entity to another."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.paths(run, body, request.state.request_id))


@router.post("/api/v1/facets", response_model=Success[FacetsReport], responses=_POST)
async def facets(body: FacetsBody, state: Serving) -> Response:
    """What the known answers to a query, and further entities, have in common: facts that several of them have."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.facets(run, body))


SearchId: TypeAlias = Annotated[
    str, Path(max_length=64, description="The X-Request-Id that the question was sent with.", examples=["my-search"])
]


@router.get("/api/v1/searches/{search}", response_model=Success[SearchReport], responses=_failures(404))
async def search(state: Serving, search: SearchId) -> Response:
    """How far the search of a question is: of ask, explain or paths."""
    return _success(None, state.service.search(search))


@router.delete("/api/v1/searches/{search}", response_model=Success[SearchReport], responses=_failures(404))
async def cancel(state: Serving, search: SearchId) -> Response:
    """Cancel the search of a question; the response to it then says so."""
    return _success(None, state.service.cancel(search))


@router.get("/api/v1/entities", response_model=Success[EntitiesReport], responses=_GET)
async def entities(
    state: Serving,
    prefix: Annotated[str, Query(max_length=MAX_TEXT, description="What was typed.", examples=["Wil"])] = "",
    limit: Annotated[int, Query(json_schema_extra={"minimum": 1, "maximum": MAX_NAMES})] = 10,
    run_name: RunParameter = None,
) -> Response:
    """Names of entities that begin with what was typed, then names that hold it, then names that look alike."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.entities(run, prefix, limit))


@router.get("/api/v1/relations", response_model=Success[RelationsReport], responses=_GET)
async def relations(
    state: Serving,
    after: Annotated[
        str | None,
        Query(max_length=MAX_TEXT, description="The beginning of a query.", examples=["William/^fatherOf"]),
    ] = None,
    prefix: Annotated[str, Query(max_length=MAX_TEXT, description="What was typed of the next relation.")] = "",
    limit: Annotated[int, Query(json_schema_extra={"minimum": 1, "maximum": MAX_NAMES})] = 100,
    run_name: RunParameter = None,
) -> Response:
    """The relations that make sense after the beginning of a query; without one, all."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.relations(run, after, prefix, limit))


@router.get("/api/v1/complete", response_model=Success[SuggestionsReport], responses=_GET)
async def complete(
    state: Serving,
    text: Annotated[
        str, Query(max_length=MAX_TEXT, description="A query that is being typed.", examples=["William/^fath"])
    ] = "",
    caret: Annotated[int | None, Query(description="Where typing goes on, in characters; the end by default.")] = None,
    run_name: RunParameter = None,
) -> Response:
    """The piece of a query that the caret is in, and what it may become: entities, then relations that make sense."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.complete(run, text, len(text) if caret is None else caret))


@router.get("/api/v1/parse", response_model=Success[ParsedReport], responses=_failures())
async def parse(
    state: Serving,
    query: Annotated[str, Query(max_length=MAX_TEXT, description="A query.", examples=["William/^fatherOf/brotherOf"])],
) -> Response:
    """The pieces of a query, and the queries that exchange two neighbouring hops of it."""
    return _success(None, state.service.parse(query))


@router.get("/api/v1/read", response_model=Success[ReadReport], responses=_GET)
async def read(
    state: Serving,
    query: Annotated[str, Query(max_length=MAX_TEXT, description="What was typed.", examples=["William/^fatherOf"])],
    run_name: RunParameter = None,
) -> Response:
    """What a text is: the name of an entity, or a query, if need be with quotes around its names."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.read(run, query))


@router.get("/api/v1/translate", response_model=Success[TranslatedReport], responses=_GET)
async def translate(
    state: Serving,
    query: Annotated[
        str | None, Query(max_length=MAX_TEXT, description="A query.", examples=["William/^fatherOf"])
    ] = None,
    sparql: Annotated[str | None, Query(max_length=MAX_TEXT, description="A SPARQL SELECT of one variable.")] = None,
    run_name: RunParameter = None,
) -> Response:
    """A query as SPARQL, or SPARQL as a query: one question in both languages."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.translate(run, query, sparql))


RelationName: TypeAlias = Annotated[
    str, Query(max_length=MAX_TEXT, description="The name of a relation.", examples=["fatherOf"])
]


@router.get("/api/v1/relation", response_model=Success[RelationOverview], responses=_GET)
async def relation(
    state: Serving,
    name: RelationName,
    run_name: RunParameter = None,
) -> Response:
    """A relation: what it leads from and to, and examples of it."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.relation(run, name))


@router.get("/api/v1/rules", response_model=Success[RulesReport], responses=_GET)
async def rules(state: Serving, name: RelationName, run_name: RunParameter = None) -> Response:
    """The rules that a relation takes part in, where the model has matrices to propose some; made as the map is."""
    run = state.runs.find(run_name)
    with refusing({"name": name}):
        return _success(run.name, state.pictures.rules(run, name))


@router.get("/api/v1/run", response_model=Success[RunPage], responses=_GET)
async def run_page(state: Serving, run_name: RunParameter = None) -> Response:
    """A run: the settings it was trained with, and the figures of its training."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.run_page(run))


@router.get("/api/v1/map", response_model=Success[MapReport], responses=_GET)
async def entity_map(state: Serving, run_name: RunParameter = None) -> Response:
    """The entities of a run in the plane; the first request begins to make it, and later ones say how far it is."""
    run = state.runs.find(run_name)
    return _success(run.name, state.pictures.map(run))


@router.get("/api/v1/validation", response_model=Success[ValidationReport], responses=_GET)
async def validation(state: Serving, run_name: RunParameter = None) -> Response:
    """How well a run predicts validation facts, where its data is here; made as the map is."""
    run = state.runs.find(run_name)
    return _success(run.name, state.pictures.validation(run))


Limit: TypeAlias = Annotated[int, Query(json_schema_extra={"minimum": 1, "maximum": MAX_NEIGHBOURS})]
Relation: TypeAlias = Annotated[
    str | None, Query(max_length=MAX_TEXT, description="Only this relation's facts.", examples=["^fatherOf"])
]
Offset: TypeAlias = Annotated[int, Query(json_schema_extra={"minimum": 0}, description="Where a page begins.")]


@router.get("/api/v1/entity", response_model=Success[Neighbourhood], responses=_GET)
async def entity_named(
    state: Serving,
    name: Annotated[str, Query(max_length=MAX_TEXT, description="The plain name.", examples=["William"])],
    limit: Limit = 20,
    relation: Relation = None,
    offset: Offset = 0,
    run_name: RunParameter = None,
) -> Response:
    """The facts about an entity of any name, also of one that an address cannot hold, such as ".."."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.entity(run, name, limit, relation, offset))


@router.get("/api/v1/entity/{name:path}", response_model=Success[Neighbourhood], responses=_GET)
async def entity(
    state: Serving,
    name: Annotated[str, Path(max_length=MAX_TEXT, description="The plain name.", examples=["William"])],
    limit: Limit = 20,
    relation: Relation = None,
    offset: Offset = 0,
    run_name: RunParameter = None,
) -> Response:
    """The facts about an entity, grouped by relation; `relation` and `offset` page through one group."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.entity(run, name, limit, relation, offset))


@router.get("/api/v1/runs", response_model=Success[RunsReport], responses=_failures())
async def runs(state: Serving) -> Response:
    """The runs that are served, with queries to begin with."""
    return _success(None, RunsReport(state.runs.default, state.runs.reports()))


@router.post("/api/v1/runs/{name:path}/reload", response_model=Success[RunReport], responses=_POST)
async def reload(
    state: Serving, name: Annotated[str, Path(max_length=MAX_TEXT, description="The name of a run.")]
) -> Response:
    """Load a run that was trained again; until it is there, the old one answers."""
    return _success(name, await state.reload(name))


@router.get("/healthz", response_model=Success[Health], responses=_OPEN)
async def healthz() -> Response:
    """That the server answers; the one route that needs no key."""
    return _success(None, Health("ready", __version__))


# The failures of a route whose success is another format are JSON all the same, which FastAPI would not guess.
_JSON_FAILURE = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}


def _as_json(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"description": failure["description"], "content": _JSON_FAILURE}
        for status, failure in _failures(*statuses).items()
    }


# SPARQL, by its protocol.


_QUERY_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/sparql-query": {"schema": {"type": "string"}},
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}}
            },
        },
    }
}
KnownParameter: TypeAlias = Annotated[bool, Query(description="Only what facts say, as any SPARQL engine has it.")]
_BOUNDS = {"exclusiveMinimum": 0, "maximum": 1}
ThresholdParameter: TypeAlias = Annotated[
    float | None, Query(description="The least probability of predicted answers.", json_schema_extra=_BOUNDS)
]


def _results(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The statuses of the routes for SPARQL; results are texts in several formats."""
    said = "The results, in the format that Accept prefers; without a query, what this service is."
    content = {media: {"schema": {"type": "string"}} for media in dict.fromkeys(FORMATS) if media != "application/json"}
    return {200: {"description": said, "content": content}, **_as_json(404, 406, 409, 503, *statuses)}


@router.get("/sparql", response_class=Response, responses=_results())
async def sparql(
    request: Request,
    state: Serving,
    query: Annotated[str | None, Query(description="A query; without one, the description of this service.")] = None,
    known: KnownParameter = False,
    threshold: ThresholdParameter = None,
    candidates: Candidates = "typed",
    run_name: RunParameter = None,
) -> Response:
    """The results of a SPARQL query over known and predicted edges, by the SPARQL 1.1 Protocol."""
    refuse_data_sets(request.query_params)
    if query is None:
        return described(request)
    return await _sparql(request, state, SparqlQuestion(query, known, threshold, candidates, run_name))


@router.post("/sparql", response_class=Response, responses=_results(408, 413, 415), openapi_extra=_QUERY_BODY)
async def sparql_post(
    request: Request,
    state: Serving,
    known: KnownParameter = False,
    threshold: ThresholdParameter = None,
    candidates: Candidates = "typed",
    run_name: RunParameter = None,
) -> Response:
    """The same for a query in the body, or in a form, whose fields are those of the address."""
    return await _sparql(
        request, state, await asked_in_body(request, SparqlQuestion("", known, threshold, candidates, run_name))
    )


async def _sparql(request: Request, state: State, asked: SparqlQuestion) -> Response:
    accept = request.headers.getlist("accept")
    negotiated(accept, [*FORMATS])  # refuses what nothing fits before anything is spent on it
    run = state.runs.find(asked.run)
    return results_in(accept, await state.service.sparql(run, asked, request.state.request_id))


@router.get("/metrics", response_class=PlainTextResponse, responses=_as_json())
async def metrics(state: Serving) -> Response:
    """Figures for Prometheus."""
    return Response(state.metrics.text(), media_type=CONTENT_TYPE)


# Failures: all have one shape.


def _respond(request: Request, refusal: Refusal) -> Response:
    body = failure_json(refusal.problem, request.state.request_id)
    return Response(body, refusal.status, refusal.headers, media_type="application/json")


async def _refused(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, Refusal)
    return _respond(request, failure)


_NOT_JSON = "the body is not JSON; send an object."
_TOO_MANY_DIGITS = "a number in the body has thousands of digits; send a smaller one."


async def _invalid(request: Request, failure: Exception) -> Response:
    """A body or a parameter that does not fit its schema; of several faults the first is named."""
    assert isinstance(failure, RequestValidationError)
    fault = failure.errors()[0]
    if fault["type"] == "json_invalid":
        return _respond(request, malformed(_NOT_JSON))
    # Between a field and a place in its list stands which of several types was tried, which is nobody's business.
    path = fault["loc"][1:]
    field = ".".join(str(part) for part in path if part == path[0] or isinstance(part, int))
    if not field:
        return _respond(request, invalid("the body is not an object; send one."))
    if fault["type"] == "extra_forbidden":
        return _respond(request, _unknown_field(field, _body_fields(request), "field"))
    return _respond(request, invalid(_sentence(field, fault), field))


def _sentence(field: str, fault: dict[str, Any]) -> str:
    match fault["type"]:
        case "missing":
            return f"{field} is missing; the request needs it."
        case "int_type" | "int_parsing" | "int_from_float" | "int_parsing_size":
            given = fault["input"]  # JSON, or a text of the address
            shown = quoted(given) if isinstance(given, str) else json.dumps(given)[:40]
            return f"{field} is a whole number; it cannot be {shown}."
        case "string_type":
            return f"{field} is text; put it in double quotes."
        case "string_too_long":
            return f"{field} may have {fault['ctx']['max_length']:,} characters at most."
        case "literal_error":
            return f"{field} must be {fault['ctx']['expected']}."
        case _:
            return f"{field} must be {ought_to_be(fault)}."


def _unknown_field(name: str, known: Iterable[str], what: str) -> Refusal:
    known = tuple(known)
    advice = nearest_or_all(name, known, f"the {what}s are") if known else f"this route has no {what}s."
    return invalid(f"there is no {what} {quoted(name)}; {advice}", name)


def _body_fields(request: Request) -> Iterable[str]:
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    (body,) = route.dependant.body_params
    model = body.field_info.annotation
    return () if model is None else tuple(model.model_fields)


async def _http_failure(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    if failure.status_code == 413:
        return _respond(request, too_large())
    kind, message = {
        400: ("malformed", _TOO_MANY_DIGITS if "digits" in str(failure.__cause__) else _NOT_JSON),
        404: ("not_found", f"there is nothing at {request.url.path[:100]}; the routes are in /openapi.json."),
        405: ("method_not_allowed", f"{request.state.method} is not possible here; the routes are in /openapi.json."),
    }.get(failure.status_code, ("invalid", HTTPStatus(failure.status_code).phrase))
    return _respond(request, Refusal(failure.status_code, Problem(kind=kind, message=message), failure.headers))


async def _bug(request: Request, _: Exception) -> Response:
    message = "the server made a mistake; its log has the details under this request id."
    return _respond(request, Refusal(500, Problem(kind="internal", message=message)))
