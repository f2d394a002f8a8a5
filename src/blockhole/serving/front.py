"""What every request passes on its way in and out: request id, key, limits, headers, log and metrics."""

from __future__ import annotations

import logging
import re
import sys
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from secrets import token_hex
from time import perf_counter
from typing import Any, final

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blockhole.errors import ConfigError
from blockhole.serving.observing import Metrics, log
from blockhole.serving.schemas import Failure, Problem, Refusal, too_large
from blockhole.serving.service import LANES
from blockhole.serving.settings import MAX_BODY

# The API key: who may ask.


_CHALLENGE = {"WWW-Authenticate": 'Basic realm="blockhole", charset="UTF-8"'}
"""Browsers ask for a password on their own when they see it, and then send it with all that the page asks for."""


@final
class ApiKey:
    """A key that requests carry as `Authorization: Bearer KEY`, as `X-API-Key: KEY`, or as the password of HTTP Basic.

    Digests are compared, in constant time: how long that takes tells neither how much of a guess is right nor how long
    the key is.
    """

    def __init__(self, key: str) -> None:
        self._digest = sha256(key.encode()).digest()

    def require(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse a request whose headers do not hold the key."""
        offered = [key for name, value in headers for key in _keys(name, value)]
        if not any(compare_digest(sha256(key).digest(), self._digest) for key in offered):
            message = "this server needs its API key; send it as Authorization: Bearer KEY."
            raise Refusal(401, Problem(kind="unauthorized", message=message), _CHALLENGE)


def _keys(name: bytes, value: bytes) -> list[bytes]:
    if name == b"x-api-key":
        return [value.strip()]
    if name != b"authorization":
        return []
    scheme, _, rest = value.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return [rest.strip()]
    if scheme.lower() == b"basic":
        try:
            return [b64decode(rest.strip(), validate=True).partition(b":")[2]]
        except NotBase64:
            return []
    return []


def read_key(path: Path) -> str:
    """The key in a file."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "it is not text in UTF-8"
        raise ConfigError(f"the API key in {path} cannot be read ({reason}); name a file that holds it.") from None
    return check_key(key, str(path))


def check_key(key: str, where: str) -> str:
    """Refuse a key that would let anybody in, or nobody."""
    if not key or not key.isprintable() or " " in key:
        raise ConfigError(
            f"the API key in {where} is empty or holds spaces; write one word, of random letters at best."
        )
    return key


# What every request passes on its way in and out: request id, key, limits, headers, log and metrics.


_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LOGGED_PATH = 200
_OPEN = "/healthz"

SECURITY_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        b"object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@final
class Front:
    """The outermost layer: nothing that the application does, not even a bug, gets past its headers and its log."""

    def __init__(self, app: ASGIApp, metrics: Metrics, key: ApiKey | None, check_room: Callable[[str], None]) -> None:
        self._app = app
        self._metrics = metrics
        self._key = key
        self._check_room = check_room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, if it may enter."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 500
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", request_id.encode()), *SECURITY_HEADERS]
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        try:
            try:
                self._admit(scope)
            except Refusal as refusal:
                await send_refusal(refusal, request_id, observed)
            else:
                await self._app(scope, _limited(receive), observed)
        finally:
            self._record(scope, request_id, status, perf_counter() - began)

    def _admit(self, scope: Scope) -> None:
        if self._key is not None and scope["path"] != _OPEN:
            self._key.require(scope["headers"])
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > MAX_BODY:
            raise too_large()
        if scope["method"] == "POST":
            _check_post(headers)
        self._check_room(scope["path"])

    def _record(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route = _route(scope)
        self._metrics.count(scope["method"], route, status, seconds)
        log(
            logging.ERROR if status == 500 else logging.INFO,
            "request",
            request_id=request_id,
            method=scope["method"],
            path=scope["path"][:_LOGGED_PATH],
            route=route,
            status=status,
            milliseconds=round(1000 * seconds, 3),
            client=scope["client"][0] if scope.get("client") else None,
            failure=sys.exception(),  # a bug that is on its way out
        )


def _check_post(headers: Mapping[bytes, bytes]) -> None:
    # A page of another site can make a browser send requests here, with the password that it keeps.
    if headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
        message = "the request comes from a page of another site; only pages of this server may send it."
        raise Refusal(403, Problem(kind="cross_site", message=message))
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if has_body and headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        message = "the body must be JSON; send it with Content-Type: application/json."
        raise Refusal(415, Problem(kind="content_type", message=message))


def _limited(receive: Receive) -> Receive:
    """The body as it comes, up to its limit: not every client says beforehand how long it is."""
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY:
            raise HTTPException(413)  # the one exception that FastAPI lets through while it reads a body
        return message

    return limited


def _request_id(scope: Scope) -> str:
    """The client's own id, where it is a plain word, or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            own: str = value.decode()
            return own
    return token_hex(8)


def _route(scope: MutableMapping[str, Any]) -> str:
    """The route's pattern; addresses that no route has are all one."""
    route = getattr(scope.get("route"), "path", None)
    if isinstance(route, str):
        return route
    if scope["path"] in LANES:  # refused before it was routed
        return str(scope["path"])
    return "/static" if scope["path"].startswith("/static/") else "none"


async def send_refusal(refusal: Refusal, request_id: str, send: Send) -> None:
    """The one shape of every failure."""
    body = failure_json(refusal.problem, request_id)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in refusal.headers.items()),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def failure_json(problem: Problem, request_id: str) -> bytes:
    """The body of a failure."""
    return to_json(Failure(error=problem, request_id=request_id))
