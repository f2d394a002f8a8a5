"""Packed graphs: what is read from the files is what reading the facts into memory gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.data.packing import estimate_facts, pack
from blockhole.errors import DataError, UnknownName
from blockhole.files.readers import NegativesLeftOut, read_graph, read_split
from blockhole.files.writers import write_graph, write_split
from blockhole.graph.knowledge_graph import Adjacency, KnowledgeGraph, SplitGraph, build_adjacency
from blockhole.graph.vocabulary import Vocabulary
from blockhole.machine import resident_bytes
from blockhole.packed.adjacency import GrowingArray, adjacency_bytes, pieces, write_adjacency
from blockhole.packed.folder import ADJACENCY
from blockhole.queries.walks import sample_walks
from blockhole.saving import read_sealed
from tests.files.facts import Fact, any_name, fact_lists, graph_of, odd_names, small_blocks

pytestmark = odd_names

FACTS = [("a", "r", "b"), ("b", "s", "c"), ("a", "r", "b"), ("c", "r", "a"), ("a", "r", "c")]


def _packed(folder: Path, facts: list[Fact]) -> KnowledgeGraph:
    write_graph(graph_of(facts), folder / "facts.parquet")
    pack(folder / "facts.parquet", folder / "packed")
    return read_split(folder / "packed").graph("train")


@given(facts=fact_lists(any_name), suffix=st.sampled_from([".parquet", ".nt", ".nt.gz", ".csv.zst"]))
@pytest.mark.slow
def test_a_packed_graph_equals_the_read_one(
    facts: list[Fact], suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("graph")
    write_graph(graph_of(facts), folder / f"facts{suffix}")
    with small_blocks(64):
        pack(folder / f"facts{suffix}", folder / "packed")
    packed, read = read_split(folder / "packed").graph("train"), read_graph(folder / f"facts{suffix}")
    assert packed == read
    assert hash(packed.entities) == hash(read.entities)
    _assert_equal(packed.adjacency, read.adjacency)


@given(
    triples=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 30)), min_size=1, max_size=80),
    room=st.integers(200, 400),
    piece=st.integers(1, 20),
)
def test_ranges_and_pieces_change_nothing(
    triples: list[tuple[int, int, int]], room: int, piece: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("graph")
    facts = np.array(triples, dtype=np.int32)
    with GrowingArray(folder / "train.npy", np.int32, (3,)) as file:
        file.append(facts)
    with (
        patch("blockhole.packed.adjacency._PIECE", piece),
        patch("blockhole.packed.adjacency._WORK", 0),
        patch("blockhole.packed.adjacency._KEY", 1),
        patch("blockhole.packed.adjacency.resident_bytes", lambda: 0),
    ):
        edges = write_adjacency(folder / "train.npy", folder, 31, 4, room)
    expected = build_adjacency(facts, 31, 4)
    assert edges == len(expected.target)
    written = Adjacency(*(np.load(folder / f"{name}.npy") for name in ADJACENCY))
    _assert_equal(written, expected)
    assert sum(array.nbytes for array in _arrays(written)) <= adjacency_bytes(len(facts), 31)


def test_a_hub_that_does_not_fit_is_named_with_the_memory_it_needs(tmp_path: Path) -> None:
    with GrowingArray(tmp_path / "train.npy", np.int32, (3,)) as file:
        file.append(np.array([[0, 0, target] for target in range(1000)], dtype=np.int32))
    memory = resident_bytes() + 10**6
    with pytest.raises(DataError, match=r"too little for the edges of one entity; allow \d+\.\d GB with --memory\.$"):
        write_adjacency(tmp_path / "train.npy", tmp_path, 1000, 1, memory)


def test_a_growing_array_is_read_back_in_pieces(tmp_path: Path) -> None:
    rows = np.arange(30, dtype=np.int32).reshape(10, 3)
    with GrowingArray(tmp_path / "a.npy", np.int32, (3,)) as file:
        for part in np.array_split(rows, 4):
            file.append(part)
    assert np.array_equal(np.load(tmp_path / "a.npy"), rows)
    assert [len(piece) for piece in pieces(tmp_path / "a.npy", 4)] == [4, 4, 2]
    assert np.array_equal(np.concatenate(list(pieces(tmp_path / "a.npy", 4))), rows)


def test_splits_and_their_negatives_are_packed(tmp_path: Path) -> None:
    graph = graph_of(FACTS)
    split = SplitGraph(
        graph.entities,
        graph.relations,
        graph.triples,
        valid=graph.triples[:2],
        test=graph.triples[2:3],
        test_negatives=graph.triples[3:4],
    )
    write_split(split, tmp_path / "split")
    pack(tmp_path / "split", tmp_path / "packed")
    packed, read = read_split(tmp_path / "packed"), read_split(tmp_path / "split")
    for name in ("train", "valid", "test", "valid_negatives", "test_negatives"):
        assert np.array_equal(getattr(packed, name), getattr(read, name)), name
    assert packed.entities == read.entities
    assert packed.packed
    assert not read.packed
    assert packed.graph("train", "test") == read.graph("train", "test")


def test_train_facts_labelled_false_are_left_out_with_a_word(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("a\tr\tb\t1\nb\tr\ta\t-1\n", encoding="utf-8")
    with pytest.warns(NegativesLeftOut, match=r"facts\.tsv: 1 line labelled -1 or rejected left out"):
        assert pack(tmp_path / "facts.tsv", tmp_path / "packed").facts == 1
    assert len(read_split(tmp_path / "packed").train) == 1


def test_names_are_found_in_the_file(tmp_path: Path) -> None:
    names = _packed(tmp_path, FACTS).entities
    assert [names.id(name) for name in names] == [0, 1, 2]
    assert names.ids(["c", "a", "c"]).tolist() == [2, 0, 2]
    assert "b" in names
    assert "d" not in names
    assert names[-1] == "c"
    assert names[np.int32(1)] == "b"  # type: ignore[index]
    assert names.names[:2] == ["a", "b"]
    assert names == Vocabulary(["a", "b", "c"])
    assert names != Vocabulary(["a", "b", "x"])
    with pytest.raises(UnknownName, match="unknown entity 'd'"):
        names.ids(["a", "d"])


def test_walks_over_files_are_those_over_memory(tmp_path: Path) -> None:
    packed = _packed(tmp_path, FACTS)
    assert isinstance(packed.adjacency.target.base, np.memmap)
    everything = read_split(tmp_path / "packed").graph("train", "valid", "test")
    assert isinstance(everything.adjacency.target.base, np.memmap)
    mapped, held = sample_walks(packed, 500, seed=3), sample_walks(graph_of(FACTS), 500, seed=3)
    for name in ("source", "path", "length", "target"):
        assert np.array_equal(getattr(mapped, name), getattr(held, name))


def test_no_room_on_the_disk_is_told_before_anything_is_written(tmp_path: Path) -> None:
    write_graph(graph_of(FACTS), tmp_path / "facts.nt")
    with patch("blockhole.data.packing.shutil.disk_usage") as usage:
        usage.return_value.free = 100
        with pytest.raises(DataError) as failure:
            pack(tmp_path / "facts.nt", tmp_path / "packed")
    assert str(failure.value) == (
        f"packing needs up to 0.00 MB on the disk of {tmp_path}, and 0.00 MB are free; "
        "make room, or name a folder on another disk."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["facts.nt"]


def test_names_that_pass_the_memory_end_it(tmp_path: Path) -> None:
    write_graph(graph_of(FACTS), tmp_path / "facts.nt")
    with pytest.raises(DataError, match=r"take more than the 0\.0 GB of memory that are allowed; allow more"):
        pack(tmp_path / "facts.nt", tmp_path / "packed", memory=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["facts.nt"]


@pytest.mark.parametrize("suffix", [".parquet", ".nt", ".tsv", ".nt.gz", ".csv.zst"])
def test_facts_are_estimated_from_a_sample(tmp_path: Path, suffix: str) -> None:
    facts = [(f"entity {i}", "r", f"entity {i * i}") for i in range(5000)]
    path = tmp_path / f"facts{suffix}"
    write_graph(graph_of(facts), path)
    assert estimate_facts(path) == pytest.approx(5000, rel=0.15)


def test_damage_is_told(tmp_path: Path) -> None:
    _packed(tmp_path, FACTS)
    folder = tmp_path / "packed"
    record = read_sealed(folder / "packed.json")
    (folder / "packed.json").write_text(json.dumps(record | {"facts": 4}))
    with pytest.raises(DataError, match=r"the arrays do not fit packed.json; pack the graph again\.$"):
        read_split(folder)
    (folder / "packed.json").write_text(json.dumps(record | {"format": 9}))
    with pytest.raises(DataError, match=r"was packed by another version \(format 9\); pack the graph again\.$"):
        read_split(folder)
    (folder / "packed.json").write_text("{")
    with pytest.raises(DataError, match=r"packed.json: is damaged \(.*\); pack the graph again\.$"):
        read_split(folder)
    (folder / "packed.json").write_text(json.dumps(record))
    (folder / "target.npy").write_bytes((folder / "target.npy").read_bytes()[:-4])
    with pytest.raises(DataError, match=r"target.npy: is damaged: its bytes .*; pack the graph again\.$"):
        read_split(folder)
    del record["sha256"]  # as in version 0.1.0
    (folder / "packed.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=r"target.npy: cannot be read \(.*\); pack the graph again\.$"):
        read_split(folder)
    with pytest.raises(DataError, match=r": is packed already; use it as it is\.$"):
        pack(folder, tmp_path / "again")


def _unsealed(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content.replace(old, new).replace(b'"seal"', b'"other"')


def _header(text: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content[:8] + len(text).to_bytes(2, "little") + text + content[128:]


def _numbers(change: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        written = BytesIO()
        np.save(written, change(np.load(BytesIO(content))))
        return written.getvalue()

    return changed


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("target.npy", _header(b"{'descr': '<i4'"), r"target.npy: cannot be read \(.*\)"),
        ("target.npy", _header(b"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}"), "target.npy: cannot"),
        ("target.npy", _header(b"{" * 513), r"target.npy: cannot be read \(Header info length \(513\) is large"),
        ("target.npy", _numbers(lambda ids: ids.astype(np.int64)), "target.npy: holds int64, not int32"),
        ("target.npy", _numbers(lambda ids: ids + 1000), "the arrays do not fit packed.json"),
        ("target.npy", _numbers(lambda ids: -ids - 1), "the arrays do not fit packed.json"),
        ("group_relation.npy", _numbers(lambda ids: ids + 1000), "the arrays do not fit packed.json"),
        ("group_start.npy", _numbers(lambda starts: starts[:-1]), "the arrays do not fit packed.json"),
        ("edge_start.npy", _numbers(lambda s: s[[0, *range(2, len(s) - 1), 1, len(s) - 1]]), "the arrays do not fit"),
        ("edge_start.npy", _numbers(lambda starts: starts[:0]), "the arrays do not fit packed.json"),
        ("train.npy", _numbers(lambda facts: facts[:, :2]), "the arrays do not fit packed.json"),
        ("train.npy", _numbers(lambda facts: facts + 1000), "the arrays do not fit packed.json"),
        ("packed.json", _unsealed(b'"facts": 5', b'"facts": -5'), "a count is below zero"),
        ("packed.json", _unsealed(b'"facts": 5', b'"facts": 1e999'), r"packed.json: is damaged \("),
        ("packed.json", lambda text: b"[" * 50_000, r"packed.json: is damaged \(it is nested too deeply\)"),
    ],
)  # fmt: skip
def test_arrays_that_lead_elsewhere_are_refused(
    name: str, change: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    """Compiled code follows ids unchecked; so whoever made the folder, and its sums, an id of nothing is refused."""
    _packed(tmp_path, FACTS)
    path = tmp_path / "packed" / name
    path.write_bytes(change(path.read_bytes()))
    record = tmp_path / "packed" / "packed.json"
    if name != record.name:
        content = read_sealed(record)
        content["sha256"][name] = sha256(path.read_bytes()).hexdigest()
        record.write_text(json.dumps(content))
    with pytest.raises(DataError, match=said + r".*; pack the graph again\.$"):
        read_split(tmp_path / "packed")


def test_names_that_are_missing_are_told_when_one_is_asked_for(tmp_path: Path) -> None:
    graph = _packed(tmp_path, FACTS)
    (tmp_path / "packed" / "entities.parquet").unlink()
    with pytest.raises(DataError, match=r"entities.parquet: cannot be read \(.*\); pack the graph again\.$"):
        graph.entities.id("a")


@pytest.mark.parametrize("names", [["a", None], [1, 2]])
def test_names_that_are_no_texts_are_refused(names: list[object], tmp_path: Path) -> None:
    graph = _packed(tmp_path, FACTS)
    column = pl.Series("name", [*names, *names * len(graph.entities)][: len(graph.entities)])
    column.to_frame().write_parquet(tmp_path / "packed" / "entities.parquet")
    with pytest.raises(DataError, match=r"entities.parquet: holds names that are not text; pack the graph again\.$"):
        graph.entities.nearest("a", 2)


def _arrays(adjacency: Adjacency) -> list[np.ndarray]:
    return [getattr(adjacency, name) for name in ADJACENCY]


def _assert_equal(mine: Adjacency, theirs: Adjacency) -> None:
    for name, one, other in zip(ADJACENCY, _arrays(mine), _arrays(theirs), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other), name
