"""Curves from evidence to probability: what they fit, which is kept, and how they are stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.answering.calibrating import calibrate, calibration_queries, collect_pairs, fit, measure
from blockhole.answering.calibration import (
    CALIBRATION,
    IsotonicCurve,
    PlattCurve,
    fit_calibration,
    fit_isotonic,
    fit_platt,
    load_calibration,
    save_calibration,
)
from blockhole.answering.engine import Engine
from blockhole.data.dataset import DataSet, load
from blockhole.errors import BlockholeWarning, DataError, RunError
from blockhole.evaluation.classification import reliability
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.queries.exact import answers
from blockhole.runs.run import Run
from blockhole.saving import read_sealed
from tests.answering.toys import make_engine, sigmoid_calibration


def _coin(probability: np.ndarray, seed: int = 0) -> np.ndarray:
    drawn: np.ndarray = np.random.default_rng(seed).random(len(probability)) < probability
    return drawn


def test_platt_recovers_a_sigmoid() -> None:
    evidence = np.random.default_rng(1).normal(3.0, 2.0, size=40_000)
    curve = fit_platt(evidence, _coin(1 / (1 + np.exp(-(1.7 * evidence - 4.0)))))
    assert curve.slope == pytest.approx(1.7, rel=0.05)
    assert curve.intercept == pytest.approx(-4.0, rel=0.05)


def test_isotonic_recovers_a_step_and_platt_cannot() -> None:
    evidence = np.random.default_rng(2).uniform(size=20_000)
    truth = np.where(evidence < 0.3, 0.05, np.where(evidence < 0.7, 0.5, 0.6))
    label, held_out = _coin(truth), np.arange(20_000) % 3 == 0
    calibration = fit_calibration(np.ones(20_000, dtype=np.int64), evidence, label, held_out)
    assert calibration.lengths[1].curve.kind == "isotonic"
    assert calibration.lengths[1].brier["isotonic"] < calibration.lengths[1].brier["platt"]
    fitted = calibration.probability(np.array([0.1, 0.5, 0.9]), 1)
    assert fitted == pytest.approx([0.05, 0.5, 0.6], abs=0.05)


def _pool(values: list[float]) -> list[float]:
    """Pool adjacent violators, as the textbook says it; all weights equal."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([value])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    return [float(np.mean(block)) for block in blocks for _ in block]


@given(seed=st.integers(0, 2**31), bins=st.integers(1, 12))
def test_isotonic_is_pooling_of_bins(seed: int, bins: int) -> None:
    rng = np.random.default_rng(seed)
    evidence, label = np.sort(rng.normal(size=20 * bins)), rng.random(20 * bins) < 0.4
    curve = fit_isotonic(evidence, label)
    expected = np.clip(
        _pool(label.reshape(bins, 20).mean(axis=1).tolist()), 1 / (20 * bins + 2), 1 - 1 / (20 * bins + 2)
    )
    assert curve.probability(evidence.reshape(bins, 20).mean(axis=1)) == pytest.approx(expected)


@given(seed=st.integers(0, 2**31), size=st.integers(1, 300))
def test_curves_never_fall_and_never_claim_certainty(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    evidence, label = rng.normal(size=size), rng.random(size) < rng.random()
    at = np.sort(rng.normal(scale=3, size=50))
    value = fit_isotonic(evidence, label).probability(at)
    assert (np.diff(value) >= 0).all()
    assert 0 < value[0] <= value[-1] < 1
    platt = fit_platt(evidence, label).probability(at)
    assert ((platt >= 0) & (platt <= 1)).all()


def test_a_length_with_too_few_positives_shares_the_others() -> None:
    evidence = np.random.default_rng(3).normal(size=4000)
    length = np.where(np.arange(4000) < 3900, 1, 2)
    label = _coin(1 / (1 + np.exp(-evidence))) & (length == 1)
    calibration = fit_calibration(length, evidence, label, np.arange(4000) % 2 == 0)
    assert calibration.lengths[2].positives == calibration.lengths[1].positives == label.sum()
    assert calibration.lengths[2].negatives == 4000 - label.sum()
    assert calibration.lengths[1].negatives == 3900 - label.sum()


def test_lengths_not_measured_take_the_nearest_shorter() -> None:
    stored = sigmoid_calibration().lengths[1]
    other = stored.model_copy(update={"curve": PlattCurve(slope=0, intercept=0)})
    calibration = sigmoid_calibration().model_copy(update={"lengths": {2: stored, 4: other}})
    at = np.array([1.0])
    assert calibration.probability(at, 1) == calibration.probability(at, 2) == calibration.probability(at, 3)
    assert calibration.probability(at, 9) == calibration.probability(at, 4) == 0.5


def test_the_calibration_error_by_hand() -> None:
    probability = np.array([0.05, 0.05, 0.95, 0.95, 1.0])
    label = np.array([False, True, True, True, False])
    measured = reliability(probability, label)
    assert measured.size.tolist() == [2, 3]
    assert measured.true == pytest.approx([1 / 2, 2 / 3])
    assert measured.error == pytest.approx(2 / 5 * 0.45 + 3 / 5 * (2.9 / 3 - 2 / 3))


def test_pairs_are_predicted_and_labelled_by_the_truth(clockwork: Path) -> None:
    run = Run.open(clockwork)
    data = load(str(run.config.data))
    engine = Engine.open(run)
    truth = data.split.graph("train", "valid")
    queries = calibration_queries(data, "dev", 40, seed=0)
    assert set(queries.lengths()) == {1, 2, 3, 4, 5}
    pairs = collect_pairs(engine, queries, truth)
    assert pairs.label.any()
    assert not pairs.label.all()
    for i in range(len(queries)):
        path = queries.path[i, : queries.length[i]].tolist()
        known, true = (set(answers(graph, int(queries.source[i]), path).tolist()) for graph in (engine.graph, truth))
        assert int(queries.target[i]) in true - known
        rows = pairs.query == i
        assert pairs.label[rows].sum() <= len(true - known)
        assert (pairs.length[rows] == len(path)).all()
        assert pairs.shown[rows].sum() <= 10


def test_probabilities_of_a_trained_run_are_about_right(clockwork: Path) -> None:
    run = Run.open(clockwork)
    measured = measure(Engine.open(run), load(str(run.config.data)))
    assert measured["all"].error < 0.15
    assert measured["all"].size.sum() > measured["shown"].size.sum()


def test_a_calibration_is_kept_for_its_weights_only(own_clockwork: Path) -> None:
    kept = load_calibration(own_clockwork)
    assert kept is not None
    save_calibration(kept, own_clockwork)
    assert load_calibration(own_clockwork) == kept
    path = own_clockwork / CALIBRATION
    path.write_text(json.dumps(read_sealed(path) | {"weights": "others"}), encoding="utf-8")
    assert load_calibration(own_clockwork) is None


def _without_values(stored: dict[str, Any]) -> dict[str, Any]:
    """A curve whose points have lost their values."""
    curve = {"kind": "isotonic", "evidence": [0.0, 1.0], "value": [0.5]}
    stored["calibration"]["lengths"]["1"]["curve"] = curve
    return {**stored, "sha256": None}


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "cut short": lambda stored: [],
    "another version": lambda stored: {**stored, "version": 7},
    "another number": lambda stored: {**stored, "seal": "0" * 64},
    "fewer than none": lambda stored: json.loads(json.dumps(stored).replace('"positives": ', '"positives": -')),
    "a curve without values": _without_values,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_calibration_is_said_once_and_not_used(own_clockwork: Path, damage: str) -> None:
    path = own_clockwork / CALIBRATION
    path.write_text(json.dumps(DAMAGES[damage](read_sealed(path))), encoding="utf-8")
    said = f"{path} is damaged: it is not what was saved; make it again with `blockhole calibrate {own_clockwork}`"
    with pytest.warns(BlockholeWarning) as warned:
        answers = Engine.open(own_clockwork).ask('"number 3"/next')
    assert [str(each.message) for each in warned] == [f"{said}, or answers will have no probabilities."]
    assert {answer.probability for answer in answers} == {None}
    with pytest.raises(RunError, match=f"^{re.escape(said)}[.]$"):
        Engine.open(own_clockwork, calibrated=True)


def test_fitting_twice_gives_the_same(own_clockwork: Path) -> None:
    assert calibrate(own_clockwork) == calibrate(own_clockwork)


def test_data_without_validation_facts_cannot_calibrate() -> None:
    engine, _ = make_engine()
    data = DataSet("mine", SplitGraph(engine.graph.entities, engine.graph.relations, train=engine.graph.triples))
    with pytest.raises(DataError, match=r"^mine has no validation facts, on which probabilities are measured; set"):
        fit(engine, data)


def test_other_data_is_refused(clockwork: Path) -> None:
    engine, _ = make_engine()
    data = DataSet("mine", SplitGraph(engine.graph.entities, engine.graph.relations, train=engine.graph.triples))
    with pytest.raises(RunError, match=r"^the run was trained on other data than mine: its names differ"):
        calibrate(clockwork, data)


def test_curves_are_stored_as_what_they_are() -> None:
    curve = IsotonicCurve(evidence=(0.0, 1.0), value=(0.25, 0.75))
    stored = sigmoid_calibration().lengths[1].model_copy(update={"curve": curve})
    again = type(stored).model_validate_json(stored.model_dump_json())
    assert again.curve == curve


def test_training_calibrates_what_it_keeps(clockwork: Path) -> None:
    assert load_calibration(clockwork) == calibrate_in_memory(clockwork)


def calibrate_in_memory(folder: Path) -> object:
    run = Run.open(folder)
    in_memory = Run(run.config, run.entities, run.relations, run.state, model=run.model, graph=run.graph)
    return calibrate(in_memory, load(str(run.config.data)))


def test_models_without_paths_are_calibrated_for_single_relations() -> None:
    engine, _ = make_engine("simple", E=40, facts=200)
    split = SplitGraph(
        engine.graph.entities,
        engine.graph.relations,
        train=engine.graph.triples,
        valid=np.array([[i, i % 3, (i + 1) % 40] for i in range(30)], dtype=np.int32),
    )
    assert set(fit(engine, DataSet("mine", split)).lengths) == {1}


def test_validation_facts_that_train_has_say_nothing() -> None:
    engine, _ = make_engine()
    facts = engine.graph.triples
    split = SplitGraph(engine.graph.entities, engine.graph.relations, train=facts, valid=facts[:1])
    expected = r"^all validation facts of mine are in train too, so they say nothing; give others.$"
    with pytest.raises(DataError, match=expected):
        fit(engine, DataSet("mine", split))


def test_a_handful_of_validation_facts_is_enough() -> None:
    engine, _ = make_engine(E=40, facts=200)
    valid = np.array([[1, 0, 2]], dtype=np.int32)
    split = SplitGraph(engine.graph.entities, engine.graph.relations, train=engine.graph.triples, valid=valid)
    probability = fit(engine, DataSet("mine", split)).probability(np.linspace(-5, 5, 7), 1)
    assert ((probability >= 0) & (probability <= 1)).all()
