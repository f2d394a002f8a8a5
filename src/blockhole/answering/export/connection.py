"""A connection to PostgreSQL whose failures are one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from blockhole.errors import ExportError, MissingExtra

if TYPE_CHECKING:
    from psycopg import Connection


@contextmanager
def connected(address: str, refused: str) -> Iterator[Connection[Any]]:
    """One transaction, committed at the end; where the database refuses something, `refused` says so, {} being why."""
    try:
        import pgvector
        import psycopg
    except ImportError:
        raise MissingExtra("talking to PostgreSQL", "postgres") from None
    del pgvector
    try:
        connection = psycopg.connect(address, connect_timeout=10)
    except psycopg.Error as failure:
        raise ExportError(
            f"cannot reach the database ({_first_line(failure)}); check the address and that the server is running."
        ) from None
    try:
        with connection:
            yield connection
    except psycopg.Error as failure:  # also of the commit
        raise ExportError(refused.format(_first_line(failure))) from None


def _first_line(failure: Exception) -> str:
    return str(failure).strip().splitlines()[0] if str(failure).strip() else type(failure).__name__
