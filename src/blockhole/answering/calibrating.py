"""Fit the calibration of a run, and measure it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.calibration import Calibration, fit_calibration
from blockhole.answering.calibration_file import save_calibration
from blockhole.answering.calibration_pairs import calibration_queries, collect_pairs
from blockhole.answering.engine import Engine
from blockhole.answering.run_data import data_of, require_same_names
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import DataSet
from blockhole.errors import DataError, UndefinedPath
from blockhole.paths.queries import PathQueries
from blockhole.training.run import Run

_BINS = 10
_HELD_OUT = 0.3


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """How probabilities compare with what is true, in ten equal bins of probability; empty bins are left out.

    Shapes [bins]: `said` mean probability, `true` share that is true, `size` pairs.
    """

    said: NDArray[np.float64]
    true: NDArray[np.float64]
    size: NDArray[np.int64]

    @property
    def error(self) -> float:
        """The expected calibration error Σ_b |said_b - true_b| · size_b / N."""
        return float((np.abs(self.said - self.true) * self.size).sum() / max(self.size.sum(), 1))


def calibrate(run: Run | Path | str, data: DataSet | None = None, *, seed: int = 0) -> Calibration:
    """Fit a calibration on validation facts, those of the run's own data unless other data is given.

    It is kept in the folder of the run, where there is one, and used whenever the run is asked.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    if data is None:
        data = data_of(run)
    require_same_names(run, data)
    engine = Engine(Vectors.of(run), data.split.graph("train"))
    calibration = fit(engine, data, seed=seed)
    if run.folder is not None:
        save_calibration(calibration, run.folder)
    return calibration


def fit(engine: Engine, data: DataSet, *, per_length: int = 2000, seed: int = 0) -> Calibration:
    """The calibration of `engine` by the validation facts of `data`; the curves' kind is chosen on queries held out."""
    queries = scored_queries(engine, calibration_queries(data, "dev", per_length, seed))
    pairs = collect_pairs(engine, queries, data.split.graph("train", "valid"), seed)
    if not pairs.label.any():
        raise DataError(f"all validation facts of {data.name} are in train too, so they say nothing; give others.")
    held_out = np.random.default_rng(seed).random(len(queries)) < _HELD_OUT
    return fit_calibration(pairs.length, pairs.evidence, pairs.label, held_out[pairs.query])


def measure(engine: Engine, data: DataSet, *, per_length: int = 2000, seed: int = 0) -> dict[str, Reliability]:
    """How the probabilities of `engine` do on test queries: of `all` pairs, and of those that `ask` would show.

    `all` are the targets, the ten best predicted answers and ten candidates drawn for each query.
    """
    queries = scored_queries(engine, calibration_queries(data, "test", per_length, seed))
    pairs = collect_pairs(engine, queries, data.split.graph("train", "valid", "test"), seed)
    probability = np.zeros(len(pairs))
    for length in np.unique(pairs.length).tolist():
        rows = pairs.length == length
        probability[rows] = engine.probability(pairs.evidence[rows], length)
    return {
        "all": reliability(probability, pairs.label),
        "shown": reliability(probability[pairs.shown], pairs.label[pairs.shown]),
    }


def scored_queries(engine: Engine, queries: PathQueries) -> PathQueries:
    """The queries of those lengths that the model defines scores for."""
    defined = np.ones(len(queries), dtype=bool)
    for length in queries.lengths():
        of_length = queries.length == length
        try:
            engine.scores(queries.take(np.flatnonzero(of_length)[:1]))
        except UndefinedPath:
            defined[of_length] = False
    return queries.take(defined)


def reliability(probability: NDArray[np.float64], label: NDArray[np.bool_]) -> Reliability:
    """Compare probabilities with labels; shapes [N], [N]."""
    which = np.minimum((probability * _BINS).astype(np.int64), _BINS - 1)
    size = np.bincount(which, minlength=_BINS)
    said, true = (np.bincount(which, values, _BINS) for values in (probability, label.astype(np.float64)))
    filled = size > 0
    return Reliability(said[filled] / size[filled], true[filled] / size[filled], size[filled])
