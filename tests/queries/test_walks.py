"""Random walks: they follow edges, their draws have the stated distribution, and seeds repeat them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from blockhole import compiled
from blockhole.errors import DataError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries import walks as walks_module
from blockhole.queries.exact import holds
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import sample_walks, split_mix
from tests.queries.graphs import graphs, make_graph

# Entity 0 has one edge by relation 0 and three by relation 1; entity 5 has none; line (0, 1, 2) stands twice.
STAR = make_graph([(0, 0, 1), (0, 1, 2), (0, 1, 2), (0, 1, 3), (0, 1, 4)], 6, 2)


def same(a: PathQueries, b: PathQueries) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("source", "path", "length", "target"))


@given(graphs(), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2**64 - 1))
def test_walks_follow_edges(graph: KnowledgeGraph, shortest: int, more: int, seed: int) -> None:
    if not len(graph):
        with pytest.raises(DataError, match="no edges, so there is nothing to walk on"):
            sample_walks(graph, 1, seed=seed)
        return
    walks = sample_walks(graph, 50, (shortest, shortest + more), seed)
    assert len(walks) == 50
    assert holds(graph, walks).all()
    assert ((shortest <= walks.length) & (walks.length <= shortest + more)).all()
    assert not walks.path[np.arange(shortest + more) >= walks.length[:, None]].any()


def test_a_seed_gives_the_same_walks_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks_module, "_CHUNK", 64)
    walks = sample_walks(STAR, 1000, seed=7)
    monkeypatch.setattr(compiled, "available_threads", lambda: 1)
    assert same(sample_walks(STAR, 1000, seed=7), walks)
    monkeypatch.setattr(walks_module, "_CHUNK", 1000)
    assert same(sample_walks(STAR, 1000, seed=7), walks)
    assert same(sample_walks(STAR, 100, seed=7), walks.take(slice(0, 100)))
    assert not same(sample_walks(STAR, 1000, seed=8), walks)


def test_these_walks_stay_what_they_are() -> None:
    """A golden: a change of the generator changes every built data set."""
    walks = sample_walks(STAR, 4, (2, 3), seed=0)
    assert walks.source.tolist() == [2, 4, 0, 3]
    assert walks.path.tolist() == [[3, 1, 0], [3, 0, 2], [1, 3, 0], [3, 1, 3]]
    assert walks.target.tolist() == [4, 0, 0, 0]


def test_these_walks_stay_too() -> None:
    """The same with a dozen neighbours to choose from at each step."""
    draw = np.random.default_rng(0)
    graph = make_graph(np.stack([draw.integers(0, count, 200) for count in (12, 4, 12)], axis=1), 12, 4)
    walks = sample_walks(graph, 6, (2, 3), seed=1)
    assert walks.source.tolist() == [8, 0, 3, 6, 7, 10]
    assert walks.path.tolist() == [[1, 4, 0], [7, 0, 0], [2, 1, 0], [0, 4, 5], [0, 6, 0], [2, 7, 5]]
    assert walks.target.tolist() == [5, 1, 0, 9, 9, 11]


def test_bits_are_those_of_the_published_generator() -> None:
    """The first three numbers of SplitMix64 from the state 0, as its authors' program prints them."""
    bits = split_mix(np.arange(1, 4, dtype=np.uint64))
    assert bits.tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def uniform(values: list[object], expected: dict[object, float]) -> bool:
    counts = Counter(values)
    assert set(counts) == set(expected)
    total = sum(expected.values())
    result = chisquare([counts[v] for v in expected], [len(values) * share / total for share in expected.values()])
    return bool(result.pvalue > 1e-4)


def test_lengths_and_starts_are_uniform() -> None:
    walks = sample_walks(STAR, 20_000, (2, 5), seed=1)
    assert uniform(walks.length.tolist(), dict.fromkeys(range(2, 6), 1.0))
    assert uniform(walks.source.tolist(), dict.fromkeys(range(5), 1.0))


def test_relations_come_before_targets() -> None:
    """From entity 0 either relation is as likely, and then each distinct neighbour, however many lines it has."""
    walks = sample_walks(STAR, 50_000, (1, 1), seed=2)
    walks = walks.take(walks.source == 0)
    steps: list[object] = list(zip(walks.path[:, 0].tolist(), walks.target.tolist(), strict=True))
    assert uniform(steps, {(0, 1): 3.0, (1, 2): 1.0, (1, 3): 1.0, (1, 4): 1.0})


def test_later_steps_are_drawn_alike_and_independently() -> None:
    """1/^r0/r1: the second step from entity 0 is again a relation first, inverses included."""
    walks = sample_walks(STAR, 50_000, (2, 2), seed=3)
    walks = walks.take(walks.source == 1)
    assert (walks.path[:, 0] == 2).all()
    steps: list[object] = list(zip(walks.path[:, 1].tolist(), walks.target.tolist(), strict=True))
    assert uniform(steps, {(0, 1): 3.0, (1, 2): 1.0, (1, 3): 1.0, (1, 4): 1.0})


def test_lengths_must_make_sense() -> None:
    with pytest.raises(ValueError, match="1 ≤ shortest ≤ longest"):
        sample_walks(STAR, 1, (0, 2))
    with pytest.raises(ValueError, match="1 ≤ shortest ≤ longest"):
        sample_walks(STAR, 1, (3, 2))


def test_walks_of_one_length_and_without_being_told() -> None:
    assert set(sample_walks(STAR, 50, (1, 1)).length.tolist()) == {1}
    assert same(sample_walks(STAR, 50), sample_walks(STAR, 50, (2, 5), seed=0))


def test_no_walks_need_no_edges() -> None:
    assert len(sample_walks(make_graph([], 2, 1), 0)) == 0
