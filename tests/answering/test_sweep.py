"""The values of every entity, for many queries at once: against plain loops, and against the search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.answering.engine import Engine
from blockhole.answering.hops import Columns, Hops
from blockhole.answering.search import UNLIMITED, Candidates, Search, Wanted
from blockhole.answering.sweep import Sweep, rank_hops
from blockhole.errors import EvaluationError
from blockhole.evaluation.completion import both_sides
from blockhole.evaluation.query_ranking import rank_answers
from blockhole.evaluation.truth import truth_of
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.plans import Plan
from blockhole.queries.query_sets import QUERY_TYPES, slots_of_type, steps_of_type
from tests.answering.oracle import Oracle
from tests.answering.toys import make_engine
from tests.evaluation.oracle import Tree, tree_of_type

E, R = 12, 3


@cache
def _engine(seed: int, chains: bool = True) -> Engine:
    return make_engine(E=E, R=R, facts=18, seed=seed, chains=chains)[0]


def _rows(name: str, seed: int, count: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    high = {"e": E, "r": 2 * R}
    columns = [rng.integers(high[slot], size=count) for slot in slots_of_type(name)]
    return np.column_stack(columns).astype(np.int32)


def _by_loops(oracle: Oracle, tree: Tree) -> np.ndarray:
    """The values of a query, from dense matrices of the probabilities of hops."""
    kind, of = tree[:2]
    if kind == "entity":
        return np.array([float(e == of) for e in range(E)])
    if kind == "hop":
        start, hop = _by_loops(oracle, of), oracle.hop(tree[2])
        if of[0] != "entity":
            start = start * oracle.leaving(tree[2])
        return np.array([max(start[h] * hop[h, o] if start[h] >= 1e-3 else 0.0 for h in range(E)) for o in range(E)])
    if kind == "not":
        return 1 - _by_loops(oracle, of)
    parts = [_by_loops(oracle, part) for part in of]
    return np.array([prod(own) if kind == "and" else 1 - prod(1 - p for p in own) for own in zip(*parts, strict=True)])


@pytest.mark.parametrize("name", QUERY_TYPES)
@pytest.mark.parametrize("candidates", ["typed", "all"])
def test_values_are_those_of_plain_loops(name: str, candidates: Candidates) -> None:
    engine, model = make_engine(E=E, R=R, facts=18, seed=3)
    oracle, rows = Oracle(engine, model, candidates), _rows(name, 1)
    nobody = [np.zeros(0, dtype=np.int32)] * len(rows)
    everybody = [np.arange(E, dtype=np.int32)] * len(rows)
    for sought in (everybody, nobody):
        found = Sweep(engine, candidates).bounds(steps_of_type(name), rows, sought)
        for ids, (low, high) in zip(rows.tolist(), found, strict=True):
            expected = _by_loops(oracle, tree_of_type(name, ids))
            assert (low <= expected + 1e-6).all()
            assert (high >= expected - 1e-6).all()
            if sought is everybody:
                assert low == pytest.approx(expected, rel=1e-3, abs=1e-6)


@given(name=st.sampled_from([*QUERY_TYPES]), seed=st.integers(0, 4), candidates=st.sampled_from(["typed", "all"]))
@settings(max_examples=8)
def test_values_are_those_of_the_search_bit_for_bit(name: str, seed: int, candidates: Candidates) -> None:
    engine = _engine(seed)
    rows = _rows(name, seed)
    for ids, found in zip(rows.tolist(), _everything(engine, name, rows, candidates), strict=True):
        wanted = Wanted(np.ones(E, dtype=bool), E, np.zeros(0, dtype=np.int32))
        search = Search(engine, Plan(steps_of_type(name), tuple(ids)), candidates, UNLIMITED)
        np.testing.assert_array_equal(found, search.settle(wanted).low)


def _everything(engine: Engine, name: str, rows: np.ndarray, candidates: Candidates = "all") -> list[np.ndarray]:
    everybody = [np.arange(E, dtype=np.int32)] * len(rows)
    bounds = Sweep(engine, candidates).bounds(steps_of_type(name), rows, everybody)
    for low, high in bounds:
        np.testing.assert_array_equal(low, high)
    return [low for low, _ in bounds]


def _ranks(values: Sequence[tuple[np.ndarray, np.ndarray]], hard: np.ndarray) -> list[list[list[float]]]:
    none = hard[:0]
    return [[each.rank().tolist() for each in rank_answers(low, high, hard, none)] for low, high in values]


@given(name=st.sampled_from(["2p", "3p", "ip", "up", "inp"]), seed=st.integers(0, 4), chains=st.booleans())
@settings(max_examples=8)
def test_a_last_hop_ends_early_without_changing_a_place(name: str, seed: int, chains: bool) -> None:
    engine = _engine(seed, chains)
    rows, hard = _rows(name, seed), np.array([seed % E], dtype=np.int32)
    exact = [(low, low) for low in _everything(engine, name, rows)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockhole.answering.sweep._TOGETHER", 1)
        early = Sweep(engine).bounds(steps_of_type(name), rows, [hard] * len(rows))
    assert _ranks(early, hard) == _ranks(exact, hard)


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows are computed together, each time that any are."""
    opened: list[int] = []
    original = Hops.values

    def counting(self: Hops, sources: np.ndarray, columns: Columns) -> np.ndarray:
        opened.append(len(sources))
        return original(self, sources, columns)

    monkeypatch.setattr(Hops, "values", counting)
    return opened


def test_a_last_hop_does_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=400, R=2, facts=900, seed=1)
    monkeypatch.setattr("blockhole.answering.sweep._TOGETHER", 4)
    opened = _counted(monkeypatch)
    rows = np.array([[1, 0, 1]], dtype=np.int32)
    found = []
    for sought in (np.arange(400), engine.known.answers(1, [0, 1])):
        opened.clear()
        Sweep(engine).bounds(steps_of_type("2p"), rows, [sought])
        found.append(sum(opened))
    assert found[1] < found[0]


@given(name=st.sampled_from([*QUERY_TYPES]), seed=st.integers(0, 4), most=st.integers(1, 3))
@settings(max_examples=8)
def test_few_witnesses_leave_bounds_that_hold_the_values(name: str, seed: int, most: int) -> None:
    engine = _engine(seed)
    rows, hard = _rows(name, seed), np.arange(0, E, 5, dtype=np.int32)
    exact = _everything(engine, name, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockhole.answering.sweep._NUMBERS", most * E)
        bounded = Sweep(engine).bounds(steps_of_type(name), rows, [hard] * len(rows))
    for value, (low, high) in zip(exact, bounded, strict=True):
        assert (low <= value).all()
        assert (value <= high).all()
        worst, best = rank_answers(low, high, hard, hard[:0])
        own, _ = rank_answers(value, value, hard, hard[:0])
        assert (best.rank() <= own.rank()).all()
        assert (own.rank() <= worst.rank()).all()


def test_queries_that_follow_one_relation_share_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=E, R=R, facts=18, seed=1)
    opened = _counted(monkeypatch)
    rows = np.repeat(_rows("2p", 0, 1), 4, axis=0)
    everybody = [np.arange(E)] * 4
    Sweep(engine).bounds(steps_of_type("2p"), rows[:1], everybody[:1])
    alone = sum(opened)
    opened.clear()
    Sweep(engine).bounds(steps_of_type("2p"), rows, everybody)
    assert sum(opened) == alone


@pytest.mark.parametrize("together", [1, 64])
@pytest.mark.parametrize("name", ["blockhole", "transe"])
def test_targets_of_hops_are_ranked_among_what_is_no_answer(
    name: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the probabilities of plain loops, one rival after the other; the first of the facts is one that train has."""
    engine, model = make_engine(name, E=E, R=R, facts=18, seed=3)
    oracle, rng = Oracle(engine, model, "all"), np.random.default_rng(5)
    new = np.column_stack([rng.integers(high, size=9) for high in (E, R, E)]).astype(np.int32)
    facts = np.concatenate([engine.graph.triples[:1], new])
    graph = KnowledgeGraph(engine.graph.entities, engine.graph.relations, np.concatenate([engine.graph.triples, facts]))
    queries, heard = both_sides(facts, R), list[int]()
    monkeypatch.setattr("blockhole.answering.sweep._TOGETHER", together)
    ranks = rank_hops(engine, queries, truth_of(graph), torch.device("cpu"), memory=10**10, progress=heard.append)
    assert sum(heard) == len(queries)
    true = {(s, r, o) for s, r, o in graph.triples.tolist()}
    true |= {(o, r + R, s) for s, r, o in true}
    known = {(s, r, o) for s, r, o in engine.graph.triples.tolist()}
    known |= {(o, r + R, s) for s, r, o in known}
    for place, (s, r, o) in enumerate(zip(queries.source, queries.path[:, 0], queries.target, strict=True)):
        if (s, r, o) in known:
            continue  # its probability as if it were none is that of no oracle
        hop = oracle.hop(int(r))[s]
        rivals = [hop[each] for each in range(E) if (s, r, each) not in true]
        assert ranks.negatives[place] == len(rivals)
        assert ranks.better[place] == sum(each > hop[o] * (1 + 1e-4) for each in rivals)
        assert ranks.tied[place] == sum(each == pytest.approx(hop[o], rel=1e-4) for each in rivals)
    assert len({(s, r, o) for s, r, o in facts.tolist()} & known) == 1


def test_ranks_of_hops_need_memory() -> None:
    engine = _engine(3)
    queries = both_sides(np.array([[0, 0, 1]], dtype=np.int32), R)
    with pytest.raises(EvaluationError, match="too small for one query"):
        rank_hops(engine, queries, truth_of(engine.graph), torch.device("cpu"), memory=10**6)
