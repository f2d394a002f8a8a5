"""The values and ranks that a GPU computes, on the CPU: those of the search, of the sweep, and of its ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.answering import device
from blockhole.answering.answers import Status
from blockhole.answering.device import DeviceRanker, DeviceSweep
from blockhole.answering.engine import Engine
from blockhole.answering.search import UNLIMITED, Candidates, Search, Wanted
from blockhole.answering.sweep import Sweep
from blockhole.errors import RunError
from blockhole.evaluation.query_ranking import BoundedRanker, Graphs
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.plans import Plan
from blockhole.queries.query_sets import QUERY_TYPES, slots_of_type, steps_of_type
from tests.answering.toys import SIZES, make_engine
from tests.sweep import draws

E, R = 14, 3
CPU = torch.device("cpu")


def _rows(name: str, seed: int, count: int = 6) -> np.ndarray:
    rng = np.random.default_rng(seed)
    high = {"e": E, "r": 2 * R}
    return np.column_stack([rng.integers(high[slot], size=count) for slot in slots_of_type(name)]).astype(np.int32)


def _searched(engine: Engine, name: str, ids: np.ndarray, candidates: Candidates) -> np.ndarray:
    wanted = Wanted(np.ones(E, dtype=bool), E, np.zeros(0, dtype=np.int32))
    plans = [Plan(steps_of_type(name), tuple(row)) for row in ids.tolist()]
    return np.array([Search(engine, plan, candidates, UNLIMITED).settle(wanted).low for plan in plans])


@given(
    model=st.sampled_from([*SIZES]),
    name=st.sampled_from([*QUERY_TYPES]),
    seed=st.integers(0, 4),
    candidates=st.sampled_from(["typed", "all"]),
    numbers=st.sampled_from([1, 3 * E, 2**20]),
    apart=st.sampled_from([0, E, 2**20]),
)
@settings(max_examples=draws(60))
@pytest.mark.slow
def test_values_are_those_of_the_search(
    model: str, name: str, seed: int, candidates: Candidates, numbers: int, apart: int
) -> None:
    engine, _ = make_engine(model, E=E, R=R, facts=20, seed=seed, chains=model != "simple")
    ids = _rows(name, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_NUMBERS", numbers)  # a row at a time, a few, and all together
        patch.setattr(device, "_APART", apart)  # each relation by itself, some, and none
        found = DeviceSweep(engine, "cpu", candidates).values(steps_of_type(name), ids).numpy()
    np.testing.assert_allclose(found, _searched(engine, name, ids, candidates), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["blockhole", "transe"])
def test_hops_are_those_of_a_processor(name: str) -> None:
    engine, _ = make_engine(name, E=15, facts=60)
    for relation in range(6):
        expected = engine.hops.values(np.arange(15), engine.hops.columns(relation))
        found = DeviceSweep(engine, "cpu").hops(np.arange(15), relation)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-9)


def test_shares_without_a_calibration() -> None:
    engine, _ = make_engine(E=E, R=R, facts=20, seed=1, calibrated=False)
    ids = _rows("pi", 1)
    found = DeviceSweep(engine, "cpu").values(steps_of_type("pi"), ids).numpy()
    np.testing.assert_allclose(found, _searched(engine, "pi", ids, "all"), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("name", QUERY_TYPES)
def test_ranks_are_those_of_the_sweep(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=E, R=R, facts=20, seed=2, chains=True)
    rng = np.random.default_rng(5)

    def with_more(graph: KnowledgeGraph) -> KnowledgeGraph:
        more = np.column_stack([rng.integers(high, size=40) for high in (E, R, E)]).astype(np.int32)
        return KnowledgeGraph(graph.entities, graph.relations, np.concatenate([graph.triples, more]))

    easy = with_more(engine.graph)
    graphs = Graphs(engine.graph, easy, with_more(easy))
    ids, heard = _rows(name, 3, 70), list[int]()  # more than are asked together on a CPU
    monkeypatch.setattr(device, "_NUMBERS", 5 * E)
    found = DeviceRanker(DeviceSweep(engine, CPU), graphs).rank(name, ids, heard.append)
    expected = BoundedRanker(Sweep(engine).bounds, graphs).rank(name, ids, lambda ranked: None)
    assert len(found.query) > 0
    assert sum(heard) == len(ids)
    for one, other in zip((found.query, found.lacking), (expected.query, expected.lacking), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found.ranks.negatives, expected.ranks.negatives)
    np.testing.assert_array_equal(found.ranks.rank(), expected.ranks.rank())
    assert found.unsettled == 0


def test_scores_that_are_not_finite() -> None:
    engine, _ = make_engine(E=E, R=R, facts=20, seed=1)
    sweep = DeviceSweep(engine, "cpu")
    sweep._entity[3] = torch.nan
    with pytest.raises(RunError, match="are not finite"):
        sweep.values(steps_of_type("1p"), np.array([[3, 1]], dtype=np.int32))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("sample", [6, E])
def test_normalisers_are_those_of_the_processor(name: str, sample: int) -> None:
    engine, _ = make_engine(name, E=E, R=R, facts=30, seed=4)
    some = np.array([1, 4, 5, 9, 13])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_NUMBERS", 2 * sample)
        for relation in range(2 * R):
            found = DeviceSweep(engine, "cpu").normalisers(some, relation, sample)
            expected = engine.hops.normalisers.sums(some, relation, sample)
            np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("only", [None, "known", "predicted"])
@pytest.mark.parametrize("candidates", ["typed", "all"])
def test_many_questions_have_the_answers_that_each_has_alone(candidates: Candidates, only: Status | None) -> None:
    engine, _ = make_engine(E=E, R=R, facts=20, seed=2, chains=True)
    queries = [
        *[f"e{source}/r{relation}" for source in range(4) for relation in range(R)],
        *[f"e{source}/r0/^r1" for source in range(4)],
        "e3/r0 & !e2/r1", "e1/r1 | e2/^r2", "(e0/r0 & e4/r1)/r2", "e5 & !e6/r0",
    ]  # fmt: skip
    encoded = [engine.encode(query) for query in queries]
    found = engine._ask_on(CPU, encoded, 3, candidates, only)
    for each, alone in zip(found, engine.ask_many(queries, top=3, candidates=candidates, only=only), strict=True):
        assert (each.query, each.known_count) == (alone.query, alone.known_count)
        assert [(answer.entity, answer.status) for answer in each] == [(own.entity, own.status) for own in alone]
        assert [answer.score for answer in each] == pytest.approx([own.score for own in alone], rel=2e-5)
