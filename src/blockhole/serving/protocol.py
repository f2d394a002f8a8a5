"""The HTTP protocol with patience that ends: slow clients, endless headers and too many connections are cut off.

uvicorn limits none of these by itself. A client that sends a byte a second would hold a connection for ever.
"""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Any, final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from blockhole.serving.front import SECURITY_HEADERS, failure_json
from blockhole.serving.schemas import Problem
from blockhole.serving.settings import MAX_CONNECTIONS, MAX_HEAD


class ImpatientProtocol(HttpToolsProtocol):
    """A request must be complete within `receive_seconds` of its beginning, a first one of the connection's."""

    receive_seconds = 10.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._patience: asyncio.TimerHandle | None = None
        self._head: int | None = 0  # bytes of a head that is not complete; None behind it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, if there is room for one more connection."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(503, "busy", "the server has as many connections as it can hold; ask again in a second.")
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head has grown too long."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            self._check_head(self._head)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._head = 0
        self._wait()

    def on_headers_complete(self) -> None:
        """The head has come; one that came at once has not been measured yet."""
        self._head = None
        self._check_head(len(self.url) + sum(len(name) + len(value) for name, value in self.headers))
        if not self.transport.is_closing():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body, if the head was taken."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The whole request has come."""
        self._stop_waiting()
        if not self.transport.is_closing():
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the shape of all refusals."""
        self._refuse(400, "malformed", "this is no HTTP request that can be understood.")

    def _check_head(self, length: int) -> None:
        if length > MAX_HEAD:
            self._refuse(431, "too_large", f"the address and headers may have {MAX_HEAD:,} bytes at most.")

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.receive_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
            return
        self._refuse(408, "timeout", f"the request did not arrive within {self.receive_seconds:g} s.")

    def _refuse(self, status: int, kind: str, message: str) -> None:
        if self.transport.is_closing():
            return
        request_id = token_hex(8)
        body = failure_json(Problem(kind=kind, message=message), request_id)
        headers = [
            *SECURITY_HEADERS,
            (b"x-request-id", request_id.encode()),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        if status == 503:
            headers.append((b"retry-after", b"1"))
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()


def impatient(receive_seconds: float) -> type[ImpatientProtocol]:
    """The protocol with this much patience; uvicorn makes one for each connection."""

    @final
    class Configured(ImpatientProtocol):
        pass

    Configured.receive_seconds = receive_seconds
    return Configured
