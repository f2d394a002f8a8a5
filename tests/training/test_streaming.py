"""Positives that are made batch by batch: all of them, once each, in an order that seeds and epochs decide."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import blockhole
from blockhole.data.packing import pack
from blockhole.errors import ConfigError
from blockhole.files.writers import write_graph
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.exact import holds
from blockhole.queries.paths import PathQueries
from blockhole.training.batches import Batch
from blockhole.training.positives import ROUNDS, FreshWalks, Reverse, StreamedPositives, shuffled
from tests.queries.graphs import make_graph

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
GRAPH = make_graph([(int(s), int(r), int(o)) for s, r, o in RNG.integers([20, 3, 20], size=(60, 3))], 20, 3)


def _positives(reverse: Reverse = "none", *, walks: bool = False, batch_size: int = 8) -> StreamedPositives:
    return StreamedPositives(GRAPH, 7, reverse, batch_size, CPU, walks=walks)


def _triples(batches: list[Batch]) -> Counter[tuple[int, ...]]:
    return Counter(
        (int(s), *map(int, p), int(o)) for b in batches for s, p, o in zip(b.source, b.path, b.target, strict=True)
    )


def _all(positives: StreamedPositives, epoch: int) -> list[Batch]:
    plan = positives.plan(epoch)
    batches = [plan.batch(i) for i in range(len(plan))]
    assert [len(batch.source) for batch in batches] == [plan.size(i) for i in range(len(plan))]
    assert sum(plan.size(i) for i in range(len(plan))) == plan.positives == len(positives)
    return batches


@given(size=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_a_shuffle_is_a_permutation(size: int, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(2**64, size=ROUNDS, dtype=np.uint64)
    places = np.arange(size, dtype=np.uint64)
    assert sorted(shuffled(places, size, keys).tolist()) == list(range(size))
    assert np.array_equal(shuffled(places[::2], size, keys), shuffled(places, size, keys)[::2])


def test_a_shuffle_prefers_no_place() -> None:
    size = 5000  # two numbers of a few bits each are no random permutation; packed graphs are far larger
    quarters = np.zeros((4, 4))
    rng = np.random.default_rng(1)
    for _ in range(3000):
        places = shuffled(np.arange(2, dtype=np.uint64), size, rng.integers(2**64, size=ROUNDS, dtype=np.uint64))
        quarters[tuple(4 * places // size)] += 1
    assert chisquare(quarters.ravel()).pvalue > 1e-4


def test_an_epoch_holds_every_fact_once() -> None:
    expected = Counter(map(tuple, GRAPH.triples.tolist()))
    for epoch in (0, 1):
        assert _triples(_all(_positives(), epoch)) == expected
    orders = [[batch.source.tolist() for batch in _all(_positives(), epoch)] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]


@pytest.mark.parametrize("reverse", ["edges", "paths"])
def test_facts_are_read_backwards_too(reverse: Reverse) -> None:
    forward = Counter(map(tuple, GRAPH.triples.tolist()))
    backward = Counter((o, r + 3, s) for s, r, o in GRAPH.triples.tolist())
    assert _triples(_all(_positives(reverse), 0)) == forward + backward


@pytest.mark.parametrize("reverse", ["none", "edges", "paths"])
def test_as_many_positives_as_fresh_walks_has(reverse: Reverse) -> None:
    streamed, fresh = _positives(reverse, walks=True), FreshWalks(GRAPH, 7, reverse, 8, CPU)
    assert len(streamed) == len(fresh)
    lengths: Counter[int] = Counter()
    for batch in _all(streamed, 0):
        count, hops = batch.path.shape
        lengths[hops] += count
        queries = PathQueries(
            batch.source.numpy().astype(np.int32),
            batch.path.numpy().astype(np.int32),
            np.full(count, hops, dtype=np.int32),
            batch.target.numpy().astype(np.int32),
        )
        assert holds(GRAPH, queries).all()
    assert {lengths[hops] for hops in (2, 3, 4, 5)} == {(1 + (reverse == "paths")) * 5 * len(GRAPH)}


def test_walks_are_other_ones_in_every_epoch_and_of_every_length() -> None:
    walks = [_triples([b for b in _all(_positives(walks=True), epoch) if b.path.shape[1] == 5]) for epoch in (0, 1)]
    assert walks[0] != walks[1]
    twos = {key[0] for key in _triples([b for b in _all(_positives(walks=True), 0) if b.path.shape[1] == 2])}
    assert twos == set(np.unique(GRAPH.triples[:, [0, 2]]).tolist())


def _packed(folder: Path, graph: KnowledgeGraph) -> Path:
    write_graph(graph, folder / "facts.parquet")
    pack(folder / "facts.parquet", folder / "packed")
    return folder / "packed"


SMALL = {"training.epochs": 2, "training.batch_size": 16, "model.block_size": 2, "loss.negatives": 4}


@pytest.mark.parametrize("on", ["base", "paths"])
@pytest.mark.parametrize("kind", ["logistic", "sampled_softmax"])
def test_a_packed_graph_trains_and_its_run_opens(tmp_path: Path, on: str, kind: str) -> None:
    folder = _packed(tmp_path, GRAPH)
    settings = SMALL | {"training.on": on, "training.walks": "fresh", "loss.kind": kind}
    run = blockhole.train(folder, settings=settings, out=tmp_path / "run")
    assert run.complete
    losses = [float(figures["loss"]) for figures in run.metrics() if figures["event"] == "epoch"]  # type: ignore[arg-type]
    assert losses[1] < losses[0]
    opened = blockhole.Run.open(tmp_path / "run")
    assert opened.entities == run.entities
    assert np.array_equal(opened.graph.triples, run.graph.triples)
    assert torch.equal(opened.model.entity, run.model.entity)


def test_settings_that_need_memory_are_refused(tmp_path: Path) -> None:
    folder = _packed(tmp_path, GRAPH)
    with pytest.raises(ConfigError) as failure:
        blockhole.train(folder, settings=SMALL)
    assert str(failure.value) == (
        "a packed graph has no stored paths; sample them as they are needed with training.walks = fresh, "
        "or train on edges alone with training.on = base."
    )
    for key, value in (("early_stop.metric", "mq"), ("loss.typed_share", 0.5), ("loss.rare_weight", 0.5)):
        settings = SMALL | {"training.on": "base", "loss.kind": "sampled_softmax", key: value}
        with pytest.raises(
            ConfigError, match=rf"^{key} needs the graph in memory, and this one is packed; .*leave it out"
        ):
            blockhole.train(folder, settings=settings)
    with pytest.raises(ConfigError, match=r"^loss\.corrupt = 'once' needs the graph in memory, and this one is packed"):
        blockhole.train(
            folder, settings=SMALL | {"training.on": "base", "loss.corrupted_paths": 1, "loss.corrupt": "once"}
        )


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = _packed(tmp_path, GRAPH)
    settings = SMALL | {"training.on": "paths", "training.walks": "fresh", "loss.kind": "logistic"}
    whole = blockhole.train(folder, settings=settings, out=tmp_path / "whole")
    blockhole.train(folder, settings=settings | {"training.epochs": 1}, out=tmp_path / "parts")
    parts = blockhole.train(settings={"training.epochs": 2}, out=tmp_path / "parts", resume=True)
    assert torch.equal(parts.model.entity, whole.model.entity)
    assert torch.equal(parts.model.relation, whole.model.relation)
