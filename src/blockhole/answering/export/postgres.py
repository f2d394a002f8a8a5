"""Candidate vectors in PostgreSQL with pgvector.

The table has the columns id, name and vector. With q from `Engine.query_vector`, the answers over all entities are::

    SELECT name, -(vector <#> %(q)s) AS score FROM blockhole_entity ORDER BY vector <#> %(q)s LIMIT 10

pgvector's <#> is the negative inner product, so that ascending order is best first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from blockhole.answering.engine import Engine
from blockhole.errors import ExportError, MissingExtra

if TYPE_CHECKING:
    from psycopg import Connection

TABLE = "blockhole_entity"
_WIDEST = 16_000
"""Numbers that pgvector's type `vector` holds at most."""


def export_postgres(engine: Engine, address: str, table: str = TABLE) -> int:
    """Write all entities to `table` of the database at `address`, replacing an earlier export; how many there are.

    It is one transaction: readers see the old table until the new one is complete, and a failure leaves the old one.
    """
    vectors = engine.index.vectors.numpy()
    if vectors.shape[1] > _WIDEST:
        raise ExportError(f"pgvector holds vectors of {_WIDEST:,} numbers at most; these have {vectors.shape[1]:,}.")
    with _connection(address) as connection:
        from pgvector.psycopg import register_vector
        from psycopg.sql import SQL, Identifier, Literal

        _require_pgvector(connection)
        register_vector(connection)
        name = Identifier(table)
        _drop_earlier(connection, table)
        connection.execute(
            SQL(
                "CREATE TABLE {} (id integer PRIMARY KEY, name text UNIQUE NOT NULL, vector vector({}) NOT NULL)"
            ).format(name, Literal(vectors.shape[1]))
        )
        with (
            connection.cursor() as cursor,
            cursor.copy(SQL("COPY {} (id, name, vector) FROM STDIN WITH (FORMAT BINARY)").format(name)) as copy,
        ):
            copy.set_types(["int4", "text", "vector"])
            for entity, row in enumerate(vectors):
                copy.write_row((entity, engine.graph.entities[entity], row))
    return len(vectors)


@contextmanager
def _connection(address: str) -> Iterator[Connection[Any]]:
    """One transaction, committed at the end; what the database refuses becomes one sentence."""
    try:
        import pgvector
        import psycopg
    except ImportError:
        raise MissingExtra("exporting to PostgreSQL", "postgres") from None
    del pgvector
    try:
        connection = psycopg.connect(address, connect_timeout=10)
    except psycopg.Error as failure:
        raise ExportError(
            f"cannot reach the database ({_first_line(failure)}); check the address and that the server is running."
        ) from None
    with connection:
        try:
            yield connection
        except psycopg.Error as failure:
            raise ExportError(
                f"the database refused the export ({_first_line(failure)}); it is as it was before."
            ) from None


def _require_pgvector(connection: Connection[Any]) -> None:
    available = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if available is None:
        raise ExportError(
            "the database server lacks the extension pgvector; install it there (its package is called "
            "postgresql-NN-pgvector on Debian), then export again."
        )
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")


def _drop_earlier(connection: Connection[Any], table: str) -> None:
    """Drop an earlier export of the same name, but no table that is something else."""
    from psycopg.sql import SQL, Identifier

    columns = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(%s)) AND attnum > 0 "
        "AND NOT attisdropped ORDER BY attnum",
        (table,),
    ).fetchall()
    names = [name for (name,) in columns]
    if names not in ([], ["id", "name", "vector"]):
        raise ExportError(f"the database has a table {table} that is no export of a run; choose another with --table.")
    connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(table)))


def _first_line(failure: Exception) -> str:
    return str(failure).strip().splitlines()[0] if str(failure).strip() else type(failure).__name__
