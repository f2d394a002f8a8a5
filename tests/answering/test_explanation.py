"""Chains against every chain there is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from blockhole.answering.connections import UNLIMITED
from blockhole.answering.engine import Engine
from blockhole.answering.explanation import best_chains, explain, known_chains
from blockhole.errors import ConfigError, RunError, UnknownName
from blockhole.queries.paths import PathQueries
from tests.answering.toys import make_engine


def _hop(engine: Engine, source: int, relation: int, target: int) -> float:
    if target in engine.graph.adjacency.neighbours(source, relation):
        return 1.0
    query = PathQueries(*(np.array(ids, dtype=np.int32) for ids in ([source], [[relation]], [1], [target])))
    return float(engine.probability(engine.scores(query)[1], 1)[0])


def _all_chains(engine: Engine, source: int, path: list[int], target: int) -> dict[tuple[int, ...], float]:
    chains = {}
    for between in itertools.product(range(engine.graph.num_entities), repeat=len(path) - 1):
        chain = (source, *between, target)
        hops = [_hop(engine, *each) for each in zip(chain[:-1], path, chain[1:], strict=True)]
        chains[chain] = float(np.prod(hops))
    return chains


@settings(max_examples=25)
@given(seed=st.integers(0, 30), path=st.lists(st.integers(0, 3), min_size=1, max_size=3), target=st.integers(0, 6))
def test_with_a_beam_as_wide_as_the_graph_the_best_chains_are_exact(seed: int, path: list[int], target: int) -> None:
    engine, _ = make_engine(E=7, R=2, facts=9, seed=seed)
    # A relation without a fact takes no entity: a beam ends there, and what lies behind is not looked at.
    assume(len(np.unique(engine.graph.triples[:, 1])) == 2)
    every = _all_chains(engine, 0, path, target)
    found = best_chains(engine, 0, path, target, top=4, beam=7, deadline=UNLIMITED)
    probabilities = [float(np.prod(hops)) for _, hops in found]
    # The search multiplies in another order, which may differ in the last bit.
    assert probabilities == pytest.approx(sorted(probabilities, reverse=True), rel=1e-12)
    for chain, hops in found:
        assert every[tuple(chain)] == pytest.approx(float(np.prod(hops)))
    # Only entities that the relations on either side take are looked at, so what is found is the best of those.
    taken = [
        set(engine.known.candidates(path[i]).tolist())
        | set(engine.known.candidates(engine.graph.inverse(path[i + 1])).tolist())
        for i in range(len(path) - 1)
    ]
    reachable = [p for chain, p in every.items() if all(e in t for e, t in zip(chain[1:-1], taken, strict=True))]
    assert probabilities == pytest.approx(sorted(reachable, reverse=True)[:4])


@given(seed=st.integers(0, 200), path=st.lists(st.integers(0, 3), min_size=1, max_size=3), target=st.integers(0, 6))
def test_known_chains_are_all_there_are(seed: int, path: list[int], target: int) -> None:
    engine, _ = make_engine(E=7, R=2, facts=12, seed=seed)
    expected = [chain for chain, p in sorted(_known_only(engine, path, target).items()) if p]
    assert [tuple(chain) for chain in known_chains(engine.known, 0, path, target, UNLIMITED)] == expected


def _known_only(engine: Engine, path: list[int], target: int) -> dict[tuple[int, ...], bool]:
    chains = {}
    for between in itertools.product(range(engine.graph.num_entities), repeat=len(path) - 1):
        chain = (0, *between, target)
        edges = zip(chain[:-1], path, chain[1:], strict=True)
        chains[chain] = all(t in engine.graph.adjacency.neighbours(s, r) for s, r, t in edges)
    return chains


def test_a_known_answer_is_explained_by_facts_alone() -> None:
    engine, _ = make_engine()
    query, answer = next((q, a[0]) for q in (f"e{i}/r0/^r1" for i in range(30)) if (a := engine.ask(q, only="known")))
    explanation = explain(engine, query, answer.entity, top=3)
    assert explanation.best == 1.0
    for chain in explanation.chains:
        assert chain.probability == 1.0
        assert [hop.status for hop in chain.hops] == ["known", "known"]
        assert [hop.relation for hop in chain.hops] == ["r0", "^r1"]
        assert chain.hops[0].target == chain.hops[1].source
        assert (f"{chain.hops[0].source}/r0/^r1", chain.hops[1].target) == (query, answer.entity)


def test_a_predicted_answer_needs_a_predicted_hop() -> None:
    engine, _ = make_engine()
    answer = engine.ask("e1/r0/r1", only="predicted")[0]
    for chain in explain(engine, "e1/r0/r1", answer.entity).chains:
        assert "predicted" in [hop.status for hop in chain.hops]
        assert chain.probability == pytest.approx(chain.hops[0].probability * chain.hops[1].probability)


def test_where_no_chain_is_plausible_none_is_given() -> None:
    engine, _ = make_engine(facts=10)
    assert engine.calibration is not None
    hopeless = engine.calibration.lengths[1].curve.model_copy(update={"intercept": -12.0})
    lengths = {1: engine.calibration.lengths[1].model_copy(update={"curve": hopeless})}
    engine.calibration = engine.calibration.model_copy(update={"lengths": lengths})
    answer = engine.ask("e1/r0/r1", only="predicted", candidates="all")[-1]
    explanation = explain(engine, "e1/r0/r1", answer.entity)
    assert explanation.chains == ()
    assert 0 < explanation.best < 0.01


def test_bad_questions_are_explained() -> None:
    engine, _ = make_engine()
    with pytest.raises(UnknownName, match="unknown entity 'nobody'"):
        explain(engine, "e1/r0", "nobody")
    with pytest.raises(ConfigError, match="top must be a whole number of at least 1, not 0"):
        explain(engine, "e1/r0", "e2", top=0)
    uncalibrated, _ = make_engine(calibrated=False)
    answer = uncalibrated.ask("e1/r0", only="predicted")[0]
    with pytest.raises(RunError, match="blockhole calibrate RUN"):
        explain(uncalibrated, "e1/r0", answer.entity)
