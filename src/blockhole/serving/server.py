"""The process: a socket, connections whose patience ends, the runs, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EADDRINUSE
from math import ceil
from pathlib import Path
from secrets import token_hex
from time import perf_counter
from typing import Any, final

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from blockhole.errors import ConfigError, quoted
from blockhole.machine import use_one_torch_thread
from blockhole.serving.app import State, build_app
from blockhole.serving.front import SECURITY_HEADERS, failure_json, is_loopback
from blockhole.serving.observing import Metrics, Observed, log, write_json_logs
from blockhole.serving.schemas import Problem, Refusal
from blockhole.serving.served_runs import ServedRun, ServedRuns, names_of
from blockhole.serving.service import Service
from blockhole.serving.settings import MAX_CONNECTIONS, MAX_HEAD, ServerSettings

_KEEP_ALIVE = 30
_BACKLOG = 2048
_SWITCH = 0.0005
"""Seconds that a thread may keep Python's lock while others want it. Threads that work give it up at every product and
ask for it again: at the usual 5 ms, a loop busy with refusing requests would leave them almost none."""


def serve(
    folders: Sequence[Path],
    host: str,
    port: int,
    settings: ServerSettings,
    ready: Callable[[str, tuple[str, ...]], None],
) -> None:
    """Serve the runs in `folders` until a signal ends it; `ready` is told the address and the names of the runs."""
    names = names_of(folders)
    write_json_logs()
    with listen(host, port) as listening:
        use_one_torch_thread()  # requests are what runs side by side; more threads would only take turns
        sys.setswitchinterval(_SWITCH)
        runs = ServedRuns([ServedRun.load(name, folder) for name, folder in zip(names, folders, strict=True)])
        metrics = Metrics()
        state = State(runs, Service(settings, metrics), metrics)
        _warn_if_open(host, settings)
        config = Config(
            build_app(state, settings, host),
            http=impatient(settings, metrics),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),  # anybody can write them
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=ceil(settings.timeout) + 1,
        )
        server = _OrderlyServer(config, lambda: ready(_url(listening), runs.names), state)
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(server.serve([listening]))


def listen(host: str, port: int) -> socket.socket:
    """A socket that clients can connect to at once; they are answered when the runs are loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise ConfigError(
            f"{quoted(host)} is not an address of this machine; name one with --host, such as 127.0.0.1."
        ) from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as failure:
        listening.close()
        if failure.errno == EADDRINUSE:
            raise ConfigError(
                f"port {port} of {host} is in use; name another with --port, or 0 for a free one."
            ) from None
        raise ConfigError(f"port {port} of {host} cannot be opened ({failure.strerror}); name another.") from None
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _warn_if_open(host: str, settings: ServerSettings) -> None:
    if settings.api_key is None and not is_loopback(host):
        message = "the server can be reached from other machines and has no API key; set one with --api-key-file"
        log(logging.WARNING, message, host=host)


@final
class _OrderlyServer(Server):
    """uvicorn's server with our signals: SIGTERM and Ctrl-C let requests finish, then the end is 0; SIGHUP reloads.

    A second signal changes nothing: a request takes no longer than the time allowed, and then the end comes anyway.
    """

    def __init__(self, config: Config, ready: Callable[[], None], state: State) -> None:
        super().__init__(config)
        self._ready = ready
        self._state = state
        self._reloads: set[asyncio.Task[None]] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Listen to signals while the server runs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end)
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._start_reload)
        yield

    def _end(self) -> None:
        self.should_exit = True

    def _start_reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        for name in self._state.runs.names:
            with suppress(Refusal):  # it is in the log, and the old run goes on
                await self._state.reload(name)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


# Connections. uvicorn limits by itself neither how long a client takes to send a request, nor how long its head is, nor
# how long the response waits to be read: a byte a second, or none, would hold a connection for ever.


@final
class _Joining:
    """A transport that sends what is written in one go together: uvicorn writes head and body of a response apart.

    Each of them would be a packet, and wake whoever reads.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._pending)) + self._transport.get_write_buffer_size()

    def flush(self) -> None:
        if self._pending:
            self._transport.write(b"".join(self._pending))
            self._pending.clear()


class ImpatientProtocol(HttpToolsProtocol):
    """A request must be complete within `receive_seconds` of its beginning, a first one of the connection's.

    What a client leaves unread for `send_seconds` is dropped, and the connection with it.
    """

    receive_seconds: float
    send_seconds: float
    metrics: Metrics

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._arriving: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None
        self._began = perf_counter()
        self._is_request = False  # whether one has begun and not yet come as a whole
        self._head: int | None = 0  # bytes of a head that is not complete; None behind it
        self._is_behind_another = False  # whether what came last held the end of the request before

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, if there is room for one more connection."""
        super().connection_made(_Joining(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(503, "busy", "the server has as many connections as it can hold; ask again in a second.")
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer; whoever still has something to say to this client is told that it is gone."""
        self._stop_waiting()
        if self._answering is not None:  # uvicorn tells the last request alone, which others may wait before
            self._answering.disconnected = True
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    # Requests.

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head has grown too long."""
        if self.transport.is_closing():
            return
        self._is_behind_another = False
        super().data_received(data)
        if self._head is not None and not self._is_behind_another:
            self._head += len(data)
            self._check_head(self._head)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._head, self._is_request = 0, True
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
        self._is_request, self._is_behind_another = False, True
        if not self.transport.is_closing():
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the shape of all refusals."""
        self._refuse(400, "malformed", "the request is not valid HTTP; see RFC 9110.")

    def _check_head(self, length: int) -> None:
        if length > MAX_HEAD:
            self._refuse(431, "too_large", f"the address and headers may have {MAX_HEAD:,} bytes at most.")

    def _wait(self) -> None:
        if self._arriving is None:
            self._began = perf_counter()
            self._arriving = self.loop.call_later(self.receive_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _give_up(self) -> None:
        self._arriving = None
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
            return
        self._refuse(408, "timeout", f"the request did not arrive within {self.receive_seconds:g} s.")

    # Responses.

    def pause_writing(self) -> None:
        """The client does not read as fast as we write."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """It has read some."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def on_response_complete(self) -> None:
        """All is written; what the system has not taken yet, the client has to make room for."""
        self.transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()  # what came with this request is answered before more is read
        self._expect_reading()

    def _expect_reading(self) -> None:
        if self._unread is None and self.transport.get_write_buffer_size() > 0:
            self._unread = self.loop.call_later(self.send_seconds, self._drop_unread)

    def _drop_unread(self) -> None:
        self._unread = None
        if self.transport.get_write_buffer_size() > 0:
            log(logging.INFO, "response not read", client=self.client and self.client[0], seconds=self.send_seconds)
            self.transport.abort()  # to close it would wait for the client again

    def _refuse(self, status: int, kind: str, message: str) -> None:
        """Answer what never reaches the application, in the shape of all refusals, and close the connection."""
        if self.transport.is_closing():
            return
        request_id = token_hex(8)
        body = failure_json(Problem(kind=kind, message=message), request_id)
        headers = [
            *SECURITY_HEADERS,
            (b"cache-control", b"no-store"),
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
        self._expect_reading()
        method, path = None, None
        if self._is_request:
            method, path = self.scope.get("method"), self.url.partition(b"?")[0].decode("latin-1") or None
        client = self.client[0] if self.client else None
        Observed(request_id, method, path, "none", status, perf_counter() - self._began, client).record(self.metrics)


def impatient(settings: ServerSettings, metrics: Metrics) -> type[ImpatientProtocol]:
    """The protocol with this much patience; uvicorn makes one for each connection."""

    @final
    class Configured(ImpatientProtocol):
        pass

    Configured.receive_seconds = settings.receive_seconds
    Configured.send_seconds = settings.send_seconds
    Configured.metrics = metrics
    return Configured
