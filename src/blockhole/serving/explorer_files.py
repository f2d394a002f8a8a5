"""The explorer page and its files."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

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
