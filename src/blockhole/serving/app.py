"""The application: routes, the explorer page, and one shape for every failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from blockhole import __version__
from blockhole.serving.front import ApiKey, Front, failure_json
from blockhole.serving.routes import State, router
from blockhole.serving.schemas import Place, Problem, Refusal, too_large
from blockhole.serving.settings import ServerSettings

# The explorer page and its files.


FOLDER = Path(__file__).with_name("explorer")
_FRESH = {"Cache-Control": "no-cache"}
"""Browsers ask whether a file has changed before they use it again: page and server always fit."""


class _FreshFiles(StaticFiles):
    """Static files; only plain ones inside the folder, symbolic links out of it are not followed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_FRESH)
        return response


def mount_explorer(app: FastAPI) -> None:
    """Serve the page at / and its files below /static."""
    page = FOLDER / "index.html"

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def explorer() -> Response:
        return FileResponse(page, headers=_FRESH)

    app.mount("/static", _FreshFiles(directory=FOLDER))


# The application: routes, the explorer page, and one shape for every failure.


_KINDS = {
    400: "malformed",
    404: "not_found",
    405: "method_not_allowed",
}


def build_app(state: State, settings: ServerSettings) -> ASGIApp:
    """The application that answers with what `state` holds."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
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
    mount_explorer(app)
    key = None if settings.api_key is None else ApiKey(settings.api_key)
    return Front(app, state.metrics, key, state.service.check_room)


def _respond(request: Request, refusal: Refusal) -> Response:
    body = failure_json(refusal.problem, request.state.request_id)
    return Response(body, refusal.status, refusal.headers, media_type="application/json")


async def _refused(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, Refusal)
    return _respond(request, failure)


async def _invalid(request: Request, failure: Exception) -> Response:
    """A body or a parameter that does not fit its schema; of several faults the first is named."""
    assert isinstance(failure, RequestValidationError)
    fault = failure.errors()[0]
    field = ".".join(str(part) for part in fault["loc"][1:])
    if fault["type"] == "json_invalid":
        return _respond(
            request, Refusal(400, Problem(kind="malformed", message="the body is no JSON; send an object."))
        )
    problem = fault["msg"][:1].lower() + fault["msg"][1:]
    message = f"{field}: {problem}." if field else f"the body: {problem}; send an object."
    place = Place(field=field) if field else None
    return _respond(request, Refusal(422, Problem(kind="invalid", message=message, place=place)))


async def _http_failure(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    if failure.status_code == 413:
        return _respond(request, too_large())
    messages = {
        400: "the body is no JSON; send an object.",
        404: f"there is nothing at {request.url.path[:100]}; the routes are in /openapi.json.",
        405: f"{request.method} is not possible here; the routes are in /openapi.json.",
    }
    message = messages.get(failure.status_code, HTTPStatus(failure.status_code).phrase)
    kind = _KINDS.get(failure.status_code, "invalid")
    return _respond(request, Refusal(failure.status_code, Problem(kind=kind, message=message), failure.headers))


async def _bug(request: Request, _: Exception) -> Response:
    message = "the server made a mistake; its log has the details under this request id."
    return _respond(request, Refusal(500, Problem(kind="internal", message=message)))
