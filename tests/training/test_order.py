"""The order of an epoch, and the positives it is made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.errors import DataError
from blockhole.queries.exact import holds
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import sample_walks
from blockhole.runs.config import TrainingConfig
from blockhole.training import positives as positives_module
from blockhole.training.batches import TOGETHER, EpochPlan, PathTensors, Plan
from blockhole.training.positives import (
    FreshWalks,
    Reverse,
    StoredPositives,
    WalkSampler,
    added_walks,
    with_reversed,
)

from .worlds import random_queries, random_split

SPLIT = random_split()
CPU = torch.device("cpu")


def mixed_queries(counts: list[int], seed: int = 0) -> PathQueries:
    """`counts[k - 1]` queries of each length k, with numbers as sources to tell them apart."""
    parts = [random_queries(SPLIT, count, hops + 1, seed) for hops, count in enumerate(counts)]
    queries = PathQueries.concatenate(parts)
    numbers = np.arange(len(queries), dtype=np.int32)
    return PathQueries(numbers, queries.path, queries.length, queries.target)


def stored(
    queries: PathQueries, seed: int, batch_size: int, by_last_relation: bool = False, by_query: bool = False
) -> StoredPositives:
    paths = PathTensors.of(queries, CPU)
    return StoredPositives(paths, seed, batch_size, by_last_relation=by_last_relation, by_query=by_query)


def tensors(**ids: NDArray[np.int32]) -> PathTensors:
    return PathTensors.of(PathQueries(**ids), CPU)


def arrays(paths: PathTensors) -> PathQueries:
    return PathQueries(*(ids.numpy() for ids in (paths.source, paths.path, paths.length, paths.target)))


def sources(plan: EpochPlan) -> list[list[int]]:
    return [plan.batch(index).source.tolist() for index in range(len(plan))]


@given(
    counts=st.lists(st.integers(0, 20), min_size=1, max_size=4).filter(sum),
    size=st.integers(1, 7),
    by_last_relation=st.booleans(),
)
def test_an_epoch_holds_every_positive_once_in_batches_of_one_length(
    counts: list[int], size: int, by_last_relation: bool
) -> None:
    queries = mixed_queries(counts)
    plan = stored(queries, 3, size, by_last_relation=by_last_relation).plan(epoch=1)
    assert sorted(number for batch in sources(plan) for number in batch) == list(range(len(queries)))
    for index in range(len(plan)):
        batch = plan.batch(index)
        assert (batch.epoch, batch.index) == (1, index)
        assert 1 <= len(batch.source) == plan.size(index) <= size
        rows = batch.source.numpy()
        hops = queries.length[rows]
        assert (hops == batch.path.shape[1]).all()
        assert (batch.path.numpy() == queries.path[rows, : hops[0]]).all()
        assert (batch.target.numpy() == queries.target[rows]).all()
        if by_last_relation:
            assert len(set(queries.last_relation[rows].tolist())) == 1


def test_batches_of_one_length_differ_by_one_at_most() -> None:
    plan = stored(mixed_queries([21]), 0, 10).plan(0)
    assert sorted(plan.size(index) for index in range(len(plan))) == [7, 7, 7]


def test_edges_of_one_query_stand_together_in_bunches_and_none_is_lost() -> None:
    rng = np.random.default_rng(0)
    source, relation = rng.integers(4, size=300, dtype=np.int32), rng.integers(2, size=300, dtype=np.int32)
    edges = PathQueries(source, relation[:, None], np.ones(300, dtype=np.int32), np.arange(300, dtype=np.int32))

    def targets(epoch: int) -> list[int]:
        plan = stored(edges, 0, 50, by_query=True).plan(epoch)
        return [target for index in range(len(plan)) for target in plan.batch(index).target.tolist()]

    asked = (2 * source + relation)[targets(0)]
    bunches = sum(-(-int(count) // TOGETHER) for count in np.bincount(asked))
    assert sorted(targets(0)) == list(range(300))
    # A cut between batches may part a bunch.
    assert 1 + np.count_nonzero(np.diff(asked)) <= bunches + 5
    assert targets(0) == targets(0) != targets(1)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    queries = mixed_queries([9, 9])

    def order(seed: int, epoch: int) -> list[list[int]]:
        return sources(stored(queries, seed, 4).plan(epoch))

    assert order(0, 5) == order(0, 5)
    assert order(0, 5) != order(0, 6)
    assert order(0, 5) != order(1, 5)


def test_reversed_positives_by_hand() -> None:
    queries = tensors(
        source=np.array([0, 1], dtype=np.int32),
        path=np.array([[2, 0, 0], [0, 4, 1]], dtype=np.int32),
        length=np.array([1, 3], dtype=np.int32),
        target=np.array([5, 6], dtype=np.int32),
    )
    assert with_reversed(queries, "none", 3) is queries
    edges = with_reversed(queries, "edges", 3)
    assert edges.path.dtype == torch.int32
    assert (edges.source.tolist(), edges.target.tolist()) == ([0, 1, 5], [5, 6, 0])
    assert edges.path[2].tolist() == [5, 0, 0]
    everything = with_reversed(queries, "paths", 3)
    assert everything.path[3].tolist() == [4, 1, 3]
    assert [ids[3].item() for ids in (everything.source, everything.target, everything.length)] == [6, 1, 3]


def test_added_walks_are_true_and_follow_the_seed() -> None:
    graph = SPLIT.graph("train")
    walks = added_walks(graph, TrainingConfig(seed=1))
    assert len(walks) == 20 * len(graph)
    assert holds(graph, walks).all()
    assert np.array_equal(walks.path, added_walks(graph, TrainingConfig(seed=1)).path)
    assert not np.array_equal(walks.path, added_walks(graph, TrainingConfig(seed=2)).path)


def test_walks_are_as_many_and_as_long_as_asked_for() -> None:
    graph = SPLIT.graph("train")
    fresh = FreshWalks(graph, 1, "edges", 8, CPU, lengths=(2, 3), per_edge=2)
    assert len(fresh) == len(fresh.epoch(0)) == 4 * len(graph)
    assert sorted(set(fresh.epoch(0).length.tolist())) == [1, 2, 3]
    added = added_walks(graph, TrainingConfig(walks_per_edge=3, longest=2))
    assert len(added) == 3 * len(graph)
    assert set(added.length.tolist()) == {2}


@pytest.mark.parametrize("reverse", ["none", "edges", "paths"])
def test_fresh_walks_are_true_and_new_every_epoch(reverse: Reverse) -> None:
    graph = SPLIT.graph("train")
    walks = FreshWalks(graph, seed=1, reverse=reverse, batch_size=8, device=CPU)
    first, again, second = walks.epoch(0), FreshWalks(graph, 1, reverse, 8, CPU).epoch(0), walks.epoch(1)
    assert holds(graph, arrays(first)).all()
    assert torch.equal(first.path, again.path)
    assert not torch.equal(first.path, second.path)
    assert set(first.source.tolist() + first.target.tolist()) <= set(graph.triples[:, [0, 2]].ravel().tolist())
    factor = 2 if reverse == "paths" else 1
    edges = len(graph) * (1 if reverse == "none" else 2)
    assert len(walks) == len(first) == factor * 20 * len(graph) + edges
    assert rows(walks.plan(1)) == sorted(zip(second.source.tolist(), *second.path.T.tolist(), strict=True))


def rows(plan: Plan) -> list[tuple[int, ...]]:
    """Source and path of every positive of an epoch, padded to five hops, ascending."""
    batches = [plan.batch(index) for index in range(len(plan))]
    return sorted(
        (int(source), *path.tolist(), *[0] * (5 - len(path)))
        for batch in batches
        for source, path in zip(batch.source, batch.path, strict=True)
    )


def test_stored_positives_are_the_same_in_every_epoch() -> None:
    positives = stored(mixed_queries([9, 0, 5]), seed=0, batch_size=4)
    assert len(positives) == positives.plan(0).positives == 14
    assert rows(positives.plan(0)) == rows(positives.plan(7))
    assert positives.plan(0).batch(0).source.tolist() != positives.plan(7).batch(0).source.tolist()


@pytest.mark.parametrize("chunk", [7, 1 << 22])
def test_walks_sampled_on_a_device_are_those_of_the_host(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positives_module, "CHUNK", chunk)
    for seed, lengths in ((0, (2, 5)), (2**63 - 1, (1, 1)), (12345, (3, 4))):
        split = random_split(seed=seed % 97)
        graph = split.graph("train")
        expected = sample_walks(graph, 500, lengths, seed)
        found = arrays(WalkSampler(graph, CPU).sample(500, lengths, seed))
        for name in ("source", "path", "length", "target"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def test_no_walks_and_no_edges() -> None:
    graph = SPLIT.graph("train")
    assert len(WalkSampler(graph, CPU).sample(0, (2, 5), 0)) == 0
    empty = type(graph)(graph.entities, graph.relations, graph.triples[:0])
    with pytest.raises(DataError, match="the graph has no edges, so there is nothing to walk on"):
        WalkSampler(empty, CPU)
