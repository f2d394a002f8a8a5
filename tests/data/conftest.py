"""A real HTTP server on this machine that can misbehave, and a cache of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest


@dataclass
class Site:
    """What the server holds and how it behaves; `requests` logs (path, Range header or None)."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    knows_ranges: bool = True
    cuts: list[int | None] = field(default_factory=list)  # bytes to send before hanging up, one entry a request
    failures: list[int] = field(default_factory=list)  # status codes to answer first
    requests: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    """A running server, named by BLOCKHOLE_MIRROR, with an empty cache and no folder of data sets."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            served.requests.append((self.path, wanted))
            body = served.files.get(self.path.lstrip("/"))
            if body is None or served.failures:
                self.send_error(404 if body is None else served.failures.pop(0))
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and served.knows_ranges else 0
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            cut = served.cuts.pop(0) if served.cuts else None
            self.wfile.write(body[start:] if cut is None else body[start : start + cut])

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Site(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("BLOCKHOLE_MIRROR", served.address)
    monkeypatch.setenv("BLOCKHOLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BLOCKHOLE_DATA", raising=False)
    yield served
    server.shutdown()
    thread.join()
    server.server_close()
