"""The routes of the API, each with the shape of its success and of its failures."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, final

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic_core import to_json
from starlette.responses import PlainTextResponse, Response

from blockhole import __version__
from blockhole.answering.answers import AnswersReport
from blockhole.answering.connections import PathsReport
from blockhole.answering.engine import Verdict
from blockhole.answering.explanation import Explanation
from blockhole.answering.known import Neighbourhood
from blockhole.serving.observing import CONTENT_TYPE, Metrics, log
from blockhole.serving.runs import Runs
from blockhole.serving.schemas import (
    AskBody,
    CheckBody,
    EntitiesReport,
    ExplainBody,
    Failure,
    Health,
    PathsBody,
    Refusal,
    RelationsReport,
    RunReport,
    RunsReport,
    Success,
    refusing,
)
from blockhole.serving.service import Service
from blockhole.serving.settings import MAX_NAMES, MAX_NEIGHBOURS, MAX_TEXT

router = APIRouter()


@final
@dataclass(frozen=True, slots=True)
class State:
    """What the routes work with."""

    runs: Runs
    service: Service
    metrics: Metrics

    async def reload(self, name: str) -> RunReport:
        """Load a run's folder anew."""
        try:
            with refusing({"run": name}):
                report = (await self.runs.reload(name)).report
        except Refusal as refusal:
            self.metrics.count_reload(name if name in self.runs.names else "none", succeeded=False)
            log(logging.ERROR, "reload failed", run=name, reason=refusal.problem.message)
            raise
        self.metrics.count_reload(name, succeeded=True)
        log(logging.INFO, "reloaded", run=name, epochs=report.epochs)
        return report


async def _state(request: Request) -> State:
    state: State = request.app.state.serving
    return state


Serving: TypeAlias = Annotated[State, Depends(_state)]
RunParameter: TypeAlias = Annotated[
    str | None, Query(alias="run", max_length=MAX_TEXT, description="Which run answers; the first where none is named.")
]


def _failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The statuses of a route besides 200, all of one shape."""
    reasons = {
        400: "The body is no JSON, or the query does not parse.",
        401: "The API key is missing or wrong.",
        403: "A page of another site sent it.",
        404: "A name, or the run, is unknown.",
        408: "The request did not arrive in time.",
        413: "The body is too large.",
        415: "The body is not application/json.",
        422: "A field is missing, unknown or out of range, or the run cannot answer.",
        431: "Address and headers are too long.",
        503: "The server is busy, or the time for an answer is over: ask again after Retry-After seconds.",
    }
    every = (401, 431, *statuses)
    return {status: {"model": Failure, "description": reasons[status]} for status in sorted(every)}


_POST = _failures(400, 403, 404, 408, 413, 415, 422, 503)
_GET = _failures(404, 422, 503)


def _success(run: str | None, result: object) -> Response:
    body = to_json({"run": run, "result": result}, inf_nan_mode="null")
    return Response(body, media_type="application/json")


@router.post("/api/ask", response_model=Success[AnswersReport], responses=_POST)
async def ask(body: AskBody, state: Serving) -> Response:
    """The best answers to a path query: known where the graph leads there, else predicted by the model."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.ask(run, body))


@router.post("/api/check", response_model=Success[Verdict], responses=_POST)
async def check(body: CheckBody, state: Serving) -> Response:
    """Whether a path holds between its source and an entity."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.check(run, body))


@router.post("/api/explain", response_model=Success[Explanation], responses=_POST)
async def explain(body: ExplainBody, state: Serving) -> Response:
    """The best chains of entities from a query's source to an answer, each hop known or predicted."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.explain(run, body))


@router.post("/api/paths", response_model=Success[PathsReport], responses=_POST)
async def paths(body: PathsBody, state: Serving) -> Response:
    """The relation paths that lead from one entity to another."""
    run = state.runs.find(body.run)
    return _success(run.name, await state.service.paths(run, body))


@router.get("/api/entities", response_model=Success[EntitiesReport], responses=_GET)
async def entities(
    state: Serving,
    prefix: Annotated[str, Query(max_length=MAX_TEXT, description="What was typed.", examples=["Wil"])] = "",
    limit: Annotated[int, Query(json_schema_extra={"minimum": 1, "maximum": MAX_NAMES})] = 10,
    run_name: RunParameter = None,
) -> Response:
    """Names of entities that begin with what was typed, then names that hold it, then names that look alike."""
    run = state.runs.find(run_name)
    return _success(run.name, await state.service.entities(run, prefix, limit))


@router.get("/api/relations", response_model=Success[RelationsReport], responses={**_GET, **_failures(400)})
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


Limit: TypeAlias = Annotated[int, Query(json_schema_extra={"minimum": 1, "maximum": MAX_NEIGHBOURS})]
Relation: TypeAlias = Annotated[
    str | None, Query(max_length=MAX_TEXT, description="Only this relation's facts.", examples=["^fatherOf"])
]
Offset: TypeAlias = Annotated[int, Query(json_schema_extra={"minimum": 0}, description="Where a page begins.")]


@router.get("/api/entity", response_model=Success[Neighbourhood], responses={**_GET, **_failures(400)})
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


@router.get("/api/entity/{name:path}", response_model=Success[Neighbourhood], responses={**_GET, **_failures(400)})
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


@router.get("/api/runs", response_model=Success[RunsReport], responses=_failures())
async def runs(state: Serving) -> Response:
    """The runs that are served."""
    return _success(None, RunsReport(state.runs.default, state.runs.reports()))


@router.post("/api/runs/{name:path}/reload", response_model=Success[RunReport], responses=_POST)
async def reload(
    state: Serving, name: Annotated[str, Path(max_length=MAX_TEXT, description="The name of a run.")]
) -> Response:
    """Load a run that was trained again; until it is there, the old one answers."""
    return _success(name, await state.reload(name))


@router.get("/healthz", response_model=Success[Health], responses={431: _failures()[431]})
async def healthz() -> Response:
    """That the server answers; the one route that needs no key."""
    return _success(None, Health("ready", __version__))


# The failures of a route whose success is plain text are JSON all the same, which FastAPI would not guess.
_JSON_FAILURE = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
_TEXT: dict[int | str, dict[str, Any]] = {
    status: {"description": failure["description"], "content": _JSON_FAILURE} for status, failure in _failures().items()
}


@router.get("/metrics", response_class=PlainTextResponse, responses=_TEXT)
async def metrics(state: Serving) -> Response:
    """Figures for Prometheus."""
    return Response(state.metrics.text(), media_type=CONTENT_TYPE)
