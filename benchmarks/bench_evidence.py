"""Which reading of a score is the best evidence for an answer, judged on validation queries alone.

    python -m benchmarks.bench_evidence RUN...

prints one JSON object: for each run and each reading the log loss, in nats a pair, of isotonic curves by path length,
fitted on one half of the validation queries and measured on the other, and the other way round; over the answers that
`ask` shows and over all pairs that a calibration is fitted on. `chosen` is the reading with the lowest mean over the
runs on shown answers, among those that need a pair and no other candidate: relation paths between two entities, beams
of an explanation and approximate indexes have no others. No test fact is read.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.calibrating import SHOWN, Pairs, calibration_queries, collect_pairs, data_of, scored_queries
from blockhole.answering.calibration import fit_isotonic
from blockhole.answering.engine import Engine
from blockhole.answering.search import find_answers
from blockhole.answering.vectors import Vectors, norms
from blockhole.queries.paths import PathQueries
from blockhole.runs.run import Run

Floats = NDArray[np.float64]
_PER_LENGTH = 2000
_OF_A_PAIR = ("score", "score / norm of the query")
"""Readings that need no other candidate's score."""
_ROWS = 256
"""Queries whose scores of all candidates are computed at a time."""


def typed_log_sum_exp(engine: Engine, queries: PathQueries) -> Floats:
    """log Σ exp φ over the candidates of the right type, for each query; shape [N]."""
    total = np.zeros(len(queries))
    vectors = engine.vectors.queries(queries).float()
    for relation in np.unique(queries.last_relation).tolist():
        candidates = engine.index.subset(engine.known.candidates(relation)).vectors
        members = np.flatnonzero(queries.last_relation == relation)
        for rows in np.array_split(members, -(-len(members) // _ROWS)):
            scores = vectors[torch.from_numpy(rows)] @ candidates.T
            total[rows] = torch.logsumexp(scores, dim=1).double().numpy()
    return total


def readings(engine: Engine, queries: PathQueries, pairs: Pairs) -> dict[str, Floats]:
    """Five readings of the score of every pair; shape [pairs] each."""
    norm = norms(engine.vectors.queries(queries))[pairs.query]
    score = pairs.evidence * norm
    best = find_answers(engine, queries, SHOWN, only="predicted")
    ten = np.full((len(queries), SHOWN), -np.inf)
    ten[best.row, np.arange(len(best.row)) - np.searchsorted(best.row, best.row)] = best.score
    return {
        "score": score,
        "score / norm of the query": pairs.evidence,
        "score - largest": score - ten.max(axis=1)[pairs.query],
        "score - log-sum-exp of the ten best": score - np.logaddexp.reduce(ten, axis=1)[pairs.query],
        "score - log-sum-exp of all": score - typed_log_sum_exp(engine, queries)[pairs.query],
    }


def held_out_loss(pairs: Pairs, evidence: Floats, seed: int) -> Floats:
    """The log loss of every pair by curves fitted on the half of the queries that it is not in; shape [pairs]."""
    half = np.random.default_rng(seed).permutation(pairs.query.max() + 1)[pairs.query] % 2 == 0
    probability = np.zeros(len(pairs))
    for length in np.unique(pairs.length):
        for side in (half, ~half):
            fitted, measured = side & (pairs.length == length), ~side & (pairs.length == length)
            probability[measured] = fit_isotonic(evidence[fitted], pairs.label[fitted]).probability(evidence[measured])
    return -np.log(np.where(pairs.label, probability, 1 - probability))


def losses(folder: Path, seed: int) -> dict[str, dict[str, float]]:
    """The held-out log losses of all readings for one run."""
    run = Run.open(folder)
    data = data_of(run)
    engine = Engine(Vectors.of(run), data.split.graph("train"))
    queries = scored_queries(engine, calibration_queries(data, "dev", _PER_LENGTH, seed))
    pairs = collect_pairs(engine, queries, data.split.graph("train", "valid"), seed)
    report = {}
    for name, evidence in readings(engine, queries, pairs).items():
        loss = held_out_loss(pairs, evidence, seed)
        report[name] = {"shown": round(float(loss[pairs.shown].mean()), 4), "all": round(float(loss.mean()), 4)}
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    by_run = {str(folder): losses(folder, arguments.seed) for folder in arguments.runs}
    chosen = min(_OF_A_PAIR, key=lambda name: sum(report[name]["shown"] for report in by_run.values()))
    print(json.dumps({"log_loss": by_run, "chosen": chosen}))


if __name__ == "__main__":
    main()
