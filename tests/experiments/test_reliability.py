"""Probabilities beside those of version 0.1: whose answers are judged, by which facts, and the curves it had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from blockhole.answering.calibrating import calibration_queries
from blockhole.answering.engine import Engine
from blockhole.data.dataset import load, sample_queries
from blockhole.queries.exact import answers
from blockhole.runs.run import Run
from experiments.__main__ import main
from experiments.reliability import BEFORE, NOW, fit_first_version, fit_isotonic, fit_platt, measure_reliability
from tests.outcomes import command


def test_curves_find_the_probability_that_pairs_were_drawn_with() -> None:
    rng = np.random.default_rng(0)
    value = rng.normal(size=20_000)
    truth = 1 / (1 + np.exp(-(2 * value - 1)))
    label = rng.random(len(value)) < truth
    at = np.linspace(-1.5, 1.5, 7)
    for fit in (fit_platt, fit_isotonic):
        curve = fit(value, label)
        assert curve(at) == pytest.approx(1 / (1 + np.exp(-(2 * at - 1))), abs=0.05)
        assert (np.diff(curve(at)) >= 0).all()
        assert 0 < curve(np.array([-5.0]))[0] < curve(np.array([5.0]))[0] < 1


def test_version_0_1_is_judged_by_its_own_ten_best(clockwork: Path) -> None:
    run = Run.open(clockwork)
    data = load(str(run.config.data))
    limit = 8
    found = measure_reliability(run, data, None, limit, 0, lambda line: None).measured
    engine = Engine.open(run, graph=data.split.graph("train"))
    curves = fit_first_version(engine, data, 0)
    truth, queries = data.split.graph("train", "valid", "test"), calibration_queries(data, limit, 0)
    for length in (1, 2, 3):
        said, true = [], []
        for row in np.flatnonzero(queries.length == length):
            source, path = int(queries.source[row]), queries.path[row, :length].tolist()
            vector = engine.vectors.query(source, path)[0]
            known = set(engine.known.answers(source, path).tolist())
            scores = {
                entity: float(engine.vectors.candidates(np.array([entity]))[0] @ vector)
                for entity in engine.known.candidates(path[-1]).tolist()
                if entity not in known
            }
            best = sorted(scores, key=lambda entity: (-scores[entity], entity))[:10]
            said += curves[length](np.array([scores[entity] for entity in best]) / np.linalg.norm(vector)).tolist()
            true += np.isin(best, answers(truth, source, path)).tolist()
        measured = found[BEFORE][f"{length}p"]
        assert measured.bins.size.sum() == len(said)
        assert measured.brier == pytest.approx(np.mean((np.array(said) - true) ** 2))
    assert set(found[NOW]) == set(found[BEFORE]) == {"1p", "2p", "3p"}


def test_only_paths_had_probabilities_in_version_0_1(
    clockwork: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = load(str(Run.open(clockwork).config.data))
    queries = sample_queries(data, split="test", types=("2p", "2i"), count=4)
    found = measure_reliability(Run.open(clockwork), data, queries, 3, 0, lambda line: None)
    assert (set(found.measured[NOW]), set(found.measured[BEFORE])) == ({"2p", "2i"}, {"2p"})
    row = next(row for row in found.table().rows if row[0] == "2i")
    assert row[4:7] == (None, None, None)
    outcome = command(main, capsys)("reliability", clockwork, "--limit", 3, "--plots", tmp_path, "--json")
    assert {path.name for path in tmp_path.iterdir()} == {"reliability.svg", "reliability.png"}
    assert set(outcome.json()) == {NOW, BEFORE}
