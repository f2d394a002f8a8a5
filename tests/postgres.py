"""A real PostgreSQL with pgvector, however long it takes to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The address of a server whose data lie in `folder`; both end with the block."""
    pgserver = pytest.importorskip("pgserver")
    pg_ctl = pgserver.postgres_server.pg_ctl

    def start(arguments: list[str], pgdata: Path, user: str | None, timeout: int) -> str:
        output: str = pg_ctl(arguments, pgdata=pgdata, user=user)
        return output

    with pytest.MonkeyPatch.context() as patched:
        # pgserver gives the server ten seconds to start, which a busy machine may not have; pg_ctl can wait longer.
        patched.setattr(pgserver.postgres_server, "pg_ctl", start)
        patched.setenv("PGCTLTIMEOUT", "600")
        database = pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield database.get_uri()
    finally:
        database.cleanup()
