"""The shares of hops and their normalisers, against sums over everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.answering.hops import Hops, Normalisers
from blockhole.machine import _openblas, one_blas_thread
from tests.answering.oracle import Oracle
from tests.answering.toys import make_engine


@pytest.mark.parametrize("name", ["blockhole", "rescal", "transe", "hole", "simple"])
def test_shares_are_those_of_the_formula(name: str) -> None:
    engine, model = make_engine(name, E=15, facts=60, calibrated=False)
    oracle = Oracle(engine, model, "all")
    for relation in range(6):
        shares = engine.hops.shares(np.arange(8), engine.hops.columns(relation))
        expected = [[oracle.share(s, relation, o) for o in range(15)] for s in range(8)]
        np.testing.assert_allclose(shares, expected, rtol=2e-4, atol=1e-9)


def test_a_count_that_nobody_passes_leaves_no_room() -> None:
    """Of fifty children with one father each, none has room for a second; parents of several children have."""
    engine, _ = make_engine(E=60, facts=0, calibrated=False)
    from blockhole.answering.known import KnownFacts
    from blockhole.graph.knowledge_graph import KnowledgeGraph

    triples = np.array([[child // 5, 0, 10 + child] for child in range(50)], dtype=np.int32)
    known = KnownFacts(KnowledgeGraph(engine.graph.entities, engine.graph.relations, triples))
    hops = Hops(engine.vectors, engine.candidates, known, 1.0, None)
    fathers = hops.log_room(3)
    assert fathers[10:60] == pytest.approx(np.log(0.25 / 50.25))
    assert (fathers[:10] == 0).all()
    assert (hops.log_room(0) == 0).all()


@settings(max_examples=25)
@given(
    name=st.sampled_from(["blockhole", "blockhole-spatial", "hole", "rescal", "transe"]),
    sources=st.lists(st.integers(0, 199), min_size=1, max_size=20, unique=True),
    relation=st.integers(0, 5),
    typed=st.booleans(),
)
def test_a_row_is_the_same_in_whatever_company(name: str, sources: list[int], relation: int, typed: bool) -> None:
    engine, _ = make_engine(name, E=200, facts=300)
    columns = engine.hops.columns(relation, engine.known.candidates(relation) if typed else None)
    together = engine.hops.values(np.array(sources), columns)
    for i, source in enumerate(sources):
        np.testing.assert_array_equal(engine.hops.values(np.array([source]), columns)[0], together[i])


def test_normalisers_are_sums_over_all_entities_and_samples_come_near() -> None:
    engine, model = make_engine(E=2000, facts=3000, calibrated=False)
    normalisers = Normalisers(engine.vectors, engine.candidates, engine.known, 0.7)
    entities = np.arange(0, 2000, 50)
    scores = 0.7 * Oracle(engine, model, "all").scores[1][entities]
    exact = np.log(np.exp(scores).sum(axis=1))
    np.testing.assert_allclose(normalisers.sums(entities, 1, 2000), exact, rtol=1e-5)
    sampled = normalisers.sums(entities, 1, 600)
    error = np.sqrt(np.mean((sampled - exact) ** 2))
    assert 0 < error < 0.25
    np.testing.assert_array_equal(sampled, normalisers.sums(entities, 1, 600))


def test_a_known_object_counts_once_whatever_its_place_in_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all entities but one that the relation never takes, which is the sample here, every score counts as it is."""
    engine, model = make_engine(E=15, facts=60, calibrated=False)
    normalisers = Normalisers(engine.vectors, engine.candidates, engine.known, 1.0)
    scores = Oracle(engine, model, "all").scores
    for relation in range(6):
        objects = engine.known.candidates(relation).astype(np.int64)
        left_out, *others = np.setdiff1d(np.arange(15), objects).tolist()
        for chosen in ([*objects, *others], [*others, *reversed(objects.tolist())]):
            drawn = np.array(chosen), np.zeros(14, dtype=np.float32)
            monkeypatch.setattr(normalisers, "sample", lambda *_, drawn=drawn: drawn)
            expected = np.log(np.exp(np.delete(scores[relation], left_out, axis=1)).sum(axis=1))
            np.testing.assert_allclose(normalisers.sums(np.arange(15), relation, 14), expected, rtol=1e-5)


def test_normalisers_that_were_kept_are_used_and_those_of_new_entities_added() -> None:
    engine, _ = make_engine(calibrated=False)
    table = np.full((6, 28), 3.0, dtype=np.float32)
    kept = Normalisers(engine.vectors, engine.candidates, engine.known, 1.0, table)
    assert (kept.of(2)[:28] == 3.0).all()
    fresh = Normalisers(engine.vectors, engine.candidates, engine.known, 1.0)
    np.testing.assert_allclose(kept.of(2)[28:], fresh.of(2)[28:], rtol=1e-6)


def test_products_take_one_thread_until_the_last_who_wanted_that_has_ended() -> None:
    blas = _openblas()
    if blas is None:
        pytest.skip("this NumPy multiplies by other means than OpenBLAS")
    before = blas["get"]()
    try:
        blas["set"](2)
        with one_blas_thread():
            with one_blas_thread():
                assert blas["get"]() == 1
            assert blas["get"]() == 1
        assert blas["get"]() == 2
    finally:
        blas["set"](before)
