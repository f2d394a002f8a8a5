"""The HTTP API as a target: requests, well-formed or not, to a real server over loopback."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, final
from urllib.parse import quote

from tests.fuzz.damage import damage_bytes, damage_tree, text_damage
from tests.fuzz.file_inputs import damage_query
from tests.serving.processes import ServerProcess, serving_with
from tests.serving.random_run import write_random_run

PATIENCE = 1.0
"""Seconds that the server waits for the rest of a request."""

BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/ask": {"query": "(e1/r0 & !e2/r1)/(^r1|r2)", "top": 5, "run": "run", "candidates": "all", "offset": 1},
    "/api/v1/check": {"query": "e1/r0 | e3/r1", "entity": "e2", "run": "run"},
    "/api/v1/spread": {"query": "e1/r0/r1", "candidates": "all"},
    "/api/v1/explain": {"query": "e1/r0/r1 & !e4", "entity": "e2", "top": 3},
    "/api/v1/paths": {"source": "e1", "target": "e2", "max_length": 2, "top": 5},
    "/api/v1/facets": {"query": "e1/r0", "entities": ["e2", "e3"], "run": "run"},
    "/mcp": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "ask", "arguments": {"query": "e1/r0", "top": 3, "reasons": 1}},
    },
    "/api/v1/runs/run/reload": {},
}
ADDRESSES = (
    "/",
    "/healthz",
    "/metrics",
    "/api/v1/runs",
    "/openapi.json",
    "/static/page.js",
    "/docs",
    "/api/v1/read?query=e1",
    "/api/v1/translate?query=e1/r0",
    "/api/v1/translate?sparql=SELECT%20%3Fx%20%7B%20%3Ae1%20%3Ar0%20%3Fx%20%7D",
    "/api/v1/relation?name=r0",
    "/api/v1/rules?name=^r1",
    "/api/v1/run?run=run",
    "/api/v1/map?run=run",
    "/api/v1/validation?run=run",
    "/sparql?query=SELECT%20%3Fx%20%7B%20%3Ae1%20%3Ar0%20%3Fx%20%7D&known=false&threshold=0.5&candidates=all&run=run",
    "/api/v1/entities?prefix=e&limit=5",
    "/api/v1/relations?prefix=r&after=e1/r0",
    "/api/v1/complete?text=(e1/r0%20%26%20e2/r&caret=13",
    "/api/v1/parse?query=(e1/r0/^r1%20%26%20!e2)/r2",
    "/api/v1/entity?name=e1&limit=3&offset=1&relation=^r0",
    "/api/v1/entity/e1?run=run",
)
REFUSED = (
    "/api/v1/entity/e%201",
    "/static/../../etc/passwd",
    "/api/v1/ask",
    "/api/v1/parse?query=e1/(",
    "/api/v1/searches/mine",
)
"""Addresses of nothing."""  # fmt: skip

_damage_head = text_damage(
    b"GET", b"HEAD", b"POST", b"OPTIONS", b"TRACE", b"BREW", b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0", b"\r\n",
    b"\r\n\r\n",
    b"Host: localhost\r\n", b"Host: evil.example\r\n", b"Origin: http://evil.example\r\n", b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n",
    b"ffffffff\r\n",
    b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Accept-Encoding: gzip\r\n",
    b"Authorization: Basic =\r\n", b"X-Request-ID: a b\r\n", b"If-None-Match: *\r\n", b"Range: bytes=0-\r\n",
    b"?", b"&", b"%",
    b"%00", b"%ff", b"%2e%2e", b"//", b"name=", b"limit=-1", b"limit=1e9", b"limit=1.0", b"run=x", b"caret=-1",
    b"offset=9999999999", b"%28", b"%26", b"|", b"!", b"top=",
    b"\xff", b"#",
)  # fmt: skip


@final
class ApiTarget:
    """One server for all inputs; an input is the bytes of a request, and some of what follows on the connection."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._server: ServerProcess | None = None

    def seeds(self, folder: Path) -> Sequence[dict[str, bytes]]:
        run = folder / "run"
        if not run.exists():
            write_random_run(run, E=30, R=3, facts=60)
        server = serving_with(folder / "log", run, receive_seconds=PATIENCE, timeout=5.0)
        self._server = self._held.enter_context(server)
        posts = [_post(path, json.dumps(body).encode()) for path, body in BODIES.items()]
        gets = [f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for method in ("GET", "HEAD")
                for path in (*ADDRESSES, *REFUSED)]  # fmt: skip
        return [{"request": request} for request in (*posts, *gets)]

    def damaged(self, rng: Random, files: dict[str, bytes], other: dict[str, bytes]) -> dict[str, bytes]:
        request = files["request"]
        chance = rng.random()
        if chance < 0.6:
            return {"request": _other_values(rng)}
        damage = _damage_head if chance < 0.85 else damage_bytes
        return {"request": damage(rng, request, other["request"])}

    def answer(self, request: bytes) -> int:
        """The status of the response to a request."""
        assert self._server is not None
        return int(_exchange(self._server.port, request)[9:12])

    def read(self, folder: Path) -> None:
        assert self._server is not None
        response = _exchange(self._server.port, (folder / "request").read_bytes())
        status = response[9:12]
        if response and not (response.startswith(b"HTTP/1.1 ") and (status == b"503" or not status.startswith(b"5"))):
            log = self._server.log.read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"the server answered {response[:300]!r}; its log ends in {log[-3000:]}")
        if self._server.process.poll() is not None:
            log = self._server.log.read_text(encoding="utf-8", errors="replace")
            os.write(2, log[-3000:].encode())
            os.abort()  # the server is gone: a crash

    def watched(self) -> int | None:
        assert self._server is not None
        return self._server.process.pid

    def close(self) -> None:
        """End the server."""
        self._held.close()


def _post(path: str, body: bytes) -> bytes:
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _other_values(rng: Random) -> bytes:
    """A well-formed request with values that nobody expects."""
    if rng.random() < 0.6:
        path, body = rng.choice(sorted(BODIES.items(), key=lambda item: item[0]))
        tree: Any = dict(body)
        if "query" in tree and rng.random() < 0.5:
            tree["query"] = damage_query(rng, tree["query"].encode(), b"e1/r0 & !e2").decode(errors="replace")
            return _post(path, json.dumps(tree).encode())
        for _ in range(rng.choice((1, 1, 2, 4))):
            tree = damage_tree(rng, tree)
        return _post(path, json.dumps(tree).encode(errors="surrogatepass"))
    path, _, parameters = rng.choice((*ADDRESSES, *REFUSED)).partition("?")
    pairs = [pair.partition("=")[::2] for pair in parameters.split("&") if pair]
    pairs = [(name, str(damage_tree(rng, value))) for name, value in pairs]
    text = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in pairs)
    name = quote(str(damage_tree(rng, "e1")), safe="", errors="replace")
    path = path.replace("/e1", f"/{name}")
    return f"{rng.choice(('GET', 'GET', 'HEAD', 'POST'))} {path}?{text} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def _exchange(port: int, request: bytes) -> bytes:
    """Send a request and read what comes back until the first response is whole or the server has closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        received = b""
        try:
            connection.sendall(request)
            while not _is_whole(received, request) and (piece := connection.recv(1 << 16)):
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # the server refused the rest
        return received


def _is_whole(response: bytes, request: bytes) -> bool:
    head, found, body = response.partition(b"\r\n\r\n")
    if not found:
        return False
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        return body.endswith(b"0\r\n\r\n")
    length = lower.partition(b"content-length:")[2].partition(b"\r\n")[0].strip()
    return request.lstrip(b"\r\n").startswith(b"HEAD") or not length.isdigit() or len(body) >= int(length)
