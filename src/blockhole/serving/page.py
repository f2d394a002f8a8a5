"""The explorer page and the page of the API: few files, made when the server starts, that browsers keep."""

from __future__ import annotations

import gzip
import re
from hashlib import sha256
from importlib.resources import files as resource_files
from mimetypes import guess_type
from pathlib import Path
from typing import final

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

_FOLDER = Path(__file__).with_name("explorer")
_STYLES = ("theme.css", "page.css", "views.css")
_MAIN = "main.js"
_ALONE = ("theme.js", "docs.js")
"""Scripts that are no modules."""
_FOREVER = "public, max-age=31536000, immutable"
_WORTH_IT = 1400
"""Bytes of a file that is worth compressing: less fits into one packet as it is."""

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (async function|function|class|const) (\w+)", re.MULTILINE)
_DOCUMENTATION = re.compile(r"^[ \t]*/\*\*(?:(?!\*/).)*\*/\n", re.MULTILINE | re.DOTALL)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


@final
class _File:
    """A file as it was when the server started, so that page and server always fit; `fixed` if its name has its sum."""

    def __init__(self, name: str, content: bytes, *, fixed: bool = False) -> None:
        self._content = content
        self._packed = gzip.compress(content, 9, mtime=0) if len(content) >= _WORTH_IT else None
        self._type = guess_type(name)[0] or "application/octet-stream"
        self._tag = f'W/"{sha256(content).hexdigest()[:16]}"'  # weak: it may come compressed
        self._keep = _FOREVER if fixed else "no-cache"

    def respond(self, request: Request) -> Response:
        """The file, compressed for who takes it so, or that it has not changed."""
        headers = {"Cache-Control": self._keep, "ETag": self._tag}
        known = {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}
        if self._tag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        if self._packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            packed = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return Response(self._packed, headers=headers | packed, media_type=self._type)
        return Response(self._content, headers=headers, media_type=self._type)


def joined_modules(folder: Path, first: str = _MAIN) -> str:
    """The module `first` and all that it imports as one: each in a function of its own, after those it imports.

    What is written for readers, documentation and indents, is left out. Imports and exports must stand as the page's
    own files have them: names in braces from "./file.js", and `export` before a function, a class or a constant.
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        done[name] = ""  # a module that is being read
        text = (folder / name).read_text(encoding="utf-8")
        for _, other in _IMPORT.findall(text):
            add(other)
        exported = [each for _, each in _EXPORT.findall(text)]
        body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_scope(found[2])};\n", text))
        body = _INDENT.sub("", _DOCUMENTATION.sub("", body))
        whole = f"const {_scope(name)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"
        done.pop(name)
        done[name] = body if name == first else whole

    add(first)
    return "".join(done.values())


def _scope(name: str) -> str:
    return "in_" + name.removesuffix(".js").replace("-", "_")


def add_explorer(app: FastAPI) -> None:
    """Serve the page at /, that of the API at /docs, and their files below /static, and nothing else of the disk."""
    style = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in _STYLES)
    style = _INDENT.sub("", re.sub(r"/\*.*?\*/\n*", "", style, flags=re.DOTALL))
    made = {"page.css": style.encode(), "page.js": joined_modules(_FOLDER).encode()}
    made |= {name: (_FOLDER / name).read_bytes() for name in (*_ALONE, "icon.svg")}
    files: dict[str, _File] = {}
    page, docs = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("index.html", "docs.html"))
    for name, content in made.items():
        stem, _, suffix = name.rpartition(".")
        hashed = f"{stem}-{sha256(content).hexdigest()[:12]}.{suffix}"
        files |= {name: _File(name, content), hashed: _File(name, content, fixed=True)}
        page, docs = (text.replace(f'"static/{name}"', f'"static/{hashed}"') for text in (page, docs))
    resources = Path(str(resource_files("fastapi_swagger") / "resources"))
    files |= {
        each.name: _File(each.name, each.read_bytes()) for each in resources.iterdir() if each.suffix in (".css", ".js")
    }
    pages = {"/": _File("index.html", page.encode()), "/docs": _File("docs.html", docs.encode())}

    @app.get("/", include_in_schema=False)
    async def explorer(request: Request) -> Response:
        return pages["/"].respond(request)

    @app.get("/docs", include_in_schema=False)
    async def api_page(request: Request) -> Response:
        return pages["/docs"].respond(request)

    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(request: Request, name: str) -> Response:
        if name not in files:
            raise HTTPException(404)
        return files[name].respond(request)
