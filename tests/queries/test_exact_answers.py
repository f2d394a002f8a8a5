"""Exact answers against a SPARQL engine, on each of the three ways to compute them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.files.readers import UnseenEntities, read_graph, read_split
from blockhole.graph.knowledge_graph import KnowledgeGraph, edges_by_relation
from blockhole.queries import exact
from blockhole.queries.answer_masks import AnswerMasks, hold_by_masks
from blockhole.queries.exact import answer_sets, answers, holds, typed_candidates
from blockhole.queries.path_sets import read_paths
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import sample_walks
from tests.queries.graphs import graphs, graphs_with_queries, make_graph, random_queries
from tests.queries.sparql import SparqlOracle

Engine = Callable[[KnowledgeGraph, PathQueries], list[list[int]]]


def by_sets(graph: KnowledgeGraph, queries: PathQueries) -> list[list[int]]:
    found: list[list[int]] = []
    for sets in answer_sets(graph, queries, batch_size=5):
        assert sets.first == len(found)
        found.extend(sets[row].tolist() for row in range(len(sets)))
    return found


def by_mask(graph: KnowledgeGraph, queries: PathQueries) -> list[list[int]]:
    tensors = [torch.tensor(array) for array in (queries.source, queries.path, queries.length)]
    mask = AnswerMasks(graph, "cpu", memory=1000)(*tensors)  # a few queries at a time, or one
    assert mask.dtype == torch.bool
    return [row.nonzero()[:, 0].tolist() for row in mask]


def one_by_one(graph: KnowledgeGraph, queries: PathQueries) -> list[list[int]]:
    return [
        answers(graph, source, path[:length]).tolist()
        for source, path, length in zip(queries.source, queries.path, queries.length, strict=True)
    ]


@pytest.fixture(params=["numba", "numpy"])
def with_and_without_numba(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the compiled loops, and as on a machine that has no Numba."""
    if request.param == "numpy":
        monkeypatch.setattr(exact, "numba_installed", lambda: False)
    return str(request.param)


def oracle(graph: KnowledgeGraph, queries: PathQueries) -> list[list[int]]:
    sparql = SparqlOracle(graph)
    return [
        sparql.answers(source, path[:length])
        for source, path, length in zip(queries.source, queries.path, queries.length, strict=True)
    ]


@given(graphs_with_queries())
def test_every_way_agrees_with_sparql(case: tuple[KnowledgeGraph, PathQueries]) -> None:
    graph, queries = case
    expected = oracle(graph, queries)
    true = [target in found for target, found in zip(queries.target, expected, strict=True)]
    assert by_sets(graph, queries) == expected
    assert by_mask(graph, queries) == expected
    assert one_by_one(graph, queries) == expected
    assert holds(graph, queries).tolist() == true
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "numba_installed", lambda: False)
        assert by_sets(graph, queries) == expected
        assert holds(graph, queries).tolist() == true


@pytest.mark.parametrize("engine", [by_sets, by_mask, one_by_one])
@pytest.mark.parametrize("name", ["umls", "kinship"])
def test_real_graphs_agree_with_sparql(engine: Engine, name: str, data_root: Path) -> None:
    graph = read_graph(data_root / name / "train.txt")
    queries = PathQueries.concatenate([random_queries(graph, 20, 3, seed=1), sample_walks(graph, 20, (1, 3), seed=2)])
    assert engine(graph, queries) == oracle(graph, queries)


def hub(people: int) -> KnowledgeGraph:
    """All people have one of two genders and one of 25 countries, and know the next one."""
    who = np.arange(people)
    triples = [
        np.stack([who, np.full(people, 0), people + who % 2], axis=1),
        np.stack([who, np.full(people, 1), people + 2 + who % 25], axis=1),
        np.stack([who, np.full(people, 2), (who + 1) % people], axis=1),
    ]
    return make_graph(np.concatenate(triples), people + 27, 3)


def test_hubs_are_entered_and_left_from_either_side(with_and_without_numba: str) -> None:
    """Sets large and small beside what a relation reaches: both directions of a hop are taken."""
    graph = hub(2000)
    gender, country, knows = 0, 1, 2
    back = 3
    paths = {
        (gender,): [2001],
        (gender, gender + back): list(range(1, 2000, 2)),
        (gender, gender + back, country): list(range(2002, 2027)),
        (gender, gender + back, knows, gender): [2000],
        (gender, gender + back, country, country + back): list(range(2000)),
        (knows, knows, knows + back): [2],
        (gender, country): [],
    }
    queries = PathQueries(
        source=np.full(len(paths), 1, dtype=np.int32),
        path=np.array([path + (0,) * (4 - len(path)) for path in paths], dtype=np.int32),
        length=np.array([len(path) for path in paths], dtype=np.int32),
        target=np.full(len(paths), 2000, dtype=np.int32),
    )
    assert by_sets(graph, queries) == list(paths.values())
    assert holds(graph, queries).tolist() == [2000 in found for found in paths.values()]


def test_compiled_and_plain_answers_agree_on_a_real_graph(data_root: Path) -> None:
    graph = read_graph(data_root / "wn11" / "train.txt")
    walks = sample_walks(graph, 300, (1, 5), seed=3)
    other = random_queries(graph, 100, 5, seed=4)
    queries = PathQueries.concatenate(
        [walks, other, PathQueries(walks.source, walks.path, walks.length, walks.target[::-1])]
    )
    sets, true = by_sets(graph, queries), holds(graph, queries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "numba_installed", lambda: False)
        assert by_sets(graph, queries) == sets
        assert np.array_equal(holds(graph, queries), true)
    assert true[: len(walks)].all()
    assert not true.all()
    assert by_mask(graph, queries.take(slice(0, 64))) == sets[:64]


def test_published_deduction_queries_hold_in_the_train_graph(data_root: Path) -> None:
    """The published split itself was made by the definition."""
    with pytest.warns(UnseenEntities):
        split = read_split(data_root / "wn11")
    for part, known in (("dev_deduction", True), ("dev_induction", False)):
        queries = read_paths(data_root / "wn11" / "paths" / f"{part}.tsv", split.entities, split.relations)
        assert (holds(split.graph("train"), queries) == known).all()
        assert holds(split.graph("train", "valid"), queries).all()


def test_masks_are_made_for_as_many_queries_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query takes a flag, its count and its group's count for each edge, and two flags for each entity."""
    graph = hub(50)
    queries = random_queries(graph, 100, 3, seed=0)
    tensors = [torch.tensor(array) for array in (queries.source, queries.path, queries.length)]
    whole = AnswerMasks(graph)(*tensors)
    follow, together = AnswerMasks._follow, list[int]()

    def counted(self: AnswerMasks, reached: torch.Tensor, *path: NDArray[np.int32]) -> None:
        together.append(len(reached))
        follow(self, reached, *path)

    monkeypatch.setattr(AnswerMasks, "_follow", counted)
    each = 9 * 50 + 2 * graph.num_entities + 1
    for memory, rows in ((7 * each, 7), (8 * each - 1, 7), (100 * each, 100), (1, 1)):
        together.clear()
        assert torch.equal(AnswerMasks(graph, memory=memory)(*tensors), whole)
        assert together == [rows] * (100 // rows) + [100 % rows] * bool(100 % rows)


@given(graphs_with_queries())
def test_masks_tell_whether_a_query_holds(case: tuple[KnowledgeGraph, PathQueries]) -> None:
    graph, queries = case
    for batch_size in (3, 100):
        assert np.array_equal(hold_by_masks(graph, queries, "cpu", batch_size), holds(graph, queries))


@given(graphs())
def test_typed_candidates_are_the_objects_of_a_relation(graph: KnowledgeGraph) -> None:
    R = graph.num_relations
    facts = [fact for s, r, o in graph.triples.tolist() for fact in ((s, r, o), (o, r + R, s))]
    expected = [sorted({o for _, relation, o in facts if relation == r}) for r in range(2 * R)]
    for edges in (None, edges_by_relation(graph)):
        typed = typed_candidates(graph, edges)
        assert [typed[r].tolist() for r in range(2 * R)] == expected
        assert len(typed.start) == 2 * R + 1


def test_edges_by_relation_cannot_be_changed() -> None:
    edges = edges_by_relation(make_graph([(0, 0, 1)], 2, 1))
    for array in (edges.relation_start, edges.group_source, edges.edge_start, edges.target):
        assert not array.flags.writeable
    with pytest.raises(FrozenInstanceError):
        edges.target = edges.group_source  # type: ignore[misc]


def test_rows_name_the_query_of_each_answer() -> None:
    graph = make_graph([(0, 0, 1), (0, 0, 2), (1, 0, 2)], 3, 1)
    queries = PathQueries.from_triples(np.array([(0, 0, 1), (2, 0, 0), (1, 0, 2)], dtype=np.int32))
    (sets,) = answer_sets(graph, queries)
    assert sets.entities.tolist() == [1, 2, 2]
    assert sets.row.tolist() == [0, 0, 2]
    with pytest.raises(FrozenInstanceError):
        sets.first = 1  # type: ignore[misc]


def test_no_queries_have_no_answers(with_and_without_numba: str) -> None:
    graph = make_graph([(0, 0, 1)], 2, 1)
    nothing = PathQueries.from_triples(np.zeros((0, 3), dtype=np.int32))
    assert list(answer_sets(graph, nothing)) == []
    assert holds(graph, nothing).shape == (0,)
    empty = torch.zeros(0, dtype=torch.int32)
    assert AnswerMasks(graph)(empty, torch.zeros(0, 1, dtype=torch.int32), empty).shape == (0, 2)


@pytest.mark.parametrize(
    "query",
    [
        ([2], [[0]], [1], [0]),
        ([-1], [[0]], [1], [0]),
        ([0], [[2]], [1], [0]),
        ([0], [[-1]], [1], [0]),
        ([0], [[0]], [1], [2]),
        ([0], [[0]], [1], [-1]),
        ([0], [[0]], [0], [0]),
        ([0], [[0]], [2], [0]),
    ],
)
def test_ids_outside_the_graph_are_refused(query: tuple[list[int], list[list[int]], list[int], list[int]]) -> None:
    graph = make_graph([(0, 0, 1)], 2, 1)
    queries = PathQueries(*(np.array(values, dtype=np.int32) for values in query))
    with pytest.raises(ValueError, match="outside the graph's vocabularies, or paths without hops"):
        answer_sets(graph, queries)
    with pytest.raises(ValueError, match="outside the graph's vocabularies, or paths without hops"):
        holds(graph, queries)


def test_what_stands_behind_a_path_is_not_looked_at() -> None:
    graph = make_graph([(0, 0, 1)], 2, 1)
    queries = PathQueries(*(np.array(values, dtype=np.int32) for values in ([0], [[0, 99]], [1], [1])))
    assert holds(graph, queries).tolist() == [True]


@given(graph=graphs(), few=st.booleans(), data=st.data())
def test_edges_from_some_sources_are_those_of_the_graph(graph: KnowledgeGraph, few: bool, data: st.DataObject) -> None:
    """Whether the sources are sought among the relation's, which takes few of them, or marked."""
    everyone, edges = list(range(graph.num_entities)), edges_by_relation(graph)
    sources = np.array(sorted(data.draw(st.sets(st.sampled_from(everyone)) if everyone else st.just(set()))), dtype=int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_SOUGHT", 0 if few else 10_000)
        for relation in range(2 * graph.num_relations):
            source, target = edges.edges(relation)
            own = np.isin(source, sources)
            if few and not own.size:
                continue  # nothing to seek in
            found = exact.edges_from(edges, sources, relation)
            np.testing.assert_array_equal(found[0], source[own])
            np.testing.assert_array_equal(found[1], target[own])
