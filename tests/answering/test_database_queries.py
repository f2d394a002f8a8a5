"""A run in a database: partitioned, and asked by a process that has nothing but the address."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import blockhole
from blockhole.answering.engine import Engine
from blockhole.answering.export import BEST, DatabaseQueries, export_postgres
from blockhole.answering.vectors import Vectors
from blockhole.errors import ConfigError, ExportError, QueryError, UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.answering.toys import SIZES, best_by_composed_vector, make_engine, make_model

QUERIES = ("e1/r0", "e2/r0/^r1", "e3/r2/r2/r1")
PROGRAM = "import sys; from blockhole.cli.main import main; main(sys.argv[1:])"


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("model", ["blockhole", "transe", "rescal"])
def test_the_database_ranks_as_composed_vectors_do(server: str, model: str, partitions: int) -> None:
    engine, _ = make_engine(model, E=200, facts=400)
    assert export_postgres(engine, server, partitions=partitions) == 200
    remote = DatabaseQueries(server)
    for query in QUERIES:
        np.testing.assert_allclose(remote.query_vector(query), engine.query_vector(query), rtol=1e-5, atol=1e-6)
        names, scores = zip(*best_by_composed_vector(engine, query), strict=True)
        found = remote.ask(query)
        assert tuple(answer.entity for answer in found) == names
        assert [answer.score for answer in found] == pytest.approx(scores, rel=1e-4, abs=1e-5)


def test_partitions_share_the_entities_and_a_name_is_sought_in_one(server: str) -> None:
    import psycopg

    engine, _ = make_engine(E=200, facts=400)
    export_postgres(engine, server, "spread", partitions=4)
    with psycopg.connect(server) as connection:
        sizes = [connection.execute(f"SELECT count(*) FROM spread_{part}").fetchone() for part in range(4)]
        plan = connection.execute("EXPLAIN SELECT vector FROM spread WHERE name = 'e7'").fetchall()
    counts = [row[0] for row in sizes if row]
    assert sum(counts) == 200
    assert min(counts) > 20
    assert sum("spread_" in line for (line,) in plan if "on spread" in line) == 1
    export_postgres(engine, server, "spread")
    with psycopg.connect(server) as connection:
        assert connection.execute("SELECT to_regclass('spread_0')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM spread").fetchone() == (200,)


@pytest.mark.parametrize("partitions", [1, 2])
def test_an_index_is_used_and_finds_as_many_as_are_asked_for(server: str, partitions: int) -> None:
    import psycopg
    from pgvector.psycopg import register_vector

    engine, _ = make_engine(E=2500, facts=3000)
    export_postgres(engine, server, "indexed", partitions=partitions)
    remote, query = DatabaseQueries(server, "indexed"), QUERIES[1]
    exact = {answer.entity for answer in remote.ask(query, top=100)}
    with psycopg.connect(server) as connection:
        connection.execute("CREATE INDEX ON indexed USING hnsw (vector vector_ip_ops)")
        connection.execute("ANALYZE indexed")
        connection.execute("SET enable_seqscan = off")
        register_vector(connection)
        values = {"q": engine.query_vector(query), "top": 100}
        plan = "\n".join(line for (line,) in connection.execute("EXPLAIN " + BEST.format("indexed"), values))
        names = [name for (name,) in connection.execute("SELECT indexrelid::regclass::text FROM pg_index")]
    assert plan.count("Index Scan using indexed_") == partitions
    assert any("indexed" in name and "name" in name for name in names)
    found = remote.ask(query, top=100)
    assert len(found) == 100
    assert len(exact & {answer.entity for answer in found}) > 80
    assert [answer.score for answer in found] == sorted((answer.score for answer in found), reverse=True)
    assert len(remote.ask(query, top=2000)) == 2000  # more than an index finds


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_name_may_be_longer_than_a_sorted_index_takes(server: str, partitions: int) -> None:
    name = "".join(map(chr, np.random.default_rng(0).integers(ord("a"), ord("z"), size=6000)))
    graph = KnowledgeGraph(Vocabulary([name, "b"]), Vocabulary(["r0"], "relation"), np.array([[0, 0, 1]], np.int32))
    vectors = Vectors.of_weights(SIZES["blockhole"], dict(make_model("blockhole", 2, 1, 0).state_dict()), 1)
    export_postgres(Engine(vectors, graph, None), server, "long", partitions=partitions)
    assert len(DatabaseQueries(server, "long").ask(f"{name}/r0")) == 2


@pytest.mark.slow
def test_two_processes_share_nothing_but_the_database(server: str, tmp_path: Path) -> None:
    settings = {"training.epochs": 1, "model.block_size": 3, "training.threads": 1}
    blockhole.train("family", settings=settings, out=tmp_path / "writer" / "run")
    engine, query = Engine.open(tmp_path / "writer" / "run"), "William/^fatherOf/brotherOf"
    names, scores = zip(*best_by_composed_vector(engine, query, 5), strict=True)
    _blockhole("export", "run", "--to", server, "--table", "shared", "--partitions", "2", folder=tmp_path / "writer")
    shutil.rmtree(tmp_path / "writer")
    (tmp_path / "reader").mkdir()
    asked = _blockhole(
        "ask-database", server, query, "--table", "shared", "--top", "5", "--json", folder=tmp_path / "reader"
    )
    answers = json.loads(asked)["answers"]
    assert tuple(answer["entity"] for answer in answers) == names
    assert [answer["score"] for answer in answers] == pytest.approx(scores, rel=1e-4, abs=1e-5)


def test_what_cannot_be_asked(server: str) -> None:
    export_postgres(make_engine(E=20)[0], server, "small")
    remote = DatabaseQueries(server, "small")
    with pytest.raises(UnknownName, match=r"^unknown entity 'nobody'\.$"):
        remote.ask("nobody/r0")
    with pytest.raises(UnknownName, match=r"^unknown relation 'r9'\.\n  e1/r9\n     \^$"):
        remote.ask("e1/r9")
    with pytest.raises(QueryError, match="a query may have 64 at most"):
        remote.ask("e1" + "/r0" * 65)
    with pytest.raises(ConfigError, match="top must be a whole number"):
        remote.ask("e1/r0", top=0)
    with pytest.raises(ExportError, match=r"^the database cannot be asked \(.*none.*\); export the run to it first\.$"):
        DatabaseQueries(server, "none")


def _blockhole(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
