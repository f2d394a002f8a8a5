"""Files of queries in, files of answers out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from blockhole.answering.answers import answers_frame
from blockhole.answering.engine import Engine
from blockhole.answering.query_files import read_queries, write_answers
from blockhole.errors import BlockholeError, ConfigError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.answering.toys import make_engine


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def engine() -> Engine:
    return make_engine()[0]


def test_tsv_holds_queries_or_columns(tmp_path: Path, engine: Engine) -> None:
    path = _file(tmp_path, "q.tsv", "e1/r0/^r1\n\ne2\tr0\t^r1\t**r2\n")
    assert [str(each.query) for each in read_queries(path, engine)] == ["e1/r0/^r1", "e2/r0/^r1/^r2"]


def test_json_lines_hold_objects_or_texts(tmp_path: Path, engine: Engine) -> None:
    path = _file(tmp_path, "q.jsonl", '{"query": "e1/r0", "more": 1}\n"e2/^r1"\n')
    assert [str(each.query) for each in read_queries(path, engine)] == ["e1/r0", "e2/^r1"]


@pytest.mark.parametrize("text", ["e1/r0/^r1\n", "e1\tr0\t^r1\n"])
def test_a_name_is_looked_up_once(tmp_path: Path, text: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among ten million names it takes 20 ms."""
    looked_up: list[str] = []
    find = Vocabulary.find

    def watched(self: Vocabulary, name: str) -> int | None:
        looked_up.append(name)
        return find(self, name)

    monkeypatch.setattr(Vocabulary, "find", watched)
    engine.ask_many(read_queries(_file(tmp_path, "q.tsv", text), engine))
    assert looked_up == ["e1", "r0", "r1"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.tsv", "e\u2028 1\tr0\r\ne\x85\tr0\n"),
        ("q.jsonl", '{"query": "\\"e\u2028 1\\"/r0"}\r\n{"query": "\\"e\x85\\"/r0"}\n'),
    ],
)
def test_only_ends_of_lines_end_lines(tmp_path: Path, name: str, text: str, engine: Engine) -> None:
    names = ["e\u2028 1", "e\x85", *(f"e{i}" for i in range(28))]
    graph = KnowledgeGraph(Vocabulary(names), engine.graph.relations, engine.graph.triples)
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert [each.query.source for each in read_queries(path, Engine(engine.vectors, graph))] == names[:2]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("q.tsv", "", "it holds no queries; write one query per line, such as William/^fatherOf."),
        ("q.tsv", "e1/r0\ne1\n", "line 2: a query needs at least one hop: write source/relation"),
        ("q.tsv", "e1\t\tr0\n", "line 1: a column is empty; write one query per line, such as William/^fatherOf."),
        ("q.jsonl", "e1/r0\n", 'line 1: this is not JSON; write {"query": "William/^fatherOf"}.'),
        ("q.jsonl", '{"q": 1}\n', 'line 1: there is no text under "query"; write {"query": "William/^fatherOf"}.'),
    ],
)
def test_bad_files_are_explained(tmp_path: Path, name: str, text: str, expected: str, engine: Engine) -> None:
    with pytest.raises(BlockholeError, match=re.escape(expected)):
        read_queries(_file(tmp_path, name, text), engine)


def test_queries_that_cannot_be_answered_are_named_by_line(tmp_path: Path, engine: Engine) -> None:
    path = _file(tmp_path, "q.tsv", "e1/r0\n\ne1\tr0\nE1/r0\n")
    with pytest.raises(BlockholeError, match=re.escape(f"{path}, line 4: unknown entity 'E1'; did you mean")):
        read_queries(path, engine)
    path = _file(tmp_path, "long.tsv", "e1/r0\ne1" + 65 * "/r0" + "\n")
    with pytest.raises(BlockholeError, match=re.escape(f"{path}, line 2: the query has 65 hops")):
        read_queries(path, engine)


def test_files_that_cannot_be_read(tmp_path: Path, engine: Engine) -> None:
    with pytest.raises(BlockholeError, match="No such file or directory"):
        read_queries(tmp_path / "none.tsv", engine)
    (tmp_path / "latin.tsv").write_bytes("é/r0".encode("latin-1"))
    with pytest.raises(BlockholeError, match="it is not text in UTF-8; save it as UTF-8"):
        read_queries(tmp_path / "latin.tsv", engine)


def test_answers_as_parquet_and_as_json_lines(tmp_path: Path, engine: Engine) -> None:
    answers = engine.ask_many(["e1/r0", "e2/r1"], top=3, only="predicted")
    write_answers(tmp_path / "a.parquet", answers)
    frame = pl.read_parquet(tmp_path / "a.parquet")
    assert frame["query"].to_list() == ["e1/r0"] * 3 + ["e2/r1"] * 3
    assert frame["rank"].to_list() == [1, 2, 3] * 2
    write_answers(tmp_path / "a.jsonl", answers)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["query"] for line in lines] == ["e1/r0", "e2/r1"]
    assert [a["entity"] for line in lines for a in line["answers"]] == frame["entity"].to_list()
    assert [(line["known_count"], line["predicted_count"], line["negation"]) for line in lines] == [
        (each.known_count, 3, None) for each in answers
    ]
    assert set(lines[0]) == {"query", "answers", "known_count", "predicted_count", "negation"}


def test_answers_as_rows_of_any_kind(tmp_path: Path, engine: Engine) -> None:
    answers = engine.ask_many(["e1/r0", "e2/r1"], top=3)
    expected = answers_frame(answers)
    read: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".csv": pl.read_csv,
        ".tsv": partial(pl.read_csv, separator="\t"),
        ".arrow": pl.read_ipc_stream,
        ".parquet": pl.read_parquet,
    }
    for suffix, reader in read.items():
        path = tmp_path / f"a{suffix}"
        write_answers(path, answers)
        found = reader(path).cast(expected.schema)
        assert found.drop("score", "probability").equals(expected.drop("score", "probability"))
        assert found["score"].to_list() == pytest.approx(expected["score"].to_list())


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"are written as \.parquet, \.csv, \.tsv, \.jsonl or \.arrow; name such a file"
    ):
        write_answers(tmp_path / "a.xlsx", [])
    assert list(tmp_path.iterdir()) == []
