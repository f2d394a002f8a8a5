"""Vocabularies, graphs and their adjacency, against dictionaries and sets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.errors import UnknownName
from blockhole.files.frames import to_polars
from blockhole.files.readers import Encoder
from blockhole.graph import knowledge_graph
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.files.facts import Fact, any_name, fact_lists, graph_of, odd_names

pytestmark = odd_names

KIN = Vocabulary(["William", "William IV", "Harry", "Elizabeth", "http://example.org/Alice", "fatherOf", "motherOf"])


@given(facts=fact_lists(any_name))
def test_adjacency_holds_every_edge_both_ways(facts: list[Fact]) -> None:
    graph = graph_of(facts)
    edges = {(s, r, t) for s, r, t in graph.triples.tolist()}
    edges |= {(t, graph.inverse(r), s) for s, r, t in edges}
    for entity in range(graph.num_entities):
        leaving = {r for s, r, _ in edges if s == entity}
        assert graph.adjacency.relations(entity).tolist() == sorted(leaving)
        for relation in range(2 * graph.num_relations):
            targets = sorted(t for s, r, t in edges if (s, r) == (entity, relation))
            assert graph.adjacency.neighbours(entity, relation).tolist() == targets


@given(facts=fact_lists(any_name))
def test_sorting_by_columns_agrees_with_sorting_by_key(facts: list[Fact]) -> None:
    triples = graph_of(facts).triples
    columns = (triples[:, 0], triples[:, 1], triples[:, 2])
    by_key = knowledge_graph._sort_distinct(*columns, 50, 50)
    by_columns = knowledge_graph._sort_distinct(*columns, 2**31, 2**31)
    assert all(np.array_equal(one, other) for one, other in zip(by_key, by_columns, strict=True))


def test_inverting_twice_is_the_identity() -> None:
    graph = graph_of([("a", "r", "b"), ("a", "s", "b")])
    assert [graph.inverse(graph.inverse(r)) for r in range(4)] == [0, 1, 2, 3]
    assert graph.relation_id("s", inverse=True) == graph.inverse(graph.relation_id("s")) == 3
    assert graph.relation_name(3) == ("s", True)
    assert graph.relation_name(1) == ("s", False)


def test_graphs_do_not_change() -> None:
    triples = np.array([[0, 0, 1]], dtype=np.int32)
    graph = KnowledgeGraph(Vocabulary("ab"), Vocabulary("r", "relation"), triples)
    triples[0, 0] = 1
    assert graph.triples.tolist() == [[0, 0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        graph.triples[0, 0] = 1


def test_ids_outside_the_vocabularies_are_refused() -> None:
    for triple in ([0, 0, 2], [0, 1, 0], [-1, 0, 0]):
        with pytest.raises(ValueError, match="outside the vocabularies"):
            KnowledgeGraph(Vocabulary("ab"), Vocabulary("r", "relation"), np.array([triple], dtype=np.int32))


def test_splits_join_into_graphs_in_order() -> None:
    train, test = np.array([[0, 0, 1]], dtype=np.int32), np.array([[1, 0, 0]], dtype=np.int32)
    split = SplitGraph(Vocabulary("ab"), Vocabulary("r", "relation"), train, test=test)
    assert split.graph("train", "test").triples.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert len(split.graph()) == len(split.graph("valid")) == 0
    with pytest.raises(ValueError, match=r"int32 arrays of shape \[T, 3\]"):
        SplitGraph(Vocabulary("ab"), Vocabulary("r", "relation"), np.zeros((1, 2), dtype=np.int32))


@given(facts=fact_lists(any_name), cut=st.integers(0, 20), listed=st.lists(any_name, unique=True, max_size=3))
def test_names_are_numbered_as_a_dictionary_would(facts: list[Fact], cut: int, listed: list[str]) -> None:
    table = to_polars(graph_of(facts))
    encoder = Encoder(listed)
    triples, positive = encoder.encode([table[:cut], table[cut:]])
    entities, relations = encoder.vocabularies()
    expected = dict.fromkeys([*listed, *(name for source, _, target in facts for name in (source, target))])
    assert list(entities) == list(expected)
    assert [(entities[s], relations[r], entities[t]) for s, r, t in triples.tolist()] == facts
    assert positive.all()


def test_large_columns_keep_their_order() -> None:
    """polars may work on large columns in several threads; the order of first appearance must survive that."""
    numbers = np.random.default_rng(0).integers(0, 400_000, 500_000)
    names = pl.Series(numbers).cast(pl.String)
    encoder = Encoder()
    triples, _ = encoder.encode([pl.DataFrame({"source": names, "relation": names, "target": names})])
    _, first = np.unique(numbers, return_index=True)
    assert list(encoder.vocabularies()[0]) == [str(number) for number in numbers[np.sort(first)]]
    assert np.array_equal(triples[:, 0], triples[:, 1])


def test_vocabulary() -> None:
    names = Vocabulary(["b", "a"])
    assert (len(names), names[1], list(names), "a" in names, "c" in names) == (2, "a", ["b", "a"], True, False)
    assert names.ids(["a", "b", "a"]).tolist() == [1, 0, 1]
    assert repr(names) == "Vocabulary(2 entity names)"
    with pytest.raises(ValueError, match="the entity names are not distinct"):
        Vocabulary(["a", "a"]).id("a")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("wiliam", ["William", "William IV"]),
        ("ELIZABETH", ["Elizabeth"]),
        ("Elisabeth", ["Elizabeth"]),
        ("Alice", ["http://example.org/Alice"]),
        ("fatherof", ["fatherOf", "motherOf"]),
        ("zzzz", []),
        ("", []),
    ],
)
def test_nearest_names(name: str, nearest: list[str]) -> None:
    assert KIN.nearest(name, count=2) == nearest


def test_an_unknown_name_suggests_known_ones() -> None:
    with pytest.raises(UnknownName) as failure:
        KIN.id("Wiliam")
    assert str(failure.value) == "unknown entity 'Wiliam'; did you mean 'William' or 'William IV'?"
    with pytest.raises(UnknownName, match=r"unknown relation 'x'\."):
        Vocabulary([], "relation").id("x")


def test_a_name_of_megabytes_is_like_none() -> None:
    assert KIN.nearest("fatherOf" * 2**18) == []


@given(names=st.lists(any_name, unique=True, max_size=30), wanted=any_name, count=st.integers(0, 4))
def test_nearest_names_are_known_names_and_a_known_name_is_nearest(names: list[str], wanted: str, count: int) -> None:
    found = Vocabulary(names).nearest(wanted, count)
    assert len(found) == len(set(found)) <= count
    assert set(found) <= set(names)
    if wanted in names and count:
        assert found[0].casefold() == wanted.casefold()
