"""Sets of queries by type: their easy and hard answers, their files, and sets that belong to another graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from blockhole.errors import DataError
from blockhole.files.readers import read_split
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.exact import plan_answers
from blockhole.queries.plans import Follow, Start
from blockhole.queries.query_sets import (
    QUERY_TYPES,
    QuerySet,
    count_answers,
    easy_and_hard,
    find_query_files,
    graphs_of_split,
    read_query_set,
    slots_of_type,
    steps_of_type,
    write_query_set,
)
from tests.files.published import ENTITIES, HOP, RELATIONS, write_pickle, write_published
from tests.queries.graphs import make_graph


def random_set(count: int = 3, num_entities: int = 6, num_relations: int = 2, seed: int = 0) -> QuerySet:
    draw = np.random.default_rng(seed)
    limits = {"e": num_entities, "r": 2 * num_relations}
    return QuerySet(
        "random-test",
        {
            type_: np.column_stack([draw.integers(0, limits[kind], count) for kind in slots_of_type(type_)]).astype(
                np.int32
            )
            for type_ in reversed(QUERY_TYPES)
        },
    )


@pytest.mark.parametrize("seed", range(5))
def test_hard_answers_are_those_of_truth_that_are_not_easy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    triples = np.column_stack([draw.integers(0, most, 20) for most in (6, 2, 6)])
    known, truth = make_graph(triples[:14], 6, 2), make_graph(triples, 6, 2)
    queries = random_set(5, seed=seed)
    for type_, ids in queries.ids.items():
        batches = list(easy_and_hard(known, truth, type_, ids, batch_size=2))
        assert [(easy.first, hard.first) for easy, hard in batches] == [(0, 0), (2, 2), (4, 4)]
        found = [(easy[row], hard[row]) for easy, hard in batches for row in range(len(easy))]
        for plan, (easy, hard) in zip(queries.plans(type_), found, strict=True):
            before, after = set(plan_answers(known, plan).tolist()), set(plan_answers(truth, plan).tolist())
            assert easy.tolist() == sorted(before)
            assert hard.tolist() == sorted(after - before)


def test_a_set_is_in_the_order_of_the_types_and_cannot_be_changed() -> None:
    queries = random_set()
    assert list(queries.ids) == list(QUERY_TYPES)
    assert len(queries) == 42
    with pytest.raises(ValueError, match="read-only"):
        queries.ids["1p"][0, 0] = 1
    assert queries.plans("1p")[0].ids == tuple(queries.ids["1p"][0])
    assert list(queries.of_types(["pni", "2p"]).ids) == ["2p", "pni"]
    assert QuerySet("none", {"1p": np.zeros((0, 2), dtype=np.int32)}).plans("1p") == []
    with pytest.raises(DataError, match=r"^random-test: there is no query type '4p'; the types are 1p, 2p"):
        queries.of_types(["1p", "4p"])


@pytest.mark.parametrize(
    "rows",
    [np.zeros((1, 3), np.int32), np.zeros((1, 1), np.int32), np.zeros(2, np.int32), np.zeros((1, 2), np.int64)],
    ids=["more ids", "fewer", "no rows", "another type"],
)
def test_ids_of_another_shape_or_type_are_refused(rows: Any) -> None:
    with pytest.raises(ValueError, match=r"^the ids of 1p must be an int32 array of shape \[N, 2\]$"):
        QuerySet("bad", {"1p": rows})


def test_the_ids_that_a_set_uses() -> None:
    queries = QuerySet("some", {
        "2i": np.array([[5, 1, 3, 2]], dtype=np.int32), "1p": np.array([[3, 7], [9, 1]], dtype=np.int32),
    })  # fmt: skip
    assert queries.used("e").tolist() == [3, 5, 9]
    assert queries.used("r").tolist() == [1, 2, 7]
    assert queries.used("e").dtype == np.int32
    assert QuerySet("none", {}).used("e").tolist() == []


def test_a_part_depends_on_seed_and_type_alone() -> None:
    queries = random_set(50, num_entities=10_000)
    part = queries.take(10, seed=3)
    for type_, rows in part.ids.items():
        assert len(rows) == 10
        alone = queries.of_types([type_]).take(10, seed=3)
        assert np.array_equal(alone.ids[type_], rows)
        assert len({tuple(row) for row in rows.tolist()}) == 10  # none is drawn twice
        assert np.array_equal(queries.take(10).ids[type_], queries.take(10, seed=0).ids[type_])
    assert any(not np.array_equal(part.ids[type_], queries.take(10, seed=4).ids[type_]) for type_ in part.ids)
    assert np.array_equal(queries.take(50).ids["2i"], queries.ids["2i"])
    positions = [queries.ids["3p"].tolist().index(row) for row in part.ids["3p"].tolist()]
    assert positions == sorted(positions)


@pytest.mark.parametrize(("which", "counts"), [("train", (0, 3)), ("valid", (3, 4)), ("test", (4, 5))])
def test_the_graphs_of_a_split(which: str, counts: tuple[int, int]) -> None:
    split = SplitGraph(
        Vocabulary("abc"), Vocabulary(["r"], "relation"), np.array([[0, 0, 1], [1, 0, 2], [2, 0, 0]], dtype=np.int32),
        np.array([[0, 0, 2]], dtype=np.int32), np.array([[1, 0, 0]], dtype=np.int32),
    )  # fmt: skip
    graphs = graphs_of_split(split, which)  # type: ignore[arg-type]
    assert tuple(map(len, graphs)) == counts


def test_a_split_without_facts_has_no_hard_answers() -> None:
    split = SplitGraph(Vocabulary("ab"), Vocabulary(["r"], "relation"), np.array([[0, 0, 1]], dtype=np.int32))
    with pytest.raises(DataError) as failure:
        graphs_of_split(split, "valid", "mine")
    assert str(failure.value) == (
        "mine has no validation facts, so that its valid queries have no hard answers; set some aside with "
        "`blockhole data split`, or name another split."
    )


def test_the_letters_of_a_type_are_its_slots() -> None:
    for name, text in QUERY_TYPES.items():
        letters = [letter for letter in text if letter.isalpha()]
        slots = [step.slot for step in steps_of_type(name) if isinstance(step, Start | Follow)]
        assert sorted(letters) == sorted(set(letters))
        assert slots == list(range(len(letters)))
        assert slots_of_type(name) == "".join("e" if letter in "abc" else "r" for letter in letters)


# Files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "entities.txt").write_text("".join(f"e{i}\n" for i in range(6)))
    (tmp_path / "relations.txt").write_text("r0\nr1\n")
    return tmp_path


GRAPH = (Vocabulary([f"e{i}" for i in range(6)]), Vocabulary(["r0", "r1"], "relation"))


def test_a_set_that_is_written_is_read_back(folder: Path) -> None:
    queries = random_set()
    path = write_query_set(queries, folder)
    back = read_query_set(path, *GRAPH)
    assert (back.name, back.split, list(back.ids)) == ("random-test", "test", list(QUERY_TYPES))
    assert all(np.array_equal(back.ids[type_], rows) for type_, rows in queries.ids.items())
    (folder / "facts-test.parquet").write_bytes(b"no query set, and not read")
    pl.DataFrame({"source": ["a"]}).write_parquet(folder / "mine-test.parquet")
    assert find_query_files(folder) == {"facts-test": folder / "facts-test.parquet", "random-test": path}


def test_names_beside_a_set_say_what_its_ids_mean(folder: Path) -> None:
    path = write_query_set(random_set(), folder)
    moved = read_query_set(
        path,
        Vocabulary(["other", *(f"e{i}" for i in reversed(range(6)))]),
        Vocabulary(["r1", "s", "r0"], "relation"),
    )
    queries = random_set()
    entity, relation = [6, 5, 4, 3, 2, 1], [2, 0, 5, 3]
    for type_, rows in queries.ids.items():
        maps = [entity if kind == "e" else relation for kind in slots_of_type(type_)]
        assert moved.ids[type_].tolist() == [[of[i] for of, i in zip(maps, row, strict=True)] for row in rows.tolist()]
    (folder / "entities.txt").unlink()
    assert np.array_equal(read_query_set(path, *GRAPH).ids["3p"], queries.ids["3p"])


def test_a_set_of_another_graph_is_refused_by_its_names(folder: Path) -> None:
    path = write_query_set(random_set(20), folder)
    with pytest.raises(DataError) as failure:
        read_query_set(path, Vocabulary(["e0", "e2", "e5", *"abc"]), GRAPH[1])
    assert str(failure.value) == (
        f"{path} is a query set of another graph: 3 entities of its queries are missing from this one, the first being "
        "'e1'; name the data set that it was made for."
    )
    with pytest.raises(DataError, match=r"1 relation of its queries is missing from this one, the first being 'r1'"):
        read_query_set(path, GRAPH[0], Vocabulary(["r0", "s"], "relation"))


def test_a_set_of_another_graph_is_refused_by_its_ids(tmp_path: Path) -> None:
    queries = QuerySet("far-test", {"2p": np.array([[0, 1, 2], [1, 4, 0], [6, 0, 0]], dtype=np.int32)})
    path = write_query_set(queries, tmp_path)
    with pytest.raises(DataError) as failure:
        read_query_set(path, *GRAPH)
    assert str(failure.value) == (
        f"{path} is a query set of another graph: 2 queries of 3 hold ids beyond the 6 entities and 2 relations that "
        "the graph has, the first being 2p [1, 4, 0]; name the data set that it was made for."
    )


def test_ids_are_those_of_every_relation_and_its_inverse(tmp_path: Path) -> None:
    graph = Vocabulary("abcd"), Vocabulary("rst", "relation")
    for row in ([3, 5], [0, 0]):
        path = write_query_set(QuerySet("own-test", {"1p": np.array([row], dtype=np.int32)}), tmp_path)
        assert read_query_set(path, *graph).ids["1p"].tolist() == [row]
    for row in ([4, 0], [0, 6], [-1, 0], [0, -1]):
        path = write_query_set(QuerySet("far-test", {"1p": np.array([row], dtype=np.int32)}), tmp_path)
        with pytest.raises(DataError, match=r"1 query of 1 holds ids beyond the 4 entities and 3 relations"):
            read_query_set(path, *graph)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"type": ["2q"], "ids": [[0, 1]]}, r"there is no query type '2q'; the types are 1p, 2p, 3p, 2i, .*, pni\."),
        ({"type": ["pnp"], "ids": [[0, 1]]}, r"there is no query type 'pnp'"),
        ({"type": [None], "ids": [[0, 1]]}, r"there is no query type"),
        ({"type": ["2p"], "ids": [[0, 1]]}, r"a query of type 2p has other than 3 ids; write the columns type"),
        ({"type": ["1p", "1p"], "ids": [[0, 1], [0, 1, 2]]}, r"a query of type 1p has other than 2 ids"),
        ({"type": ["1p"], "ids": [None]}, r"a query of type 1p has other than 2 ids"),
        ({"type": ["1p"], "ids": [[0, None]]}, r"a query of type 1p has other than 2 ids"),
        ({"source": ["a"], "path": ["r"]}, r"no query set: it has no column type and no column ids; write the columns"),
        ({"type": ["1p"], "ids": [["a", "r"]]}, r"no query set \("),
        ({"type": ["1p"], "ids": ["a"]}, r"no query set \("),
        ({"type": [], "ids": []}, r"has no queries; give a file with some\."),
    ],
)
def test_what_is_no_query_set_is_one_sentence(folder: Path, table: dict[str, list[object]], problem: str) -> None:
    pl.DataFrame(table, strict=False).write_parquet(folder / "bad-test.parquet")
    with pytest.raises(DataError, match=rf"bad-test\.parquet: .*{problem}" if "no queries" not in problem else problem):
        read_query_set(folder / "bad-test.parquet", *GRAPH)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("bad-test.parquet", b"hello", r"bad-test\.parquet: no query set \("),
        (
            "queries.tsv",
            b"a\tr\tb\n",
            r"queries\.tsv: a query set is a \.parquet file, or a published pickle such as test-queries\.pkl",
        ),
        (
            "test-queries.pkl",
            b"",
            r"test-queries\.pkl: nothing beside it names its ids; put id2ent\.pkl and id2rel\.pkl",
        ),
    ],
)
def test_other_files_are_one_sentence(folder: Path, name: str, content: bytes, problem: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        read_query_set(folder / name, *GRAPH)
    with pytest.raises(DataError, match="no such file"):
        read_query_set(folder / "nothing.parquet", *GRAPH)


# Published pickles


def test_published_queries_are_read_by_structure_in_the_graph_s_numbering(tmp_path: Path) -> None:
    split = read_split(write_published(tmp_path))
    queries = read_query_set(tmp_path / "test-queries.pkl", split.entities, split.relations)
    assert (queries.name, queries.split) == ("published-test", "test")
    assert {type_: rows.tolist() for type_, rows in queries.ids.items()} == {
        "1p": [[0, 0], [3, 2]],
        "2u": [[0, 0, 1, 1]],
        "inp": [[0, 0, 1, 1, 1]],
        "pni": [[4, 3, 2, 0, 0]],
    }
    assert find_query_files(tmp_path) == {"published-test": tmp_path / "test-queries.pkl"}
    counts = count_answers(split, queries)
    assert counts["1p"] == {"queries": 2, "hard_answers": 2}  # dot of ann/likes, and ann of dot/^likes


def grounded(part: Any, entities: Iterator[int], relations: Iterator[int]) -> Any:
    """A structure with ids in it."""
    if isinstance(part, tuple):
        return tuple(grounded(inner, entities, relations) for inner in part)
    return {"u": -1, "n": -2}[part] if part in "un" else next(entities if part == "e" else relations)


def test_every_type_has_a_structure(tmp_path: Path) -> None:
    """Ids 0, 1, 2, … in the slots of each type, in the nested form that its query has."""
    split = read_split(write_published(tmp_path))
    structures: dict[str, Any] = {
        "1p": HOP,
        "2p": ("e", ("r", "r")),
        "3p": ("e", ("r", "r", "r")),
        "2i": (HOP, HOP),
        "3i": (HOP, HOP, HOP),
        "pi": (("e", ("r", "r")), HOP),
        "ip": ((HOP, HOP), ("r",)),
        "2u": (HOP, HOP, ("u",)),
        "up": ((HOP, HOP, ("u",)), ("r",)),
        "2in": (HOP, ("e", ("r", "n"))),
        "3in": (HOP, HOP, ("e", ("r", "n"))),
        "inp": ((HOP, ("e", ("r", "n"))), ("r",)),
        "pin": (("e", ("r", "r")), ("e", ("r", "n"))),
        "pni": (("e", ("r", "r", "n")), HOP),
    }
    for type_, structure in structures.items():
        query = grounded(structure, iter(range(5)), iter([0, 2, 3, 1]))
        write_pickle(tmp_path / "valid-queries.pkl", {structure: {query}})
        queries = read_query_set(tmp_path / "valid-queries.pkl", split.entities, split.relations)
        entities, relations = iter(range(5)), iter([0, 1, 3, 2])
        expected = [next(entities if kind == "e" else relations) for kind in slots_of_type(type_)]
        assert {name: rows.tolist() for name, rows in queries.ids.items()} == {type_: [expected]}
        assert queries.split == "valid"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({("e", ("r",) * 4): {(0, (0,) * 4)}}, r"queries of the structure \('e', \('r', 'r', 'r', 'r'\)\); the types"),
        ({HOP: {(0, (0, 1))}}, r"a query of type 1p is not of the form \('e', \('r',\)\)"),
        ({HOP: {(0, 0)}}, r"a query of type 1p is not of the form"),
        ({HOP: {("ann", (0,))}}, r"a query of type 1p is not of the form"),
        ({HOP: 5}, r"a query of type 1p is not of the form"),
        ({HOP: {(2**40, (0,))}}, r"a query of type 1p is not of the form"),
        ({(HOP, HOP, ("u",)): {((0, (0,)), (0, (2,)), (-2,))}}, r"a query of type 2u is not of the form"),
        ({HOP: {(5, (0,)), (0, (1,))}}, r"another graph: 1 query of 2 holds ids beyond the 5 entities and 2 relations"),
        ({HOP: {(0, (4,))}}, r"another graph: 1 query of 1"),
        ([1], r"no query set, but another pickle"),
        ({}, r"has no queries"),
        ({HOP: {Path()}}, r"the pickle holds pathlib.*nothing of it was run"),
    ],
)
def test_other_pickles_are_one_sentence(tmp_path: Path, value: object, problem: str) -> None:
    write_published(tmp_path)
    write_pickle(tmp_path / "test-queries.pkl", value)
    with pytest.raises(DataError, match=problem):
        read_query_set(tmp_path / "test-queries.pkl", Vocabulary(ENTITIES), Vocabulary(RELATIONS, "relation"))
