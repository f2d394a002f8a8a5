"""Answers over whole test splits of WN11 come in the places that `evaluate` counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from blockhole.answering.engine import Candidates, Engine
from blockhole.answering.search import find_answers
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import DataSet, load
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.truth import queries_of, truth_of
from blockhole.files.readers import UnseenEntities
from blockhole.fitting import train
from blockhole.runs.run import Run
from tests.sweep import WHOLE

_TOP = 50


@pytest.fixture(scope="module")
def wn11(data_root: Path) -> DataSet:
    with pytest.warns(UnseenEntities):
        return load(data_root / "wn11")


@pytest.fixture(scope="module")
def run(wn11: DataSet) -> Run:
    # Enough training that every split has dozens of targets among the answers that are compared.
    settings = {"training.on": "base", "training.epochs": 30, "early_stop.metric": None, "penalty.l2": 0.01}
    return train(wn11, preset="paper", settings={**settings, "optimizer.learning_rate": 0.1})


@pytest.mark.slow
@pytest.mark.parametrize("candidates", ["typed", "all"])
@pytest.mark.parametrize(("split", "step"), [("base", 1 if WHOLE else 4), ("deduction", 20), ("induction", 20)])
def test_ranks_are_those_of_evaluation(wn11: DataSet, run: Run, split: str, step: int, candidates: Candidates) -> None:
    queries = queries_of(wn11, split)
    queries = queries.take(np.arange(0, len(queries), step))
    truth = truth_of(wn11.split.graph("train", "test"))
    ranks = rank(run.model, queries, truth, candidates=candidates)
    engine = Engine(Vectors.of(run), truth.graph)
    rivals = find_answers(engine, queries, _TOP, candidates, only="predicted")
    target = engine.scores(queries)[0][rivals.row]
    better, at_least = (
        np.bincount(rivals.row[beats], minlength=len(queries))
        for beats in (rivals.score > target, rivals.score >= target)
    )
    assert (ranks.better < _TOP).sum() > 20
    np.testing.assert_array_equal(better, np.minimum(ranks.better, _TOP))
    np.testing.assert_array_equal(at_least, np.minimum(ranks.better + ranks.tied, _TOP))
    shown = np.bincount(rivals.row, minlength=len(queries))
    np.testing.assert_array_equal(shown, np.minimum(ranks.negatives, _TOP))
