"""Structured logs: one JSON object a line on standard error."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from datetime import UTC, datetime
from typing import Any, TextIO, final

logger = logging.getLogger("blockhole.serving")


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


def log(level: int, event: str, *, failure: BaseException | None = None, **fields: object) -> None:
    """Write one line, with the traceback of a failure."""
    logger.log(level, event, exc_info=failure, extra={"fields": fields})


def write_json_logs() -> None:
    """Send our log, uvicorn's, and warnings to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    for name, level in (("blockhole.serving", logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.ERROR)):
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
