"""What every request passes on its way in and out: host, origin, key, limits, headers, log and metrics."""

from __future__ import annotations

import sys
from base64 import b64decode
from binascii import Error as NotBase64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from re import compile as pattern
from secrets import token_hex
from socket import gethostname
from time import perf_counter
from typing import Any, final
from urllib.parse import quote, urlsplit

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blockhole.errors import counted, listed, quoted
from blockhole.serving.observing import Metrics, Observed
from blockhole.serving.schemas import RETRY, Failure, Problem, Refusal, malformed, too_large
from blockhole.serving.service import LANES
from blockhole.serving.settings import MAX_BODY

_REQUEST_ID = pattern(rb"[A-Za-z0-9._-]{1,64}")
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

SPARQL = "/sparql"
SPARQL_BODIES = (b"application/sparql-query", b"application/x-www-form-urlencoded")
_JSON = b"application/json"

Headers = dict[bytes, bytes]


@final
class Front:
    """The outermost layer: nothing that the application does, not even a bug, gets past its headers and its log."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        hosts: Hosts,
        key: ApiKey | None,
        callers: Callers,
        check_room: Callable[[str], None],
        cors: Sequence[str] = (),
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._hosts = hosts
        self._key = key
        self._callers = callers
        self._check_room = check_room
        self._cors = frozenset(origin.lower().encode() for origin in cors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, if it may enter."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 500
        request_id = _request_id(scope)
        # HEAD is GET to the routes; the server below keeps the body back.
        inner = {**scope, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        inner["path"], announced = _versioned(scope["path"])
        inner["state"] = {**scope.get("state", {}), "request_id": request_id, "method": scope["method"]}
        origin = self._foreign_origin(scope)

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", []))
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                own = (b"x-request-id", request_id.encode())
                headers = [*headers, own, *announced, *SECURITY_HEADERS]
                message["headers"] = headers if origin is None else _readable_by(origin, headers)
            await send(message)

        try:
            try:
                if origin is not None and scope["method"] == "OPTIONS":
                    await _send_preflight(observed)
                    return
                self._admit(scope, foreign=origin is not None)
                self._check_room(inner["path"])
                with self._callers.admitted(scope):
                    await self._app(inner, _limited(receive), observed)
            except Refusal as refusal:
                await send_refusal(refusal, request_id, observed)
        finally:
            client = scope["client"][0] if scope.get("client") else None
            seconds = perf_counter() - began
            request = Observed(request_id, scope["method"], scope["path"], _route(inner), status, seconds, client)
            request.record(self._metrics, sys.exception())  # a bug that is on its way out

    def _foreign_origin(self, scope: Scope) -> bytes | None:
        """The site whose page asks, where it is one that may."""
        origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
        return origin if scope["path"] == SPARQL and origin is not None and origin.lower() in self._cors else None

    def _admit(self, scope: Scope, *, foreign: bool) -> None:
        headers = dict(scope["headers"])
        self._hosts.check_host([value for name, value in scope["headers"] if name == b"host"], scope["http_version"])
        if self._key is not None and scope["path"] != _OPEN:
            self._key.require(scope["headers"])
        if not foreign:
            self._hosts.check_origin(headers, scope["method"], scope["path"])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > MAX_BODY:
            raise too_large()
        if scope["method"] == "POST":
            _check_content_type(headers, SPARQL_BODIES if scope["path"] == SPARQL else (_JSON,))


_API, _VERSION = "/api/", "/api/v1/"
_DEPRECATED = b"@1794873600"
"""Since when addresses without a version are deprecated, as RFC 9745 writes it: 17 November 2026."""


def _versioned(path: str) -> tuple[str, list[tuple[bytes, bytes]]]:
    """The path with the version that it means, and headers that say so where it names none."""
    if not path.startswith(_API) or path.startswith(_VERSION):
        return path, []
    path = _VERSION + path.removeprefix(_API)
    link = f'<{quote(path)}>; rel="successor-version"'
    return path, [(b"deprecation", _DEPRECATED), (b"link", link.encode("ascii"))]


# Pages of other sites that may read answers.


def _readable_by(origin: bytes, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response that pages of another site may read; without the passwords that a browser keeps."""
    shared = [each for each in headers if each[0] != b"cross-origin-resource-policy"]
    return [
        *shared,
        (b"cross-origin-resource-policy", b"cross-origin"),
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"x-request-id, x-complete, retry-after"),
        (b"vary", b"Origin"),
    ]


async def _send_preflight(send: Send) -> None:
    """What a browser asks before it lets such a page send anything but a plain form."""
    headers = [
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", b"accept, authorization, content-type, x-api-key"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


# Where a request was sent to, and which page sent it.


@final
class Hosts:
    """The hosts that this server is, as requests name them.

    A page of another site can let its own name lead to this machine (DNS rebinding) and would then be of one origin
    with this server, but for the name in the header Host. So a name must be this server's: localhost, the one that it
    was told to listen on, this machine's own where others can reach it, and those that are `allowed`. An address is no
    such name, and always right.
    """

    def __init__(self, bound: str, allowed: Sequence[str] = ()) -> None:
        self._allowed = {name.lower() for name in allowed}
        self._names = {"localhost", bound.lower(), *self._allowed}
        if not is_loopback(bound):
            self._names.add(gethostname().lower())

    def check_host(self, given: Sequence[bytes], http_version: str) -> None:
        """Refuse a request to another host than this."""
        if not given and http_version == "1.0":
            return
        if len(given) != 1:
            raise malformed("a request has one Host header; this one has " + (f"{len(given)}." if given else "none."))
        name = _host_name(given[0].decode("latin-1"))
        if name not in self._names and not _is_address(name):
            message = f"this server is not {quoted(name)}; where it should be, start it with --allowed-host NAME."
            raise Refusal(421, Problem(kind="wrong_host", message=message))

    def check_origin(self, headers: Headers, method: str, path: str) -> None:
        """Refuse what a page of another site sends: the browser would add the password that it keeps."""
        site = headers.get(b"sec-fetch-site", b"none")  # sent to https and to localhost alone
        navigates = method in ("GET", "HEAD") and headers.get(b"sec-fetch-mode") == b"navigate"
        asks = method not in ("GET", "HEAD") or path.startswith(("/api/", SPARQL))
        foreign = asks and not navigates and site not in (b"same-origin", b"none")
        origin = headers.get(b"origin")
        if foreign or (origin is not None and not self._is_own(origin.decode("latin-1"), headers.get(b"host", b""))):
            message = "the request comes from a page of another site; only pages of this server may send it."
            raise Refusal(403, Problem(kind="cross_site", message=message))

    def _is_own(self, origin: str, host: bytes) -> bool:
        """Whether an origin is the host that was asked; behind a proxy that renames it, whether it is allowed."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        default = {"http": ":80", "https": ":443"}.get(parts.scheme)
        if default is None or not parts.netloc:
            return False
        asked = host.decode("latin-1").lower().removesuffix(default)
        authority = parts.netloc.lower().removesuffix(default)
        return authority == asked or _host_name(authority) in self._allowed


def is_loopback(host: str) -> bool:
    """Whether a name or address is reached from this machine alone."""
    return host.lower() == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _host_name(authority: str) -> str:
    """The name or address in `name:port`, in small letters, without brackets and a closing dot."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


# Who may ask.

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


@final
class Callers:
    """How many requests each caller has in progress: none may have more than `most`, so that others find room."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._busy: Counter[str] = Counter()

    @contextmanager
    def admitted(self, scope: Scope) -> Iterator[None]:
        """Let a request in, if its caller has not too many already."""
        caller = scope["client"][0] if scope.get("client") else ""
        if self._most is not None and self._busy[caller] >= self._most:
            message = f"this address has {counted(self._most, 'request')} in progress; wait for one to end."
            raise Refusal(429, Problem(kind="too_many", message=message), RETRY)
        self._busy[caller] += 1
        try:
            yield
        finally:
            self._busy[caller] -= 1
            if not self._busy[caller]:
                del self._busy[caller]


# What a request may hold.


def _check_content_type(headers: Headers, allowed: Sequence[bytes]) -> None:
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if has_body and headers.get(b"content-type", b"").partition(b";")[0].strip().lower() not in allowed:
        message = "the body must be JSON; send it with Content-Type: application/json."
        if allowed is SPARQL_BODIES:
            kinds = " or ".join(kind.decode() for kind in SPARQL_BODIES)
            message = f"the body is a query or a form that holds one; send it with Content-Type: {kinds}."
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


def negotiated(accept: Sequence[str], offers: Sequence[str]) -> str:
    """The kind of content that a request likes best by its headers Accept; of equals, the first that is offered."""
    if not accept:
        return offers[0]
    liked: dict[str, float] = {}
    for part in ",".join(accept).split(","):
        kind, *parameters = (word.strip().lower() for word in part.split(";"))
        versioned = next((f"{kind};{each}" for each in parameters if each.startswith("version=")), kind)
        kind = versioned if versioned in offers else kind
        weight = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        try:
            liked[kind] = float(weight)
        except ValueError:
            liked[kind] = 0.0

    def weight_of(offer: str) -> float:  # what is named more closely counts
        kinds = (offer, f"{offer.partition('/')[0]}/*", "*/*")  # of a newer version only where it is named
        return next((liked[kind] for kind in kinds if kind in liked), 0.0)

    best = max(offers, key=weight_of)
    if weight_of(best) <= 0:
        message = f"Accept names none of the kinds of content that there are; these are {listed(offers, 'and')}."
        raise Refusal(406, Problem(kind="not_acceptable", message=message))
    return best


# What a response says of its request.


def _request_id(scope: Scope) -> str:
    """The client's own id, where it is a plain word, or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            own: str = value.decode()
            return own
    if not _NEW_IDS:
        drawn = token_hex(8 * _DRAWN)
        _NEW_IDS.extend(drawn[16 * number : 16 * (number + 1)] for number in range(_DRAWN))
    return _NEW_IDS.pop()


_NEW_IDS: list[str] = []
_DRAWN = 256
"""Ids that are drawn at once: a draw lets go of Python's lock, and for each request took a tenth of the loop's time."""


def _route(scope: MutableMapping[str, Any]) -> str:
    """The route's pattern; addresses that no route has are all one, and so are the page's files."""
    if scope["path"].startswith("/static/"):
        return "/static"
    route = getattr(scope.get("route"), "path", None)
    if isinstance(route, str):
        return route
    return str(scope["path"]) if scope["path"] in LANES else "none"  # refused before it was routed


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
