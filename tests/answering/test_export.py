"""Exports that other tools search, with the same answers."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn

from blockhole.answering.engine import Engine
from blockhole.answering.export import _require_pgvector, export_file, export_postgres
from blockhole.answering.vectors import Vectors
from blockhole.errors import DataError, ExportError, MissingExtra
from blockhole.models.catalogue import ModelSettings, name_of
from blockhole.models.contract import Model
from blockhole.models.distmult import DistMult
from tests.answering.toys import best_by_composed_vector, make_engine

QUERIES = ("e1/r0", "e2/r0/^r1", "e3/r2/r2/r1")


def _top(engine: Engine, query: str) -> list[str]:
    return [name for name, _ in best_by_composed_vector(engine, query)]


def test_parquet_holds_names_and_vectors(tmp_path: Path) -> None:
    engine, _ = make_engine()
    export_file(engine, "parquet", tmp_path / "v.parquet")
    frame = pl.read_parquet(tmp_path / "v.parquet")
    assert frame.columns == ["id", "name", "vector"]
    vectors = frame["vector"].to_numpy()
    for query in QUERIES:
        best = np.argsort(-(vectors @ engine.query_vector(query)))[:10]
        assert [frame["name"][int(i)] for i in best] == _top(engine, query)


def test_other_readers_of_parquet_see_lists_of_floats(tmp_path: Path) -> None:
    """Vector databases load Parquet through Arrow: ids, names and float32 lists of one size."""
    parquet = pytest.importorskip("pyarrow.parquet")
    engine, _ = make_engine()
    export_file(engine, "parquet", tmp_path / "v.parquet")
    table = parquet.read_table(tmp_path / "v.parquet")
    width = engine.candidates.shape[1]
    assert str(table.schema.field("vector").type) == f"fixed_size_list<element: float>[{width}]"
    assert table["vector"].to_pylist() == engine.candidates.tolist()
    bare = parquet.ParquetFile(tmp_path / "v.parquet").schema
    assert [bare.column(i).physical_type for i in range(len(bare))] == ["INT32", "BYTE_ARRAY", "FLOAT"]


@pytest.mark.parametrize("name", ["blockhole", "transe"])
def test_npz_needs_no_pickle(tmp_path: Path, name: str) -> None:
    engine, _ = make_engine(name)
    export_file(engine, "npz", tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz", allow_pickle=False) as arrays:
        for query in QUERIES:
            best = np.argsort(-(arrays["vector"] @ engine.query_vector(query)))[:10]
            assert arrays["entity"][best].tolist() == _top(engine, query)
        assert arrays["relation"].tolist() == ["r0", "r1", "r2"]


def test_faiss_finds_the_same(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    engine, _ = make_engine()
    export_file(engine, "faiss", tmp_path / "v.faiss")
    index = faiss.read_index(str(tmp_path / "v.faiss"))
    for query in QUERIES:
        _, found = index.search(engine.query_vector(query)[None], 10)
        assert [engine.graph.entities[int(i)] for i in found[0]] == _top(engine, query)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder; name a file to write"):
        export_file(make_engine()[0], "npz", tmp_path)
    assert list(tmp_path.iterdir()) == []


def _rows(server: str, text: str, **values: object) -> list[Any]:
    import psycopg
    from pgvector.psycopg import register_vector

    with psycopg.connect(server) as connection:
        register_vector(connection)
        return connection.execute(text, values).fetchall()


def test_sql_gives_the_same_top_10(server: str) -> None:
    engine, _ = make_engine(E=300, facts=600)
    assert export_postgres(engine, server) == 300
    text = "SELECT name, -(vector <#> %(q)s) AS score FROM blockhole_entity ORDER BY vector <#> %(q)s LIMIT 10"
    for query in QUERIES:
        found = _rows(server, text, q=engine.query_vector(query))
        names, scores = zip(*best_by_composed_vector(engine, query), strict=True)
        assert tuple(name for name, _ in found) == names
        assert [score for _, score in found] == pytest.approx(scores, rel=1e-4)


def test_an_export_replaces_an_earlier_one_and_nothing_else(server: str) -> None:
    import psycopg

    export_postgres(make_engine(E=20)[0], server, table="mine")
    export_postgres(make_engine(E=10)[0], server, table="mine")
    assert _rows(server, "SELECT count(*) FROM mine") == [(10,)]
    with psycopg.connect(server) as connection:
        connection.execute("CREATE TABLE theirs (id integer)")
    with pytest.raises(
        ExportError, match="the database has a table theirs that is not an export of a run; choose another"
    ):
        export_postgres(make_engine()[0], server, table="theirs")
    assert _rows(server, "SELECT count(*) FROM theirs") == [(0,)]


def test_a_failing_export_leaves_the_old_table(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    export_postgres(make_engine(E=10)[0], server, table="old")
    engine, _ = make_engine(E=20)
    names = ["a name\0that text of PostgreSQL cannot hold"] * 20
    monkeypatch.setattr(type(engine.graph.entities), "__getitem__", lambda _, index: names[index])
    with pytest.raises(ExportError, match=r"^the database refused the export \(.*\); it is as it was before.$"):
        export_postgres(engine, server, table="old")
    monkeypatch.undo()
    assert _rows(server, "SELECT count(*) FROM old") == [(10,)]


def test_without_faiss_an_export_to_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"^exporting to faiss needs .* pip install 'blockhole\[faiss\]'$"):
        export_file(make_engine()[0], "faiss", tmp_path / "v.faiss")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["psycopg", "pgvector"])
def test_without_a_driver_an_export_says_what_to_install(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"^talking to PostgreSQL needs .* pip install 'blockhole\[postgres\]'$"):
        export_postgres(make_engine()[0], "postgresql://127.0.0.1:9/none")


class _Squared(DistMult):  # type: ignore[misc]  # final, and named here to be unlike it
    """A model whose candidates do not hold the rows they were made of."""

    def finish_candidate(self, vector: Tensor) -> Tensor:
        return vector.square()


class _Halved(DistMult):  # type: ignore[misc]
    """A model whose candidates hold their rows in a way of its own."""

    def finish_candidate(self, vector: Tensor) -> Tensor:
        return vector.flip(1) / 2

    def restore_row(self, candidate: Tensor) -> Tensor:
        return 2 * candidate.flip(1)


class _Biased(DistMult):  # type: ignore[misc]
    """A model with a parameter that no table is for."""

    def __init__(self, *sizes: int, **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.bias = nn.Parameter(torch.ones(1))


@pytest.mark.parametrize(
    ("model", "refusal"),
    [
        (_Squared, "the candidate vectors of _Squared do not hold the rows of its entities, from which a database wa"),
        (_Biased, "_Biased has parameters beside those of entities and relations (bias), for which a database has no"),
        (_Halved, "cannot reach the database"),
    ],
)
def test_a_model_that_a_database_cannot_walk_is_refused_by_name(model: type[Model], refusal: str) -> None:
    weights = model(30, 3, dim=4).state_dict()
    vectors = Vectors.of_weights(ModelSettings(name=name_of(model), dim=4), weights, 3)
    engine = Engine(vectors, make_engine()[0].graph)
    with pytest.raises(ExportError, match=f"^{re.escape(refusal)}"):
        export_postgres(engine, "postgresql://127.0.0.1:9/none")


def test_a_database_that_is_down() -> None:
    with pytest.raises(ExportError, match=r"^cannot reach the database \(.*\); check the address and that the server"):
        export_postgres(make_engine()[0], "postgresql://nobody:secret@127.0.0.1:9/none")


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ExportError) as failure:
        export_postgres(make_engine()[0], "postgresql://nobody:secret@127.0.0.1:9/none")
    assert "secret" not in str(failure.value)


def test_a_database_without_pgvector() -> None:
    class Bare:
        def execute(self, text: str) -> Bare:
            assert "pg_available_extensions" in text
            return self

        def fetchone(self) -> None:
            return None

    expected = (
        "the database server lacks the extension pgvector; install it there (its package is called "
        "postgresql-NN-pgvector on Debian), then export again."
    )
    with pytest.raises(ExportError, match=f"^{re.escape(expected)}$"):
        _require_pgvector(Bare())  # type: ignore[arg-type]
