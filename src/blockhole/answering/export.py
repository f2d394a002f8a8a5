"""A run's vectors for other tools: Parquet, NumPy and faiss files, and PostgreSQL with pgvector.

They are candidate vectors; a query vector of `Engine.query_vector` searches all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.engine import Engine, check_top
from blockhole.answering.index import faiss_for, write_faiss
from blockhole.answering.vectors import Vectors
from blockhole.errors import Count, ExportError, MissingExtra, UnknownName, checked
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import ModelSettings
from blockhole.queries.language import encode_hops, parse
from blockhole.runs.run import Run
from blockhole.saving import replacing

if TYPE_CHECKING:
    from psycopg import Connection

TABLE = "blockhole_entity"
"""The table of a database that entities go to, if no other is named."""

FileKind = Literal["parquet", "npz", "faiss"]
FILE_KINDS: tuple[FileKind, ...] = get_args(FileKind)


class Exported(NamedTuple):
    """Where the vectors of a run went, a file or a table, how many there are, and how many numbers each has."""

    place: str
    entities: int
    width: int


@checked
def export(
    run: Engine | Run | Path | str,
    path: Path | str,
    *,
    kind: FileKind | None = None,
    table: str = TABLE,
    partitions: Count = 1,
) -> Exported:
    """Write the names and vectors of all entities of a run to a file, or to the database at a postgresql:// address.

    The `kind` of a file is what its name ends with, unless it is given. `table` and `partitions` are those of a
    database (`export_postgres`).
    """
    engine = run if isinstance(run, Engine) else _uncalibrated(run)
    count, width = engine.candidates.shape
    if is_database(path):
        export_postgres(engine, str(path), table, partitions)
        return Exported(f"table {table}", count, width)
    path = Path(path)
    export_file(engine, kind or _kind_of(path), path)
    return Exported(str(path), count, width)


def is_database(path: Path | str) -> bool:
    """Whether this is the address of a database, and no file."""
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))


def _kind_of(path: Path) -> FileKind:
    for kind in FILE_KINDS:
        if path.suffix == f".{kind}":
            return kind
    raise ExportError(
        f"{path}: vectors are written as .parquet, .npz or .faiss, or to a postgresql:// address; name such a file."
    )


def _uncalibrated(run: Run | Path | str) -> Engine:
    """The engine of a run whose vectors alone are wanted: nobody needs to hear that it has no probabilities."""
    run = run if isinstance(run, Run) else Run.open(run)
    return Engine(Vectors.of(run), run.graph)


def export_file(engine: Engine, kind: FileKind, path: Path) -> None:
    """Write the names and vectors of all entities to `path`, whole or not at all, and its sum to `path`.sha256."""
    vectors = engine.candidates
    with replacing(path, summed=True) as temporary:
        match kind:
            case "parquet":
                _write_parquet(engine, vectors, temporary)
            case "npz":
                with temporary.open("wb") as file:
                    np.savez(
                        file,
                        entity=np.array(engine.graph.entities.names, dtype=np.str_),
                        relation=np.array(engine.graph.relations.names, dtype=np.str_),
                        vector=vectors,
                    )
            case "faiss":
                _write_faiss(vectors, temporary)


def _write_parquet(engine: Engine, vectors: NDArray[np.float32], path: Path) -> None:
    """Columns id, name, vector (a fixed-size list of float32)."""
    import polars as pl

    pl.DataFrame(
        {
            "id": np.arange(len(vectors), dtype=np.int32),
            "name": list(engine.graph.entities.names),
            "vector": pl.Series(vectors, dtype=pl.Array(pl.Float32, vectors.shape[1])),
        }
    ).write_parquet(path)


def _write_faiss(vectors: NDArray[np.float32], path: Path) -> None:
    """A flat index for inner products; its ids are those of the run's vocabulary."""
    index = faiss_for("exporting to faiss").IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    write_faiss(index, path)


# PostgreSQL with pgvector
#
# Table `blockhole_entity` has the columns id, name and vector. With q from `Engine.query_vector`, or from a
# `DatabaseQueries` that knows nothing but the database, the answers over all entities are::
#
#     SELECT name, -(vector <#> %(q)s) AS score FROM blockhole_entity ORDER BY vector <#> %(q)s LIMIT 10
#
# pgvector's <#> is the negative inner product, so that ascending order is best first. Beside it stand
# `blockhole_entity_relation` (id, name, inverse, parameters: what a hop multiplies with) and `blockhole_entity_model`
# (settings: the model section of config.json).


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
    vectors = engine.candidates
    _refuse_unwalkable(engine)
    if vectors.shape[1] > _WIDEST:
        raise ExportError(
            f"pgvector holds vectors of {_WIDEST:,} numbers at most, and these have {vectors.shape[1]:,}; "
            "export to a file, or train a narrower model."
        )
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


def _refuse_unwalkable(engine: Engine) -> None:
    """Refuse a model whose queries cannot be made out of what a database holds: candidates, relations and settings."""
    model, rows = engine.vectors.operators, engine.vectors.entity
    name, others = type(model).__name__, sorted(set(model.state_dict()) - {"entity", "relation"})
    if others:
        raise ExportError(
            f"{name} has parameters beside those of entities and relations ({others[0]}), for which a database has no "
            "table; export it to a file instead."
        )
    restored = model.restore_row(torch.from_numpy(engine.candidates)).numpy()
    if restored.shape != rows.shape or not np.allclose(restored, rows, rtol=1e-5):
        raise ExportError(
            f"the candidate vectors of {name} do not hold the rows of its entities, from which a database walks; "
            "give it a restore_row that undoes its finish_candidate, or export it to a file instead."
        )


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
        raise ExportError(
            f"the database has a table {table} that is not an export of a run; choose another with --table."
        )
    connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(table)))


# Path queries over an exported database, by a process that has nothing else: no run, no entities

BEST = (
    "SELECT name, -distance FROM (SELECT id, name, vector <#> %(q)s AS distance FROM {} ORDER BY vector <#> %(q)s "
    "LIMIT %(top)s) AS best ORDER BY distance, id"
)
"""The best answers. An index sorts by distance alone, so ties are put in order among what it found."""
MOST_BY_INDEX = 1000
"""The largest `hnsw.ef_search`: an HNSW index finds no more answers than that."""


class ScoredEntity(NamedTuple):
    """An entity as an answer, among all entities; without the facts nobody can say which answers are known."""

    entity: str
    score: float


@final
class DatabaseQueries:
    """Composes query vectors from the relations it has read and one entity's row, fetched for each query.

    It keeps nothing else, so any number of such processes may answer side by side.
    """

    def __init__(self, address: str, table: str = TABLE) -> None:
        self._address = address
        self._table = table
        with self._reading() as connection:
            from psycopg.sql import SQL, Identifier

            settings = connection.execute(SQL("SELECT settings FROM {}").format(Identifier(table + MODEL))).fetchone()
            rows = connection.execute(
                SQL("SELECT name, inverse, parameters FROM {} ORDER BY id").format(Identifier(table + RELATIONS))
            ).fetchall()
        if settings is None or not rows:
            raise ExportError(f"table {table} is not a complete export of a run; export it again.")
        self._relations = Vocabulary((name for name, inverse, _ in rows if not inverse), "relation")
        relation = np.array([parameters for _, _, parameters in rows], dtype=np.float32)
        chosen = ModelSettings.model_validate(settings[0])
        self._operators = Vectors.of_operators(chosen, relation, len(self._relations))

    def query_vector(self, query: str) -> NDArray[np.float32]:
        """The vector whose inner products with exported vectors are the scores; shape [width]."""
        with self._reading() as connection:
            return self._vector(connection, query)

    def ask(self, query: str, top: int = 10) -> list[ScoredEntity]:
        """The best answers among all entities; with an HNSW index in the database, those that it finds."""
        check_top(top)
        with self._reading() as connection:
            from psycopg.sql import SQL, Identifier

            values = {"q": self._vector(connection, query), "top": top}
            if top <= MOST_BY_INDEX:
                connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", (str(max(40, top)),))
            else:
                connection.execute("SET LOCAL enable_indexscan = off")
            text = SQL(BEST).format(Identifier(self._table))
            return [ScoredEntity(*row) for row in connection.execute(text, values).fetchall()]

    def _vector(self, connection: Connection[Any], query: str) -> NDArray[np.float32]:
        from psycopg.sql import SQL, Identifier

        parsed = parse(query)
        path = encode_hops(parsed, self._relations)
        found = connection.execute(
            SQL("SELECT vector::real[] FROM {} WHERE name = %s").format(Identifier(self._table)), (parsed.source,)
        ).fetchone()
        if found is None:
            raise UnknownName("entity", parsed.source)
        row = self._operators.operators.restore_row(torch.tensor(found, dtype=torch.float64)).numpy()
        vector: NDArray[np.float32] = self._operators.walk(row, path)[0].astype(np.float32)
        return vector

    @contextmanager
    def _reading(self) -> Iterator[Connection[Any]]:
        with connected(self._address, "the database cannot be asked ({}); export the run to it first.") as connection:
            from pgvector.psycopg import register_vector
            from psycopg import ProgrammingError

            try:
                register_vector(connection)
            except ProgrammingError:
                raise ExportError("the database lacks the type vector; export the run to it first.") from None
            yield connection
