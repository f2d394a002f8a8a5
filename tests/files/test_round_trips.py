"""Graphs go through every format and come back as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.errors import DataError
from blockhole.files.readers import read_graph, read_split
from blockhole.files.writers import convert, write_graph, write_split
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.files.facts import Fact, any_name, fact_lists, graph_of, line_name, odd_names

pytestmark = odd_names

ANY_NAME = [".csv", ".csv.gz", ".parquet", ".nt", ".nt.gz", ".nt.zst"]
LINE_NAME = [".tsv", ".txt", ".tsv.gz", ".tsv.zst"]


@given(facts=fact_lists(any_name), suffix=st.sampled_from(ANY_NAME))
def test_formats_for_any_name(facts: list[Fact], suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("graph") / f"facts{suffix}"
    write_graph(graph_of(facts), path)
    assert read_graph(path) == graph_of(facts)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@given(facts=fact_lists(line_name), suffix=st.sampled_from(LINE_NAME))
def test_tab_separated_formats(facts: list[Fact], suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("graph") / f"facts{suffix}"
    write_graph(graph_of(facts), path)
    assert read_graph(path) == graph_of(facts)


@given(facts=fact_lists(any_name.filter(lambda name: not name.startswith("_:"))))
@pytest.mark.parametrize("suffix", [".ttl", ".jsonld", ".ttl.gz"])
def test_rdf_that_renames_blank_nodes(facts: list[Fact], suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("graph") / f"facts{suffix}"
    write_graph(graph_of(facts), path)
    assert read_graph(path) == graph_of(facts)


@given(facts=fact_lists(any_name))
def test_what_we_write_is_strict_rdf(facts: list[Fact], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("graph") / "facts.nt"
    write_graph(graph_of(facts), path)
    quads = list(ox.parse(path=path))
    assert len(quads) == len(facts)
    assert len({term for quad in quads for term in (quad.subject, quad.object)}) == graph_of(facts).num_entities


def test_rdf_terms_stay_what_they_are(tmp_path: Path) -> None:
    text = '<http://x/a> <http://x/r> "Alice \\"A\\""@en .\n_:b <http://x/r> <http://x/a> .\n'
    (tmp_path / "in.nt").write_text(text)
    convert(tmp_path / "in.nt", tmp_path / "out.parquet")
    convert(tmp_path / "out.parquet", tmp_path / "out.nt")
    assert (tmp_path / "out.nt").read_text() == text


def test_an_entity_that_is_a_source_is_no_literal(tmp_path: Path) -> None:
    write_graph(graph_of([("a", "r", '"x"'), ('"x"', "r", "a")]), tmp_path / "facts.nt")
    assert (tmp_path / "facts.nt").read_text() == (
        "<urn:blockhole:a> <urn:blockhole:r> <urn:blockhole:%22x%22> .\n"
        "<urn:blockhole:%22x%22> <urn:blockhole:r> <urn:blockhole:a> .\n"
    )


def test_a_first_fact_that_reads_like_a_header_survives(tmp_path: Path) -> None:
    graph = graph_of([("source", "relation", "target"), ("a", "r", "b")])
    write_graph(graph, tmp_path / "facts.tsv")
    assert read_graph(tmp_path / "facts.tsv") == graph


@pytest.mark.parametrize("suffix", [".tsv.gz", ".tsv.zst", ".parquet"])
def test_the_same_graph_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    graph = graph_of([("a", "r", "b")])
    write_graph(graph, tmp_path / f"one{suffix}")
    write_graph(graph, tmp_path / f"two{suffix}")
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_parquet_columns_by_name_or_as_told(tmp_path: Path) -> None:
    path = tmp_path / "facts.parquet"
    expected = graph_of([("a", "r", "b"), ("b", "r", "c")])
    pl.DataFrame({"n": [1, 2], "tail": ["b", "c"], "relation": ["r", "r"], "head": ["a", "b"]}).write_parquet(path)
    assert read_graph(path) == expected
    pl.DataFrame({"x": ["a", "b"], "y": ["r", "r"], "z": ["b", "c"], "w": [None, None]}).write_parquet(path)
    assert read_graph(path, columns=("x", "y", "z")) == read_graph(path, columns=(1, 2, 3)) == expected
    table = pl.DataFrame({"0": [1], "1": ["r"], "2": [2.0]})  # names that are none: the order tells
    table.with_columns(pl.col("1").cast(pl.Categorical)).write_parquet(path)
    assert read_graph(path) == graph_of([("1", "r", "2")])


def test_parquet_labels(tmp_path: Path) -> None:
    table = pl.DataFrame({"source": ["a", "a"], "relation": ["r", "r"], "target": ["a", "a"], "label": [1, -1]})
    table[:1].write_parquet(tmp_path / "train.parquet")
    table.write_parquet(tmp_path / "test.parquet")
    split = read_split(tmp_path)
    assert split.test.tolist() == split.test_negatives.tolist() == [[0, 0, 0]]


def test_split_round_trip(tmp_path: Path) -> None:
    def facts(*rows: tuple[int, int, int]) -> np.typing.NDArray[np.int32]:
        return np.array(rows, dtype=np.int32).reshape(-1, 3)

    names, relations = Vocabulary(["c", "never used", "a", "b"]), Vocabulary(["s", "r"], "relation")
    split = SplitGraph(
        names,
        relations,
        facts((3, 1, 2), (2, 0, 0)),
        facts((2, 1, 3)),
        facts((0, 0, 2)),
        test_negatives=facts((0, 1, 3)),
    )
    write_split(split, tmp_path / "new")
    again = read_split(tmp_path / "new")
    assert again.entities == names
    assert again.relations == relations
    for part in ("train", "valid", "test", "valid_negatives", "test_negatives"):
        assert np.array_equal(getattr(again, part), getattr(split, part))
    assert (tmp_path / "new" / "test.txt").read_text() == "c\ts\ta\t1\nc\tr\tb\t-1\n"


def test_convert_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a\tr\tb\n")
    (tmp_path / "test.txt").write_text("b\tr\ta\t1\nb\tr\tb\t-1\n")
    assert convert(tmp_path, tmp_path / "out" / "all.nt.gz") == {
        "source": str(tmp_path),
        "destination": str(tmp_path / "out" / "all.nt.gz"),
        "format": "nt",
        "entities": 2,
        "relations": 1,
        "facts": 2,
    }
    assert read_graph(tmp_path / "out" / "all.nt.gz") == graph_of([("a", "r", "b"), ("b", "r", "a")])


def test_convert_never_writes_over_its_source(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tr\tb\n")
    with pytest.raises(DataError, match=r"a\.tsv: is the file to convert; name another one to write\."):
        convert(path, path)


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").mkdir()
    with pytest.raises(DataError, match="is a folder; name a file to write"):
        write_graph(graph_of([("a", "r", "b")]), tmp_path / "facts.tsv")
