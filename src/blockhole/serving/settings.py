"""What a server may be told, and what it allows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import final

from blockhole.compiled import MAX_THREADS, available_threads
from blockhole.errors import ConfigError, quoted
from blockhole.queries.language import MAX_HOPS

MAX_BODY = 64 * 1024
"""Bytes of a request's body."""
MAX_HEAD = 60 * 1024
"""Bytes of a request's address and headers; the parser reads no address of more than 64 KiB."""
MAX_TEXT = 16 * 1024
"""Characters of a query or of a name."""
MAX_CONNECTIONS = 1000
"""Connections at one time; below the 1,024 files that a process may have open by default."""
MAX_QUERIES = 100
"""Questions that one request may ask."""
MAX_ANSWERS, MAX_PROOFS, MAX_PATHS, MAX_NAMES, MAX_NEIGHBOURS = 1000, 100, 1000, 1000, 200
"""The most that one request can ask for."""
MAX_KNOWN, MAX_NAMED = 1_000_000, 200
"""The most known answers, which cost little, and the most entities that a request can name."""

_ORIGIN = re.compile(r"https?://[A-Za-z0-9._-]+(:[0-9]{1,5})?")
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


@final
@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server works; `api_key` None lets everybody in.

    `allowed_hosts` are names that it answers to besides its own, `trusted_proxies` the addresses or networks whose word
    is taken for where a request comes from, `cors_origins` the sites whose pages may ask /sparql. `queue` is how many
    requests may wait or be worked on, `per_caller` how many of one address, any number where it is None. `timeout` is
    how many seconds one may take, `receive_seconds` how long a client may take to send one, and `send_seconds` how long
    the response may wait for a client that does not read it.
    """

    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    max_length: int = 16
    timeout: float = 10.0
    queue: int = 128
    per_caller: int | None = None
    threads: int = field(default_factory=available_threads)
    receive_seconds: float = 10.0
    send_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not 1 <= self.max_length <= MAX_HOPS:
            raise ConfigError(f"--max-length is a number of hops from 1 to {MAX_HOPS}; it cannot be {self.max_length}.")
        for name, value in (("--timeout", self.timeout), ("--queue", self.queue), ("--threads", self.threads)):
            if not value > 0:
                raise ConfigError(f"{name} must be a number above zero.")
        if self.threads > MAX_THREADS:
            raise ConfigError(f"--threads must be at most {MAX_THREADS}, not {quoted(self.threads)}.")
        if self.per_caller is not None and self.per_caller < 1:
            raise ConfigError("--per-caller must be a number above zero.")
        for host in self.allowed_hosts:
            if not _HOST_NAME.fullmatch(host):
                raise ConfigError(
                    "--allowed-host is a name without scheme and port, such as kg.example.org; "
                    f"it cannot be {quoted(host)}."
                )
        for origin in self.cors_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    "--cors-origin is a scheme and a host, such as https://yasgui.example.org, without a path; "
                    f"it cannot be {quoted(origin)}."
                )
        for proxy in self.trusted_proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise ConfigError(
                    f"--trusted-proxy is an address or network, such as 127.0.0.1 or 10.0.0.0/8, not {quoted(proxy)}."
                ) from None


def read_key(path: Path) -> str:
    """The API key in a file."""
    try:
        key = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "it is not text in UTF-8"
        raise ConfigError(f"the API key in {path} cannot be read ({reason}); name a file that holds it.") from None
    return check_key(key, str(path))


def check_key(key: str, where: str) -> str:
    """Refuse a key that would let anybody in, or nobody."""
    if not key or not key.isprintable() or " " in key:
        raise ConfigError(
            f"the API key in {where} is empty or holds spaces; write one word, preferably of random letters."
        )
    return key
