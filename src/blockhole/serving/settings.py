"""What a server may be told, and what it allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from blockhole.answering.engine import MAX_HOPS
from blockhole.compiled import available_threads
from blockhole.errors import ConfigError

MAX_BODY = 64 * 1024
"""Bytes of a request's body."""
MAX_HEAD = 60 * 1024
"""Bytes of a request's address and headers; the parser reads no address of more than 64 KiB."""
MAX_TEXT = 16 * 1024
"""Characters of a query or of a name."""
MAX_CONNECTIONS = 1000
"""Connections at one time; below the 1,024 files that a process may have open by default."""
MAX_ANSWERS, MAX_CHAINS, MAX_PATHS, MAX_NAMES, MAX_NEIGHBOURS = 1000, 100, 1000, 1000, 200
"""The most that one request can ask for."""


@final
@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server works; `api_key` None lets everybody in.

    `queue` is how many requests may wait or be worked on, `timeout` how many seconds one may take, and
    `receive_seconds` how long a client may take to send one.
    """

    api_key: str | None = field(default=None, repr=False)
    max_length: int = 16
    timeout: float = 10.0
    queue: int = 128
    threads: int = field(default_factory=available_threads)
    receive_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 1 <= self.max_length <= MAX_HOPS:
            raise ConfigError(f"--max-length is a number of hops from 1 to {MAX_HOPS}; it cannot be {self.max_length}.")
        for name, value in (("--timeout", self.timeout), ("--queue", self.queue), ("--threads", self.threads)):
            if not value > 0:
                raise ConfigError(f"{name} is more than zero; it cannot be {value:g}.")
