"""How the compiled loops decide which way to go: any way gives the same answers, but not in the same time."""

from __future__ import annotations

import numpy as np
import pytest

from blockhole.graph.knowledge_graph import KnowledgeGraph, edges_by_relation
from blockhole.queries.answer_loops import Edges, asks_targets, grows_less, is_sparse
from blockhole.queries.exact import answer_sets, answers, flat_edges
from blockhole.queries.paths import PathQueries
from tests.queries.graphs import make_graph, random_queries

GENDER, COUNTRY, KNOWS = 0, 1, 2


def people(count: int = 100) -> KnowledgeGraph:
    """All have one of two genders; every other has one of five countries; each knows the next two."""
    who = np.arange(count)
    some = who[::2]
    facts = [
        np.stack([who, np.full(count, GENDER), count + who % 2], axis=1),
        np.stack([some, np.full(len(some), COUNTRY), count + 2 + some // 2 % 5], axis=1),
        *(np.stack([who, np.full(count, KNOWS), (who + step) % count], axis=1) for step in (1, 2)),
    ]
    return make_graph(np.concatenate(facts), count + 7, 3)


def flat(graph: KnowledgeGraph) -> Edges:
    return flat_edges(graph, edges_by_relation(graph))


# Sources, targets and edges of each relation.
SIZES = {GENDER: (100, 2, 100), COUNTRY: (50, 5, 50), KNOWS: (100, 100, 200)}


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("relation", [GENDER, COUNTRY, KNOWS])
def test_targets_are_asked_where_that_takes_fewer_look_ups(relation: int, inverse: bool) -> None:
    edges = flat(people())
    sources, targets, facts = SIZES[relation]
    if inverse:
        sources, targets = targets, sources
    for count in range(1, 107):
        # A member costs one search and its edges; a target one search and the edges until it meets a member.
        along, against = count * (1 + facts / sources), targets * (1 + sources / count)
        assert asks_targets(edges, relation + 3 * inverse, count) == (against < along)


def test_the_side_grows_that_has_fewer_edges_to_follow() -> None:
    edges = flat(people())
    # One edge a person to a gender, 50 back from a gender, 10 from a country to its people, 2 to those one knows.
    assert grows_less(edges, GENDER, 1, GENDER + 3, 1)
    assert not grows_less(edges, GENDER + 3, 1, GENDER, 1)
    assert grows_less(edges, GENDER, 20, COUNTRY + 3, 2)
    assert not grows_less(edges, GENDER, 21, COUNTRY + 3, 2)
    assert grows_less(edges, KNOWS, 10, GENDER, 20)
    assert not grows_less(edges, KNOWS, 11, GENDER, 20)


def test_a_relation_without_edges_is_followed_first() -> None:
    """It ends the search, and has neither members' edges nor targets to look at."""
    graph = make_graph([(0, 0, 1), (1, 0, 2)], 3, 2)
    assert asks_targets(flat(graph), 1, 1)
    assert grows_less(flat(graph), 1, 100, 0, 1)
    assert not grows_less(flat(graph), 0, 1, 1, 100)


def test_a_set_is_sparse_below_one_of_32() -> None:
    flags = np.zeros(1000, dtype=np.bool_)
    assert is_sparse(31, flags)
    assert not is_sparse(32, flags)
    assert not is_sparse(1, flags[:32])


@pytest.mark.parametrize("found", [1022, 1023, 1024, 1025, 3000])
def test_answers_fill_the_room_made_for_them_to_the_last(found: int) -> None:
    """One source leads to `found` entities; the last entity is not among them, and more queries follow."""
    facts = [(0, 0, target) for target in range(1, found + 1)]
    graph = make_graph(facts, found + 2, 1)
    queries = PathQueries.from_triples(np.array([(0, 0, 1), (1, 1, 0), (0, 0, 2)], dtype=np.int32))
    (sets,) = answer_sets(graph, queries)
    assert sets[0].tolist() == sets[2].tolist() == list(range(1, found + 1))
    assert sets[1].tolist() == [0]


def test_sparse_and_dense_sets_are_written_and_forgotten_alike() -> None:
    graph = people()
    queries = random_queries(graph, 200, 4, seed=0)
    (sets,) = answer_sets(graph, queries)
    for row in range(len(queries)):
        path = queries.path[row, : queries.length[row]].tolist()
        assert sets[row].tolist() == answers(graph, int(queries.source[row]), path).tolist()
