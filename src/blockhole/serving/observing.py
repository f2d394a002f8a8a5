"""What a server tells about itself: structured logs and Prometheus metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

# Logs: one JSON object a line on standard error.

logger = logging.getLogger("blockhole.serving")
_LOGGERS = (
    ("blockhole.serving", logging.INFO),
    ("uvicorn", logging.ERROR),  # what it warns about is requests, which we log ourselves
    ("asyncio", logging.ERROR),
    ("", logging.WARNING),  # all others
)
_LOGGED_PATH = 200


@final
class _JsonLines(logging.Formatter):
    """A record as JSON: time, level, event, and whatever came as its `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


@final
class _Together(logging.StreamHandler[TextIO]):
    """Writes the lines that one turn of the loop brings at once, and whatever is worse than news without delay.

    To write is to let go of Python's lock, and threads that work give it back late: a write for each request was a
    sixth of what the loop did.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line, under the handler's lock."""
        try:
            self._lines.append(self.format(record) + self.terminator)
        except (TypeError, ValueError):
            self.handleError(record)
        loop = asyncio._get_running_loop()
        if loop is None or record.levelno > logging.INFO:
            self.flush()
        elif len(self._lines) == 1:
            loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what there is."""
        with self.lock or nullcontext():
            lines, self._lines = self._lines, []
            with suppress(OSError, ValueError):  # nobody reads any more, or the stream is closed
                self.stream.write("".join(lines))
                self.stream.flush()


def log(level: int, event: str, *, failure: BaseException | None = None, **fields: object) -> None:
    """Write one line, with the traceback of a failure."""
    logger.log(level, event, exc_info=failure, extra={"fields": fields})


def write_json_logs() -> None:
    """Send our log, uvicorn's, and warnings to standard error as JSON lines."""
    # What a line does not say need not be found out for it, as the documentation of logging advises.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = _Together(sys.stderr)
    handler.setFormatter(_JsonLines())
    for name, level in _LOGGERS:
        named = logging.getLogger(name)
        named.handlers = [handler]
        named.setLevel(level)
        named.propagate = False
    warnings.showwarning = _log_warning


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    log(logging.WARNING, str(message), category=category.__name__)


# Metrics, as Prometheus reads them.

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


@final
class Metrics:
    """Counters of one server, in a registry of their own. Labels take few values: routes, never addresses."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._requests = Counter(
            "blockhole_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "blockhole_request_seconds",
            "Time from a request's headers to its response.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._lane = Gauge(
            "blockhole_lane_requests", "Requests that wait or are worked on.", ("lane",), registry=self._registry
        )
        self.batch = Histogram(
            "blockhole_batch_questions",
            "Questions that were answered together.",
            buckets=(1, 2, 4, 8, 16, 32),
            registry=self._registry,
        )
        self._reloads = Counter(
            "blockhole_reloads", "Runs that were loaded anew.", ("run", "outcome"), registry=self._registry
        )

    def watch(self, lanes: Mapping[str, Callable[[], int]]) -> None:
        """Read the size of each lane whenever the figures are asked for."""
        for name, size in lanes.items():
            self._lane.labels(name).set_function(size)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = method if method in _METHODS else "other", route, status
        if key not in self._children:  # finding them takes longer than counting
            self._children[key] = self._requests.labels(key[0], route, str(status)), self._seconds.labels(route)
        requests, times = self._children[key]
        requests.inc()
        times.observe(seconds)

    def count_reload(self, run: str, succeeded: bool) -> None:
        """Count an attempt to load a run anew."""
        self._reloads.labels(run, "loaded" if succeeded else "failed").inc()

    def text(self) -> bytes:
        """All figures."""
        return generate_latest(self._registry)


@final
@dataclass(frozen=True, slots=True)
class Observed:
    """A request and its end, as log and metrics tell it; what never became a request has neither method nor path."""

    request_id: str
    method: str | None
    path: str | None
    route: str
    status: int
    seconds: float
    client: str | None

    def record(self, metrics: Metrics, failure: BaseException | None = None) -> None:
        """Count it, and write one line, with the traceback of a bug."""
        metrics.count(self.method or "other", self.route, self.status, self.seconds)
        log(
            logging.ERROR if self.status == 500 else logging.INFO,
            "request",
            request_id=self.request_id,
            method=self.method,
            path=None if self.path is None else self.path[:_LOGGED_PATH],
            route=self.route,
            status=self.status,
            milliseconds=round(1000 * self.seconds, 3),
            client=self.client,
            failure=failure,
        )
