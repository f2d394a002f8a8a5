"""Path queries over an exported database, by a process that has nothing else: no run, no entities."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.engine import check_hops, check_top
from blockhole.answering.export.connection import connected
from blockhole.answering.export.postgres import MODEL, RELATIONS, TABLE
from blockhole.answering.vectors import Vectors
from blockhole.errors import ExportError, UnknownName
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.settings import ModelSettings
from blockhole.paths.language import parse

if TYPE_CHECKING:
    from psycopg import Connection


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
            raise ExportError(f"table {table} is no complete export of a run; export it again.")
        self._relations = Vocabulary((name for name, inverse, _ in rows if not inverse), "relation")
        relation = torch.tensor([parameters for _, _, parameters in rows])
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
        check_hops(parsed)
        path = [self._relations.id(hop.relation) + hop.inverse * len(self._relations) for hop in parsed.hops]
        found = connection.execute(
            SQL("SELECT vector::real[] FROM {} WHERE name = %s").format(Identifier(self._table)), (parsed.source,)
        ).fetchone()
        if found is None:
            raise UnknownName("entity", parsed.source)
        # The numbers of an entity come first in its candidate vector, for every model.
        row = torch.tensor([found[0]], dtype=torch.float64)[:, : self._operators.entity.shape[1]]
        vector: NDArray[np.float32] = self._operators.walk(row, path)[0].float().numpy()
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
