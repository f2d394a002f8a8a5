"""The shares of hops and their normalisers, against sums over everything."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.answering.device import DeviceSweep
from blockhole.answering.engine import Engine
from blockhole.answering.hops import Columns, Hops, limit_of, log_room_of, log_self_of
from blockhole.answering.normalisers import Normalisers
from blockhole.answering.predicting import predict
from blockhole.errors import RunError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.machine import _openblas, one_blas_thread
from blockhole.queries.query_sets import steps_of_type
from tests.answering.oracle import Oracle
from tests.answering.toys import SIZES, make_engine
from tests.sweep import draws


@pytest.mark.parametrize("name", ["blockhole", "rescal", "transe", "hole", "analogy", "blockhole-spatial", "simple"])
def test_shares_are_those_of_the_formula(name: str) -> None:
    engine, model = make_engine(name, E=15, facts=60, calibrated=False)
    oracle = Oracle(engine, model, "all")
    for relation in range(6):
        shares = engine.hops.shares(np.arange(8), engine.hops.columns(relation))
        expected = [[oracle.share(s, relation, o) for o in range(15)] for s in range(8)]
        np.testing.assert_allclose(shares, expected, rtol=2e-4, atol=1e-9)


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("name", ["blockhole", "rescal", "hole"])
@pytest.mark.parametrize("count", [3, 80])
def test_no_hop_passes_its_limit(name: str, count: int, calibrated: bool) -> None:
    """Whichever side is walked: that of three entities, or that of fewer objects."""
    engine, _ = make_engine(name, E=80, facts=150, calibrated=calibrated)
    hops, sources = engine.hops, np.arange(count)
    for relation in range(6):
        columns = hops.typed_columns(relation)
        assert columns.entities is not None
        rows = hops.values(sources, columns)
        most, surely = hops.at_most(sources, columns)
        assert 0.98 < surely < 1
        assert (rows <= most).all()
        assert (rows >= surely * most).all()
        assert (hops.limits(relation) == 1).all()
        assert hops.look(sources, relation) == count * len(columns)
        for source in sources.tolist():
            rows[source, columns.entities.searchsorted(engine.known.objects(source, relation))] = 0.0
        limits = hops.limits(relation)
        assert (limits[count:] == 1).all()
        assert (rows.max(axis=1) <= limits[:count]).all()
        # The largest halves of x may be of two objects, so that it is at most twice the largest x.
        curve = hops.curve
        steepest = 1.0 if curve is None else max(curve.low_slope, curve.slope, curve.top_slope)
        assert (rows.max(axis=1) >= surely * limits[:count] / 2**steepest).all()


@pytest.mark.parametrize("scale", [0.01, 1000.0])
@pytest.mark.parametrize("name", ["blockhole", "rescal"])
def test_a_limit_has_room_for_the_rounding_of_the_longest_vectors(name: str, scale: float) -> None:
    """Twice width · 2⁻²³ ‖s‖ ‖W‖ ‖o‖ α, and not width times that; ‖W‖ is the largest singular value of a hop."""
    engine, _ = make_engine(name, E=20, facts=40, calibrated=False)
    hops, width = Hops(engine.vectors, engine.candidates, engine.known, scale, None), engine.candidates.shape[1]
    longest = np.linalg.norm(engine.candidates, axis=1).astype(np.float64)
    for relation in range(6):
        columns = hops.typed_columns(relation)
        _, surely = hops.at_most(np.arange(20), columns)
        room = -np.log(surely) / 2 - 1e-3  # beside what it leaves for logarithms
        stretches = [
            np.linalg.svd(engine.vectors.model.hop(np.eye(width), np.full(width, each)), compute_uv=False)[0]
            for each in (relation, engine.graph.inverse(relation))
        ]
        least = 2.0**-22 * width * longest.max() * longest[columns.entities].max() * max(stretches) * scale
        assert 0.99 * least < room + 1e-9 < width * least + 1e-7


def test_a_count_that_nobody_passes_leaves_no_room() -> None:
    """Of fifty children with one father each, none has room for a second; parents of several children have."""
    engine, _ = make_engine(E=60, facts=0, calibrated=False)
    from blockhole.answering.known import KnownFacts

    triples = np.array([[child // 5, 0, 10 + child] for child in range(50)], dtype=np.int32)
    known = KnownFacts(KnowledgeGraph(engine.graph.entities, engine.graph.relations, triples))
    hops = Hops(engine.vectors, engine.candidates, known, 1.0, None)
    fathers = hops.log_room(3)
    assert fathers[10:60] == pytest.approx(np.log(0.25 / 50.25))
    assert (fathers[:10] == 0).all()
    assert (hops.log_room(0) == 0).all()


@pytest.mark.parametrize("sure", [0.0, 30.0])
def test_no_second_father_is_likelier_than_one_more_is(sure: float) -> None:
    """However sure the curve is of its best, and from whichever end one asks; a GPU and `predict` say the same."""
    engine, model = make_engine(E=60, facts=0)
    assert engine.calibrated is not None
    triples = np.array([[child // 5, 0, 10 + child] for child in range(50)], dtype=np.int32)
    graph = KnowledgeGraph(engine.graph.entities, engine.graph.relations, triples)
    calibration = engine.calibrated.calibration
    curve = calibration.hop.model_copy(update={"intercept": calibration.hop.intercept + sure})
    calibrated = replace(engine.calibrated, calibration=calibration.model_copy(update={"hop": curve}))
    engine = Engine(engine.vectors, graph, calibrated)
    oracle, room = Oracle(engine, model, "all"), 0.25 / 50.25
    fathers, children = np.arange(10), np.arange(10, 60)
    for relation in (0, 3):
        rows = engine.hops.values(np.arange(60), engine.hops.columns(relation))
        unknown = oracle.hop(relation) < 1
        np.testing.assert_allclose(rows[unknown], oracle.hop(relation)[unknown], rtol=1e-3, atol=1e-9)
        for end in (3, 17):
            np.testing.assert_allclose(engine.hops.into(end, relation), rows[:, end], rtol=1e-4)
        second = rows[np.ix_(fathers, children)] if relation == 0 else rows[children]
        assert second.max() < room * (1 + 1e-6)
        assert sure == 0 or np.median(second) > room / 2
        # Of those without a known father each has one at most, and a tenth of an even share for each entity.
        if relation == 3:
            of_one = rows[fathers].sum(axis=1)
            assert of_one.max() < 1.1 * (1 + 1e-6)
            assert sure == 0 or of_one.min() > 0.9
        ids = np.column_stack([np.arange(60), np.full(60, relation)]).astype(np.int32)
        device = DeviceSweep(engine, "cpu").values(steps_of_type("1p"), ids).numpy()
        np.testing.assert_allclose(device[unknown], rows[unknown], rtol=1e-3)
    listed = {(each.source, each.target): each.score for each in predict(engine, top=5000, candidates="all")}
    names = engine.graph.entities
    for (source, target), said in listed.items():
        either = [engine.hops.values(np.array([a]), engine.hops.columns(r))[0, b] for r, a, b in (
            (0, names.id(source), names.id(target)), (3, names.id(target), names.id(source))
        )]  # fmt: skip
        assert said == pytest.approx(min(either), rel=1e-3)


@pytest.mark.parametrize(
    ("more", "as_many", "room"),
    [(0, 38, 1.0), (0, 39, 0.25 / 39.25), (1, 58, 1.0), (1, 59, 1.25 / 59.25), (0, 1, 1.0), (5, 5, 1.0)],
)
def test_a_count_is_a_limit_where_fewer_than_a_twentieth_pass_it(more: int, as_many: int, room: float) -> None:
    """Two entities that have more are added: 2 of 40 and 3 of 60 are a twentieth, 2 of 41 and 3 of 61 are fewer."""
    assert log_room_of(np.array([more]), np.array([as_many]))[0] == pytest.approx(np.log(room))


@pytest.mark.parametrize(
    ("counts", "limit"),
    [
        ([], np.inf),
        ([1] * 38, np.inf),
        ([1] * 39, 1),
        ([1] * 10 + [2] * 60, 2),
        ([1] * 60 + [2], 1),
        ([*range(1, 90)], np.inf),
    ],
)
def test_a_limit_is_the_least_count_that_hardly_any_passes(counts: list[int], limit: float) -> None:
    assert limit_of(np.array(counts, dtype=np.int64)) == limit


@pytest.mark.parametrize(
    ("loops", "facts", "alone"),
    [(0, 0, 1.0), (0, 1, 0.25 / 1.25), (1, 20, 1.0), (1, 21, 1.25 / 21.25), (2, 40, 1.0), (9, 10, 1.0)],
)
def test_hops_to_oneself_are_rare_where_fewer_than_a_twentieth_are(loops: int, facts: int, alone: float) -> None:
    assert log_self_of(np.array([loops]), np.array([facts]))[0] == pytest.approx(np.log(alone))


@pytest.mark.parametrize("name", ["blockhole", "hole", "simple", "transe"])
def test_how_much_is_computed_at_once_does_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many parts as there can be, of which the last is a smaller one; a row alone may be too much."""
    found: list[NDArray[np.floating]] = []
    small = {"_CACHED": 9, "_SMALL": 9, "_TOGETHER": -1, "_WALKED": 4, "_LOOKED": 40}
    for sizes in ({}, {f"hops.{constant}": size for constant, size in small.items()} | {"normalisers._AT_ONCE": 29}):
        for constant, size in sizes.items():
            monkeypatch.setattr(f"blockhole.answering.{constant}", size)
        engine, _ = make_engine(name, E=30, facts=90)
        hops, sources = engine.hops, np.arange(11)
        for relation in range(6):
            for targets in (None, engine.known.candidates(relation)):
                columns = hops.columns(relation, targets)
                found += [hops.values(sources, columns), *(each.T for each in hops.products(sources, columns))]
            found.append(hops.normalisers.of(relation))
            found += [hops.normalisers.sums(np.arange(asked), relation, 12) for asked in (11, 30)]  # either side walks
            if hops.has_limits:
                hops.look(np.arange(1, 30), relation)
                found.append(hops.limits(relation)[None])
        found.append(hops.composed(engine.vectors.query(3, [1]), 0.7)[None])
    half = len(found) // 2
    for one, other in zip(found[:half], found[half:], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    exact = 0.7 * engine.vectors.query(3, [1]) @ engine.candidates.astype(np.float64).T
    np.testing.assert_allclose(found[-1], exact, rtol=1e-4, atol=1e-6)


def test_a_model_that_has_diverged_is_refused_in_a_sentence() -> None:
    """And without a warning of NumPy's, which would be an error here."""
    engine, _ = make_engine()
    engine.vectors.entity[:] = 1e38
    engine.vectors.entity[::2] *= -1
    with pytest.raises(RunError, match="scores for this query"):
        engine.ask("e1/r0", candidates="all")


def test_a_sum_runs_over_as_many_entities_as_it_can_afford() -> None:
    engine, _ = make_engine(E=3000, facts=10, calibrated=False)
    normalisers, each = Normalisers(engine.vectors, engine.candidates, engine.known, 1.0), engine.vectors.width + 64
    affordable = {entities: normalisers.affordable(7, 7 * each * entities) for entities in (1, 128, 129, 1023, 1025)}
    assert affordable == {1: 128, 128: 128, 129: 129, 1023: 1023, 1025: 1024}
    assert normalisers.affordable(7, 7 * each * 3000) == 3000  # all of them, exactly
    assert normalisers.affordable(7, 7 * each * 3000 - 1) == 1024
    assert normalisers.affordable(0, 3000) == 3000


def test_a_sample_is_half_of_objects_and_stands_for_everyone() -> None:
    engine, _ = make_engine(E=200, facts=300, calibrated=False)
    normalisers = Normalisers(engine.vectors, engine.candidates, engine.known, 1.0)
    for relation in range(6):
        objects = engine.known.candidates(relation)
        for size, drawn in ((41, 20), (160, min(80, len(objects)))):
            chosen, left = normalisers.sample(relation, size)
            assert len(np.unique(chosen)) == len(chosen) == size
            assert np.isin(chosen, objects).tolist() == [True] * drawn + [False] * (size - drawn)
            weights = [len(objects) / drawn] * drawn + [(200 - len(objects)) / (size - drawn)] * (size - drawn)
            np.testing.assert_allclose(np.exp(left), weights, rtol=1e-5)
        chosen, left = normalisers.sample(relation, 200)
        assert chosen.tolist() == list(range(200))
        assert not left.any()


def test_kinds_are_those_of_the_formula() -> None:
    engine, model = make_engine(E=25, facts=14)
    oracle = Oracle(engine, model, "all")
    for relation in range(6):
        expected = np.array([oracle._kind(entity, relation) for entity in range(25)])
        np.testing.assert_allclose(np.exp(engine.hops.log_kind(relation)), expected, rtol=1e-5)
        typed, alike = engine.hops.kinds(relation)
        assert typed.tolist() == (expected == 1).tolist()
        assert alike.tolist() == ((expected >= 0.01) & (expected < 1)).tolist()
        assert alike.any()
        assert not (typed | alike).all()


@settings(max_examples=draws(25))
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


@pytest.mark.parametrize("small", [0, 10**6])
def test_a_row_is_the_same_to_whatever_columns(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left beside whole dozens is rounded as they are; a hundred numbers show it."""
    monkeypatch.setitem(SIZES, "rescal", SIZES["rescal"].model_copy(update={"dim": 100}))
    engine, _ = make_engine("rescal", E=200, facts=300)
    monkeypatch.setattr("blockhole.answering.hops._SMALL", small)
    sources, every = np.arange(20), engine.hops.values(np.arange(20), engine.hops.columns(1))
    for count in (1, 2, 8, 9, 12, 13, 16, 17, 65, 199):
        for targets in (np.arange(count), np.arange(200 - count, 200)):
            rows = engine.hops.values(sources, engine.hops.columns(1, targets))
            np.testing.assert_array_equal(rows, every[:, targets])


@pytest.mark.parametrize("kernel", ["Haswell", "SkylakeX"])
def test_a_row_is_the_same_whatever_processor_libraries_take_it_for(kernel: str) -> None:
    """Their kernels for a processor without AVX-512 and for one with it sum up in tiles of different sizes."""
    cpu = Path("/proc/cpuinfo")
    if kernel == "SkylakeX" and not (cpu.exists() and "avx512f" in cpu.read_text(encoding="utf-8")):
        pytest.skip("the processor has no AVX-512")
    tests = f"{__file__}::test_a_row_is_the_same_to_whatever_columns"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests],
        env=os.environ | {"OPENBLAS_CORETYPE": kernel},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_rows_are_kept_for_later_searches_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those that would be computed; of relations with few objects, and of other columns, none are kept."""
    engine, _ = make_engine(E=200, facts=900)
    hops = engine.hops
    computed: list[int] = []
    columns = hops.typed_columns(1)
    monkeypatch.setattr("blockhole.answering.hops._ROWS", 5 * len(columns))
    values = Hops.values

    def watched(hops: Hops, sources: NDArray[np.integer], own: Columns) -> NDArray[np.float32]:
        computed.append(len(sources))
        return values(hops, sources, own)

    monkeypatch.setattr(Hops, "values", watched)

    def ask(sources: list[int], own: Columns = columns) -> int:
        """How many rows are computed for those of some entities, which are as they should be."""
        computed.clear()
        rows = hops.kept_values(np.array(sources), own)
        seen = sum(computed)
        np.testing.assert_array_equal(rows, values(hops, np.array(sources), own))
        return seen

    assert [ask([3, 4]), ask([3, 4])] == [2, 2]
    monkeypatch.setattr("blockhole.answering.hops._WIDE", len(columns))
    assert [ask([3, 4]), ask([4]), ask([5, 3, 6, 4]), ask([5, 6, 3, 4])] == [2, 0, 2, 0]
    assert [ask([3], hops.columns(1)), ask([3])] == [1, 0]
    assert [ask([7, 8]), ask([6, 3, 4]), ask([5])] == [2, 0, 1]  # 5 had waited longest
    assert [ask([*range(20)]), ask([*range(15, 20)]), ask([14])] == [15, 0, 1]


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
    """Every score of the sample counts as it is, and so do those of known objects that were not drawn."""
    engine, model = make_engine(E=15, facts=60, calibrated=False)
    normalisers = Normalisers(engine.vectors, engine.candidates, engine.known, 1.0)
    scores = Oracle(engine, model, "all").scores
    for relation in range(6):
        objects = engine.known.candidates(relation).astype(np.int64)
        _, *others = np.setdiff1d(np.arange(15), objects).tolist()
        for chosen in ([*objects, *others], [*others, *reversed(objects.tolist())], [*objects[3:], *others], others):
            drawn = np.array(chosen), np.zeros(len(chosen), dtype=np.float32)
            monkeypatch.setattr(normalisers, "sample", lambda *_, drawn=drawn: drawn)
            counts = [np.union1d(chosen, engine.known.objects(source, relation)) for source in range(15)]
            expected = [np.log(np.exp(scores[relation][source, own]).sum()) for source, own in enumerate(counts)]
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
