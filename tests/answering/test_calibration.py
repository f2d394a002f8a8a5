"""From scores to probabilities: what is fitted, on what, how it is kept, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from blockhole.answering import calibrating, hops
from blockhole.answering.calibrating import Pairs, calibrate, calibration_queries, fit, measure
from blockhole.answering.calibration import (
    CALIBRATION,
    ENOUGH,
    NORMALISERS,
    Calibrated,
    Calibration,
    ChainCurve,
    Curve,
    fit_logistic,
    load_calibration,
    save_calibration,
)
from blockhole.answering.engine import Engine
from blockhole.answering.search import Candidates
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import DataSet, load
from blockhole.errors import BlockholeWarning, DataError, RunError
from blockhole.evaluation.classification import reliability
from blockhole.fitting import train
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.measuring import judge_queries
from blockhole.queries.exact import answers
from blockhole.queries.query_sampling import sample_from_split
from blockhole.runs.run import Run
from blockhole.saving import read_sealed, sha256_of
from tests.answering.toys import calibration_by_hand, make_engine


def test_a_logistic_curve_is_recovered() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(2.0, 3.0, size=(40_000, 2))
    label = rng.random(40_000) < 1 / (1 + np.exp(-(0.7 * features[:, 0] + 0.2 * features[:, 1] - 1.5)))
    weights, intercept = fit_logistic(features, label, (0, 0))
    assert weights == pytest.approx([0.7, 0.2], abs=0.03)
    assert intercept == pytest.approx(-1.5, abs=0.1)


@pytest.mark.parametrize("label", [True, False])
def test_labels_that_are_all_alike_leave_finite_numbers(label: bool) -> None:
    features = np.random.default_rng(3).normal(size=(50, 1))
    weights, intercept = fit_logistic(features, np.full(50, label), (0,))
    assert np.isfinite([*weights, intercept]).all()
    assert (intercept > 5) == label


@pytest.mark.parametrize(
    ("field", "least"),
    [("scale", 1e-9), ("new_objects", 0.0), ("facts", 1), ("missing", 1.0), ("brier", 0.0), ("sampling_error", 0.0)],
)
def test_numbers_of_a_calibration_keep_to_their_bounds(field: str, least: float) -> None:
    own = calibration_by_hand().calibration.model_dump()
    assert getattr(Calibration.model_validate(own | {field: least}), field) == least
    for wrong in (least - 1, 0 if field == "scale" else least - 1):
        with pytest.raises(ValueError, match=field):
            Calibration.model_validate(own | {field: wrong})


@pytest.mark.parametrize("doubt", [0.0, 1.01, float("nan")])
def test_a_doubt_is_a_factor_that_lowers(doubt: float) -> None:
    own = calibration_by_hand().calibration.model_dump()
    with pytest.raises(ValueError, match="doubts"):
        Calibration.model_validate(own | {"doubts": {0: doubt}})


def test_a_relation_of_whose_likely_objects_hardly_any_is_true_is_doubted() -> None:
    """Of relation 1 a fiftieth is true of what the shares say; of relation 2 nothing, but ten objects prove nothing."""
    rng, curve = np.random.default_rng(4), Curve(low=-6.0, low_slope=1.0, slope=1.0, top_slope=0.5, intercept=1.0)
    relation = np.repeat([0, 1, 2], [20_000, 2_000, 10])
    share = np.exp(rng.uniform(-6, 0, size=len(relation))).astype(np.float32)
    said = curve.probability(share, np.zeros(len(relation), dtype=np.float32))
    label = rng.random(len(relation)) < said * np.array([1.0, 0.02, 0.0])[relation]
    count, free = np.ones(len(relation)), np.full(len(relation), np.inf, dtype=np.float32)
    pairs = Pairs(np.arange(len(relation)) // 20, relation, free, share, 0 * share, label, count > 0, count)
    doubts, left = calibrating._fit_doubts(pairs)
    hits, expected = label[relation == 1].sum(), said[relation == 1].sum()
    assert doubts == {1: pytest.approx((hits + 0.5) / (expected + 0.5), rel=0.1)}
    np.testing.assert_allclose(left.share, share * np.where(relation == 1, doubts[1], 1.0), rtol=1e-6)
    found = calibrating._fit_curve(left)
    assert (found.slope, found.top_slope, found.intercept) == pytest.approx((1.0, 0.5, 1.0), abs=0.3)
    assert calibrating._fit_doubts(pairs.take(relation != 1))[0] == {}
    limited = replace(pairs, limit=np.where(relation == 1, 0.05, np.inf).astype(np.float32))
    assert calibrating._fit_doubts(limited)[0] == {}  # more than that was not expected


def test_paths_take_the_curve_of_their_length_or_of_the_longest() -> None:
    own = calibration_by_hand().calibration
    curves = {hops: ChainCurve(witness=hops, share=1.0, intercept=0.0) for hops in (2, 3)}
    calibration = own.model_copy(update={"chains": curves})
    assert [calibration.chain(hops) for hops in (1, 2, 3, 4, 9)] == [None, *(curves[each] for each in (2, 3, 3, 3))]


def test_weights_are_not_less_than_they_may_be() -> None:
    rng = np.random.default_rng(2)
    feature = rng.normal(size=(5000, 1))
    falling = rng.random(5000) < 1 / (1 + np.exp(2 * feature[:, 0]))
    assert fit_logistic(feature, falling, (0,))[0] == [0.0]
    assert fit_logistic(feature, falling, (0.05,))[0] == pytest.approx([0.05])
    (_,), intercept = fit_logistic(np.zeros((5000, 1)), np.arange(5000) < 1000, (0,))
    assert intercept == pytest.approx(np.log(1000 / 4000), abs=0.01)


@given(
    slope=st.floats(0, 5), intercept=st.floats(-10, 10), kind=st.sampled_from([0.0, -2.0]), seed=st.integers(0, 2**31)
)
def test_curves_never_fall(slope: float, intercept: float, kind: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    share = np.sort(np.exp(rng.normal(-5, 8, size=50))).astype(np.float32)
    value = Curve(low=-6.0, low_slope=2 * slope, slope=slope, top_slope=slope / 2, intercept=intercept).probability(
        share, np.full(50, kind, dtype=np.float32)
    )
    assert (np.diff(value) >= -1e-6).all()
    assert ((value >= 0) & (value <= 1)).all()
    witness, log_share = np.sort(rng.random(50)), np.sort(rng.normal(-4, 3, size=50))
    raised = ChainCurve(witness=slope, share=slope, intercept=intercept).probability(witness, log_share)
    assert (np.diff(raised) >= 0).all()


def test_longer_paths_take_the_curve_of_the_longest_measured() -> None:
    two, three = (ChainCurve(witness=1, share=1, intercept=i) for i in (2, 3))
    calibration = calibration_by_hand().calibration.model_copy(update={"chains": {2: two, 3: three}})
    assert [calibration.chain(hops) for hops in (1, 2, 3, 9)] == [None, two, three, three]


def test_the_calibration_error_by_hand() -> None:
    probability = np.array([0.05, 0.05, 0.95, 0.95, 1.0])
    label = np.array([False, True, True, True, False])
    measured = reliability(probability, label)
    assert measured.size.tolist() == [2, 3]
    assert measured.true == pytest.approx([1 / 2, 2 / 3])
    assert measured.error == pytest.approx(2 / 5 * 0.45 + 3 / 5 * (2.9 / 3 - 2 / 3))
    by_mass = reliability(np.arange(30) / 30, np.arange(30) % 2 == 0, "mass")
    assert by_mass.size.tolist() == [2] * 15
    assert by_mass.true == pytest.approx([0.5] * 15)
    assert by_mass.said[0] == pytest.approx(0.5 / 30)


def test_queries_ask_for_what_train_misses(clockwork: Path) -> None:
    run = Run.open(clockwork)
    data = load(str(run.config.data))
    train, truth = data.split.graph("train"), data.split.graph("train", "test")
    queries = calibration_queries(data, 40, seed=0)
    assert set(queries.lengths()) == {1, 2, 3, 4, 5}
    for i in range(len(queries)):
        path = queries.path[i, : queries.length[i]].tolist()
        known, true = (set(answers(graph, int(queries.source[i]), path).tolist()) for graph in (train, truth))
        assert int(queries.target[i]) in true - known


def test_probabilities_of_a_trained_run_are_about_right(clockwork: Path) -> None:
    run = Run.open(clockwork)
    engine = Engine.open(run)
    assert engine.calibration is not None
    assert engine.calibration.hop.slope > 0
    measured = measure(engine, load(str(run.config.data)), per_length=60)
    assert measured["1 hop"].bins.error < 0.15
    assert 0 < measured["all"].brier < 0.25


def test_a_calibration_is_kept_for_its_weights_only(own_clockwork: Path) -> None:
    kept = load_calibration(own_clockwork)
    assert kept is not None
    save_calibration(kept, own_clockwork)
    again = load_calibration(own_clockwork)
    assert again is not None
    assert again.calibration == kept.calibration
    np.testing.assert_array_equal(again.normalisers, kept.normalisers)
    path = own_clockwork / CALIBRATION
    path.write_text(json.dumps(read_sealed(path) | {"weights": "others"}), encoding="utf-8")
    assert load_calibration(own_clockwork) is None


def _falling(stored: dict[str, Any]) -> dict[str, Any]:
    """A curve that falls."""
    stored["calibration"]["hop"]["slope"] *= -1
    return stored


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "cut short": lambda stored: [],
    "another version": lambda stored: {**stored, "version": 7},
    "another number": lambda stored: {**stored, "seal": "0" * 64},
    "a falling curve": _falling,
    "a number for a section": lambda stored: {**stored, "calibration": 7},
    "a word for a section": lambda stored: {**stored, "calibration": "lengths"},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_calibration_is_said_once_and_not_used(own_clockwork: Path, damage: str) -> None:
    path = own_clockwork / CALIBRATION
    path.write_text(json.dumps(DAMAGES[damage](read_sealed(path))), encoding="utf-8")
    _is_not_used(own_clockwork, f"{path} is damaged: it is not what was saved")


def test_a_calibration_of_version_0_1_has_to_be_made_again(own_clockwork: Path) -> None:
    path = own_clockwork / CALIBRATION
    curve = {"kind": "platt", "slope": -3.0, "intercept": 1.0}
    old = {"lengths": {"1": {"curve": curve, "positives": 9, "negatives": 9, "brier": {"platt": 0.1}}}}
    path.write_text(json.dumps({"weights": read_sealed(path)["weights"], "calibration": old}), encoding="utf-8")
    _is_not_used(own_clockwork, f"{path} was made by version 0.1, whose probabilities were others")


@pytest.mark.parametrize("damage", ["removed", "flipped", "of another size", "of other names"])
def test_damaged_normalisers_are_said_once_and_not_used(own_clockwork: Path, damage: str) -> None:
    path, record = own_clockwork / NORMALISERS, own_clockwork / CALIBRATION
    if damage == "removed":
        path.unlink()
    elif damage == "flipped":
        content = bytearray(path.read_bytes())
        content[-5] ^= 1
        path.write_bytes(content)
    else:
        name = "log_sums" if damage == "of another size" else "sums"
        save_file({name: np.zeros((2, 3), dtype=np.float32)}, path)
        stored = read_sealed(record) | {"sha256": sha256_of(path)}
        record.write_text(json.dumps(stored), encoding="utf-8")
    said = {
        "removed": f"{path} cannot be read",
        "flipped": f"{path} is damaged: its bytes are not those that were saved",
        "of another size": f"{path} does not fit the weights of {own_clockwork}",
        "of other names": f"{path} cannot be read",
    }
    _is_not_used(own_clockwork, said[damage])


def _is_not_used(folder: Path, what: str) -> None:
    said = f"{what}; make it again with `blockhole calibrate {folder}`"
    with pytest.warns(BlockholeWarning) as warned:
        found = Engine.open(folder).ask('"number 3"/next')
    assert [str(each.message) for each in warned] == [f"{said}, or answers will have no probabilities."]
    assert {answer.probability for answer in found} == {None}
    with pytest.raises(RunError, match=f"^{re.escape(said)}[.]$"):
        Engine.open(folder, calibrated=True)


@pytest.mark.slow
def test_fitting_twice_gives_the_same(own_clockwork: Path) -> None:
    kept = load_calibration(own_clockwork)
    assert kept is not None
    assert (
        calibrate(own_clockwork) == calibrate(own_clockwork) == kept.calibration == calibrate_in_memory(own_clockwork)
    )


def calibrate_in_memory(folder: Path) -> Calibration:
    run = Run.open(folder)
    in_memory = Run(run.config, run.entities, run.relations, run.state, model=run.model, graph=run.graph)
    return calibrate(in_memory, load(str(run.config.data)))


def test_composed_evidence_is_fitted_beside_the_witnesses_it_will_meet(
    clockwork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among typed candidates and among all, each length with the curves of the shorter ones and none of its own."""
    run, met = Run.open(clockwork), []
    original = calibrating._said_of_chains

    def said(engine: Engine, chains: Any, parts: Any, candidates: Candidates, device: Any) -> Any:
        assert engine.calibration is not None
        met.append((len(chains[0][1]), candidates, dict(engine.calibration.chains)))
        return original(engine, chains, parts, candidates, device)

    monkeypatch.setattr(calibrating, "_said_of_chains", said)
    found = fit(Vectors.of(run), load(str(run.config.data))).calibration.chains
    silent = ChainCurve(witness=1.0, share=0.0, intercept=0.0)
    assert found.keys() == {2, 3}
    assert met == [
        (length, candidates, {2: found[2], 3: silent} if length == 3 else {2: silent})
        for length in (2, 3)
        for candidates in ("typed", "all")
    ]
    witness = np.linspace(0.001, 0.999, 50)
    assert silent.probability(witness, -3.0) == pytest.approx(witness)


def _data(engine: Engine, valid: np.ndarray | None) -> DataSet:
    graph = engine.graph
    valid = graph.triples[:0] if valid is None else valid
    return DataSet("mine", SplitGraph(graph.entities, graph.relations, train=graph.triples, valid=valid))


def test_data_without_validation_facts_cannot_calibrate() -> None:
    engine, _ = make_engine()
    with pytest.raises(DataError, match=r"^mine has no validation facts, by which probabilities are fitted; set some"):
        fit(engine.vectors, _data(engine, None))


@pytest.mark.parametrize(("count", "said"), [(0, "0 validation facts"), (1, "1 validation fact")])
def test_too_few_new_validation_facts_are_counted(count: int, said: str) -> None:
    engine, _ = make_engine(E=40, facts=50)
    new = np.array([[s, 0, o] for s in range(40) for o in range(40) if not _is_fact(engine, s, 0, o)], dtype=np.int32)
    valid = np.concatenate([engine.graph.triples[:20], new[:count]])
    expected = f"mine has {said} that train does not have, and a calibration needs {ENOUGH}; answers have shares"
    with pytest.raises(DataError, match=f"^{re.escape(expected)}"):
        fit(engine.vectors, _data(engine, valid))


def _is_fact(engine: Engine, s: int, r: int, o: int) -> bool:
    return bool((engine.graph.triples == [s, r, o]).all(axis=1).any())


def test_other_data_is_refused(clockwork: Path) -> None:
    engine, _ = make_engine()
    with pytest.raises(RunError, match=r"^the run was trained on other data than mine: its names differ"):
        calibrate(clockwork, _data(engine, None))


def test_models_without_composed_vectors_are_calibrated_by_hops_alone() -> None:
    engine, _ = make_engine("simple", E=40, facts=200)
    valid = np.array([[i, i % 3, (i + 1) % 40] for i in range(30)], dtype=np.int32)
    assert fit(engine.vectors, _data(engine, valid)).calibration.chains == {}


@pytest.mark.slow
def test_sampled_normalisers_tell_their_error(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=600, facts=900)
    valid = np.array([[i, i % 3, (7 * i + 1) % 600] for i in range(60)], dtype=np.int32)
    exact = fit(engine.vectors, _data(engine, valid)).calibration
    assert exact.sampling_error == 0.0
    monkeypatch.setattr("blockhole.answering.calibrating._BUDGET", (1.0, 1.0))
    sampled = fit(engine.vectors, _data(engine, valid))
    assert 0 < sampled.calibration.sampling_error < 0.5
    monkeypatch.setattr("blockhole.answering.calibrating._KEPT", 1)
    assert fit(engine.vectors, _data(engine, valid)).normalisers is None


@pytest.mark.filterwarnings("ignore:family gives fewer")
@pytest.mark.slow
def test_c_is_the_one_that_ranks_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the evaluation of complex queries, once for each c that is tried, where no counts are limits."""
    monkeypatch.setattr(calibrating, "_RANKED", 30)
    monkeypatch.setattr(hops, "_FULL", 0.0)
    data = load("family")
    run = train(data, settings={"training.epochs": 10, "training.on": "base", "model.block_size": 8})
    vectors, graph = Vectors.of(run), data.split.graph("train")
    fitted = calibrating.fit(vectors, data).calibration.model_copy(update={"new_objects": 0.2, "chains": {}})
    found = calibrating._best_new_objects(Engine(vectors, graph, Calibrated(fitted, None)), data, 0, None)
    queries = sample_from_split(data.split, "valid", ("1p", "2i", "2u"), 30, 0, name="family")
    mrr = {}
    for c in (0.2, 0.06, 0.6, 2.0):
        engine = Engine(vectors, graph, Calibrated(fitted.model_copy(update={"new_objects": c}), None))
        report = judge_queries(engine, data.split, queries, torch.device("cpu"), name="family")
        mrr[c] = report.means["without negation"].all.means["mrr"]
    assert len({round(each, 6) for each in mrr.values()}) > 1
    assert mrr[min(mrr, key=lambda c: abs(c - found))] == pytest.approx(max(mrr.values()), abs=1e-6)
    few = calibrating._best_new_objects(Engine(vectors, graph, Calibrated(fitted, None)), _almost_whole(data), 0, None)
    assert few == 0.2


def _almost_whole(data: DataSet) -> DataSet:
    """The data with four validation facts: too few questions to choose by."""
    return DataSet("few", replace(data.split, valid=data.split.valid[:4]))
