"""A real PostgreSQL with pgvector, however long it takes to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a server, which ends with the block, as its data do.

    These lie in no folder of pytest's: the server runs as another user, and whenever somebody else begins to run tests,
    pytest takes the right to enter its folders away from all others.
    """
    pgserver = pytest.importorskip("pgserver")
    pg_ctl = pgserver.postgres_server.pg_ctl

    def start(arguments: list[str], pgdata: Path, user: str | None, timeout: int) -> str:
        output: str = pg_ctl(arguments, pgdata=pgdata, user=user)
        return output

    with TemporaryDirectory() as folder:
        with pytest.MonkeyPatch.context() as patched:
            # pgserver gives the server ten seconds to start, which a busy machine may not have; pg_ctl can wait longer.
            patched.setattr(pgserver.postgres_server, "pg_ctl", start)
            patched.setenv("PGCTLTIMEOUT", "600")
            database = pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield database.get_uri()
        finally:
            database.cleanup()
