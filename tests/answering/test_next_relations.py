"""Relations that make sense next, and the facts about an entity, against reading all facts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.answering.known import KnownFacts, NextRelations, neighbourhood
from blockhole.errors import UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.language import encode_prefix
from blockhole.queries.plans import Plan

E, R = 6, 3
facts = st.lists(st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1)), max_size=12)


def _graph(triples: list[tuple[int, int, int]]) -> KnowledgeGraph:
    names = Vocabulary([f"e/{i}" for i in range(E)])
    relations = Vocabulary(["likes", "born in", "p"], "relation")
    return KnowledgeGraph(names, relations, np.array(triples, dtype=np.int32).reshape(-1, 3))


@given(facts, st.integers(0, E - 1), st.lists(st.integers(0, 2 * R - 1), max_size=3))
def test_next_relations_are_those_of_reading_all_facts(
    triples: list[tuple[int, int, int]], source: int, path: list[int]
) -> None:
    edges = {*triples, *((o, r + R, s) for s, r, o in triples)}

    def leaving(entities: set[int]) -> set[int]:
        return {r for s, r, _ in edges if s in entities}

    def of_kind(relation: int) -> set[int]:
        return {s for s, r, _ in edges if r == relation}

    reached = {source}
    for relation in path:
        reached = {o for s, r, o in edges if s in reached and r == relation}
    if path:
        sensible = leaving({o for _, r, o in edges if r == path[-1]})
    else:
        kinds = leaving({source})
        sensible = leaving(set().union(*map(of_kind, kinds))) if kinds else set(range(2 * R))
    expected = [(r, sum(s in reached and r == each for s, each, _ in edges), len(of_kind(r))) for r in sensible]
    expected.sort(key=lambda each: (not each[1], -each[2], each[0]))
    found = NextRelations(KnownFacts(_graph(triples))).after(Plan.of_chain(source, path))
    if path and not sensible:  # nothing is of the kind that the last relation leads to
        assert found == []
    assert [tuple(each) for each in found] == expected


def test_next_relations_after_branches() -> None:
    """After & what makes sense after both sides, after | what does after either; facts always lead on."""
    graph = _graph([(0, 0, 1), (1, 1, 2), (3, 2, 4), (4, 2, 5)])

    def after(text: str) -> dict[int, bool]:
        following = NextRelations(KnownFacts(graph)).after(encode_prefix(text, graph))
        return {each.relation: each.known for each in following}

    assert after('"e/0"/likes') == {1: True, 3: True}
    assert after('"e/3"/p') == {2: True, 5: True}
    assert after('"e/0"/likes | "e/3"/p') == {1: True, 2: True, 3: True, 5: True}
    assert after('"e/0"/likes & "e/3"/p') == {}
    assert after('"e/0"/likes & !"e/3"/p') == {1: True, 3: True}
    assert after('"e/0"/likes & !"e/1"') == {1: False, 3: False}


def test_anywhere_is_every_relation_and_inverse() -> None:
    found = NextRelations(KnownFacts(_graph([(0, 1, 2), (1, 1, 2)]))).anywhere()
    assert [tuple(each) for each in found] == [
        (1, False, 2),
        (4, False, 1),
        (0, False, 0),
        (2, False, 0),
        (3, False, 0),
        (5, False, 0),
    ]


def test_a_neighbourhood_groups_facts_by_relation_and_pages_them() -> None:
    graph = _graph([(0, 0, 1), (0, 0, 2), (0, 0, 3), (4, 1, 0), (0, 0, 1)])
    whole = neighbourhood(graph, "e/0", limit=2)
    assert (whole.entity, whole.text, whole.facts) == ("e/0", '"e/0"', 4)
    assert [(each.text, each.inverse, each.total, each.entities) for each in whole.relations] == [
        ("likes", False, 3, ("e/1", "e/2")),
        ('^"born in"', True, 1, ("e/4",)),
    ]
    rest = neighbourhood(graph, "e/0", limit=2, relation=0, offset=2)
    assert [(each.name, each.total, each.offset, each.entities) for each in rest.relations] == [
        ("likes", 3, 2, ("e/3",))
    ]
    assert neighbourhood(graph, "e/0", relation=2).relations[0].total == 0
    with pytest.raises(UnknownName, match="unknown entity 'nobody'"):
        neighbourhood(graph, "nobody")
