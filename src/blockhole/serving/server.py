"""The process: a socket, the runs, and an orderly end."""

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
from typing import final

from uvicorn import Config, Server

from blockhole.errors import ConfigError
from blockhole.serving.app import build_app
from blockhole.serving.observing import Metrics, log, write_json_logs
from blockhole.serving.protocol import impatient
from blockhole.serving.routes import State
from blockhole.serving.runs import Runs, ServedRun, names_of
from blockhole.serving.schemas import Refusal
from blockhole.serving.service import Service
from blockhole.serving.settings import ServerSettings

_KEEP_ALIVE = 30
_BACKLOG = 2048
_SWITCH = 0.0005
"""Seconds that a thread may keep Python's lock while others want it. Threads that work give it up at every product and
ask for it again: at the usual 5 ms, a loop busy with refusing requests would leave them almost none."""


@final
class _OrderlyServer(Server):
    """uvicorn's server with our signals: SIGTERM and Ctrl-C let requests finish, then the end is 0; SIGHUP reloads."""

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
            loop.add_signal_handler(number, self.handle_exit, number, None)
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, self._start_reload)
        yield

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


def serve(
    folders: Sequence[Path],
    host: str,
    port: int,
    settings: ServerSettings,
    ready: Callable[[str, tuple[str, ...]], None],
) -> None:
    """Serve the runs in `folders` until a signal ends it; `ready` is told the address and the names of the runs."""
    import torch

    names = names_of(folders)
    write_json_logs()
    with listen(host, port) as listening:
        torch.set_num_threads(1)  # requests are what runs side by side; more threads would only take turns
        sys.setswitchinterval(_SWITCH)
        runs = Runs([ServedRun.load(name, folder) for name, folder in zip(names, folders, strict=True)])
        metrics = Metrics()
        state = State(runs, Service(settings, metrics), metrics)
        _warn_if_open(host, settings)
        config = Config(
            build_app(state, settings),
            http=impatient(settings.receive_seconds),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
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
        raise ConfigError(f"{host!r} is no address of this machine; name one with --host, such as 127.0.0.1.") from None
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
    if settings.api_key is None and host not in ("127.0.0.1", "localhost", "::1"):
        message = "the server can be reached from other machines and has no API key; set one with --api-key-file"
        log(logging.WARNING, message, host=host)
