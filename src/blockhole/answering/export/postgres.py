"""A run in PostgreSQL with pgvector: the candidate vectors of its entities, its relations, and its settings.

Table `blockhole_entity` has the columns id, name and vector. With q from `Engine.query_vector`, or from a
`DatabaseQueries` that knows nothing but the database, the answers over all entities are::

    SELECT name, -(vector <#> %(q)s) AS score FROM blockhole_entity ORDER BY vector <#> %(q)s LIMIT 10

pgvector's <#> is the negative inner product, so that ascending order is best first. Beside it stand
`blockhole_entity_relation` (id, name, inverse, parameters: what a hop multiplies with) and `blockhole_entity_model`
(settings: the model section of config.json).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blockhole.answering.engine import Engine
from blockhole.answering.export.connection import connected
from blockhole.errors import ExportError

if TYPE_CHECKING:
    from psycopg import Connection

TABLE = "blockhole_entity"
RELATIONS = "_relation"
MODEL = "_model"
"""What is added to the name of the table of entities."""

_COLUMNS = {
    "": ["id", "name", "vector"],
    RELATIONS: ["id", "name", "inverse", "parameters"],
    MODEL: ["settings"],
}
_WIDEST = 16_000
"""Numbers that pgvector's type `vector` holds at most."""


def export_postgres(engine: Engine, address: str, table: str = TABLE, partitions: int = 1) -> int:
    """Write a run to `table` of the database at `address`, replacing an earlier export; how many entities there are.

    Entities are spread over `partitions` by a hash of their names: each is a table of its own, with indexes of its own,
    which may lie on another disk or, as a foreign table, on another server. It is one transaction: readers see the old
    tables until the new ones are complete, and a failure leaves the old ones.
    """
    vectors = engine.index.vectors.numpy()
    if vectors.shape[1] > _WIDEST:
        raise ExportError(f"pgvector holds vectors of {_WIDEST:,} numbers at most; these have {vectors.shape[1]:,}.")
    with connected(address, "the database refused the export ({}); it is as it was before.") as connection:
        from pgvector.psycopg import register_vector
        from psycopg.sql import SQL, Identifier

        _require_pgvector(connection)
        register_vector(connection)
        for suffix, columns in _COLUMNS.items():
            _drop_earlier(connection, table + suffix, columns)
        _create_entities(connection, table, vectors.shape[1], partitions)
        with (
            connection.cursor() as cursor,
            cursor.copy(
                SQL("COPY {} (id, name, vector) FROM STDIN WITH (FORMAT BINARY)").format(Identifier(table))
            ) as copy,
        ):
            copy.set_types(["int4", "text", "vector"])
            for entity, row in enumerate(vectors):
                copy.write_row((entity, engine.graph.entities[entity], row))
        # Of hashes, since a name may be longer than a sorted index takes; a row is asked for by its whole name.
        connection.execute(SQL("CREATE INDEX ON {} USING hash (name)").format(Identifier(table)))
        _write_relations(connection, table + RELATIONS, engine)
        _write_model(connection, table + MODEL, engine)
    return len(vectors)


def _create_entities(connection: Connection[Any], table: str, width: int, partitions: int) -> None:
    from psycopg.sql import SQL, Identifier, Literal

    if partitions == 1:
        connection.execute(
            SQL("CREATE TABLE {} (id integer PRIMARY KEY, name text NOT NULL, vector vector({}) NOT NULL)").format(
                Identifier(table), Literal(width)
            )
        )
        return
    # By names, since a row is asked for by its name.
    connection.execute(
        SQL(
            "CREATE TABLE {} (id integer NOT NULL, name text NOT NULL, vector vector({}) NOT NULL) "
            "PARTITION BY HASH (name)"
        ).format(Identifier(table), Literal(width))
    )
    for part in range(partitions):
        connection.execute(
            SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {})").format(
                Identifier(f"{table}_{part}"), Identifier(table), Literal(partitions), Literal(part)
            )
        )


def _write_relations(connection: Connection[Any], table: str, engine: Engine) -> None:
    """The parameters of every relation that has some of its own: inverses too, unless they are tied."""
    from psycopg.sql import SQL, Identifier

    connection.execute(
        SQL(
            "CREATE TABLE {} (id integer PRIMARY KEY, name text NOT NULL, inverse boolean NOT NULL, "
            "parameters real[] NOT NULL)"
        ).format(Identifier(table))
    )
    rows = engine.vectors.operators.relation.detach().float().tolist()
    with connection.cursor() as cursor:
        cursor.executemany(
            SQL("INSERT INTO {} VALUES (%s, %s, %s, %s)").format(Identifier(table)),
            [(relation, *engine.graph.relation_name(relation), row) for relation, row in enumerate(rows)],
        )


def _write_model(connection: Connection[Any], table: str, engine: Engine) -> None:
    from psycopg.sql import SQL, Identifier
    from psycopg.types.json import Jsonb

    connection.execute(SQL("CREATE TABLE {} (settings jsonb NOT NULL)").format(Identifier(table)))
    settings = Jsonb(engine.vectors.settings.model_dump(mode="json"))
    connection.execute(SQL("INSERT INTO {} VALUES (%s)").format(Identifier(table)), (settings,))


def _require_pgvector(connection: Connection[Any]) -> None:
    available = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if available is None:
        raise ExportError(
            "the database server lacks the extension pgvector; install it there (its package is called "
            "postgresql-NN-pgvector on Debian), then export again."
        )
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")


def _drop_earlier(connection: Connection[Any], table: str, columns: list[str]) -> None:
    """Drop an earlier export of the same name, but no table that is something else."""
    from psycopg.sql import SQL, Identifier

    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(%s)) AND attnum > 0 "
        "AND NOT attisdropped ORDER BY attnum",
        (table,),
    ).fetchall()
    if [name for (name,) in found] not in ([], columns):
        raise ExportError(f"the database has a table {table} that is no export of a run; choose another with --table.")
    connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(table)))
