"""How reliable probabilities are on queries that nothing was fitted on, beside those of version 0.1.

Version 0.1 had a probability for paths alone, by one curve for each number of hops, from the score of the composed
vector over the norm of the query, φ(s, p, o) / ‖q‖. Two kinds of curve competed, and the one with the smaller Brier
score on queries held out was kept: Platt's sigmoid (1999) and isotonic regression (Zadrozny and Elkan, KDD 2002). Here
they are fitted again, as it fitted them, on the vectors of today's run. Either shows its own ten best predicted
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.calibrating import calibration_queries, require_same_names
from blockhole.answering.engine import Engine
from blockhole.answering.known import KnownFacts
from blockhole.answering.reliability import SHOWN, Judged, judge_answers, measured_by_type
from blockhole.answering.vectors import Floats, norms
from blockhole.data.dataset import DataSet
from blockhole.errors import counted
from blockhole.evaluation.classification import Measured
from blockhole.evaluation.plots import plot_reliability_by_type, save_figure
from blockhole.evaluation.report import Table
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.queries.paths import PathQueries
from blockhole.queries.plans import Both, Either, Plan, chains_to
from blockhole.queries.query_sets import QuerySet
from blockhole.runs.run import Run

NOW: Final = "now"
BEFORE: Final = "version 0.1"
_FITTED, _HELD_OUT, _DRAWN, _BIN, _ENOUGH = 500, 0.3, 10, 20, 20
"""Queries of each length that curves are fitted on (0.1 took 2,000), the share of them that chooses the kind of curve,
candidates drawn beside the ten best, pairs that make one point of a curve, and positives that a length needs."""

_LONGEST = 3

Curve = Callable[[Floats], Floats]
Bools = NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class Reliabilities:
    """Measures by type of query, of today's probabilities and of those of version 0.1, which has them for paths."""

    measured: Mapping[str, Mapping[str, Measured]]

    def table(self) -> Table:
        """Both of them, type by type."""
        rows = []
        for type_, own in self.measured[NOW].items():
            before = self.measured[BEFORE].get(type_)
            figures = [figure for each in (own, before) for figure in _figures(each)]
            rows.append((type_, *figures, int(own.bins.size.sum())))
        header = ("type", "true", "ECE", "Brier", "0.1: true", "0.1: ECE", "0.1: Brier", "answers")
        return Table("Probabilities of the ten best predicted answers", header, tuple(rows), 3)

    def draw(self, folder: Path, title: str) -> list[Path]:
        """A panel for each type."""
        return save_figure(plot_reliability_by_type(self.measured, title), folder, "reliability")


def _figures(measured: Measured | None) -> tuple[float | None, float | None, float | None]:
    if measured is None:
        return None, None, None
    bins = measured.bins
    return float(np.average(bins.true, weights=bins.size)), bins.error, measured.brier


def measure_reliability(
    run: Run, data: DataSet, queries: QuerySet | None, limit: int, seed: int, say: Callable[[str], None]
) -> Reliabilities:
    """Measure a calibrated run on test queries: paths by their number of hops, or up to `limit` of each type of a set.

    Only what the curves of 0.1 are fitted on is drawn from validation facts; test facts are looked at last.
    """
    require_same_names(run, data)
    engine = Engine.open(run, graph=data.split.graph("train"), calibrated=True)
    plans = _paths(calibration_queries(data, limit, seed)) if queries is None else _of_set(queries.take(limit, seed))
    say("fitting the curves of version 0.1")
    curves = fit_first_version(engine, data, seed)
    truth = data.split.graph("train", "valid", "test")
    now, before = {}, {}
    for type_, own in plans.items():
        say(f"{type_}: {counted(len(own), 'query', 'queries')}")
        now[type_] = judge_answers(engine, own, truth)
        if own and not any(isinstance(step, Both | Either) for step in own[0].steps):
            before[type_] = _judge_first_version(engine, own, truth, curves)
    return Reliabilities({NOW: measured_by_type(now), BEFORE: measured_by_type(before)})


def _paths(queries: PathQueries) -> dict[str, list[Plan]]:
    """Paths of up to three hops by their number, as types are named; longer ones take minutes each on wide graphs."""
    plans: dict[str, list[Plan]] = {}
    queries = queries.take(queries.length <= _LONGEST)
    for source, path, length in zip(
        queries.source.tolist(), queries.path.tolist(), queries.length.tolist(), strict=True
    ):
        plans.setdefault(f"{length}p", []).append(Plan.of_chain(source, path[:length]))
    return dict(sorted(plans.items()))


def _of_set(queries: QuerySet) -> dict[str, list[Plan]]:
    return {type_: queries.plans(type_) for type_ in queries.ids}


# The probability of version 0.1


class Evidence(NamedTuple):
    """Typed candidates that are no known answers to a path, and φ / ‖q‖ of each: [C], [C]."""

    entities: NDArray[np.int32]
    value: Floats


def _evidence(engine: Engine, source: int, path: list[int]) -> Evidence:
    candidates = np.setdiff1d(engine.known.candidates(path[-1]), engine.known.answers(source, path))
    vector = engine.vectors.query(source, path)
    return Evidence(candidates, engine.vectors.candidates(candidates) @ vector[0] / norms(vector)[0])


def _judge_first_version(
    engine: Engine, plans: list[Plan], truth: KnowledgeGraph, curves: Mapping[int, Curve]
) -> Judged:
    """The ten best predicted answers by composed vectors; a length without a curve takes that of the next shorter."""
    facts, judged = KnownFacts(truth), []
    for plan in plans:
        (chain,) = chains_to(plan.steps, len(plan.steps) - 1)
        source, *path = (plan.ids[slot] for slot in chain)
        entities, value = _evidence(engine, source, path)
        best = np.argsort(-value, kind="stable")[:SHOWN]
        curve = curves[max((length for length in curves if length <= len(path)), default=min(curves))]
        judged.append(Judged(curve(value[best]), np.isin(entities[best], facts.answers(source, path))))
    return Judged.joined(judged)


def fit_first_version(engine: Engine, data: DataSet, seed: int) -> dict[int, Curve]:
    """The curve of each number of hops, from φ / ‖q‖ to a probability, fitted on validation facts.

    Pairs are the target of each query, its ten best predicted answers and ten candidates drawn.
    """
    split, rng = data.split, np.random.default_rng(seed)
    validation = SplitGraph(split.entities, split.relations, split.train, test=split.valid)
    queries = calibration_queries(DataSet(data.name, validation), _FITTED, seed)
    truth = KnownFacts(split.graph("train", "valid"))
    pairs: dict[int, list[tuple[Floats, Bools, Bools]]] = {}
    for row, length in enumerate(queries.length.tolist()):
        source, path = int(queries.source[row]), queries.path[row, :length].tolist()
        entities, value = _evidence(engine, source, path)
        if not len(entities):
            continue
        best = np.argsort(-value, kind="stable")[:SHOWN]
        target = np.flatnonzero(entities == queries.target[row])
        chosen = np.unique(np.concatenate([best, target, rng.integers(len(entities), size=_DRAWN)]))
        label = np.isin(entities[chosen], truth.answers(source, path))
        pairs.setdefault(length, []).append((value[chosen], label, np.full(len(chosen), rng.random() < _HELD_OUT)))
    joined = {length: _joined(own) for length, own in pairs.items()}
    everything = _better_curve(*_joined([each for own in pairs.values() for each in own]))
    return {
        length: _better_curve(value, label, held_out)
        if min(label[held_out].sum(), label[~held_out].sum()) >= _ENOUGH
        else everything
        for length, (value, label, held_out) in joined.items()
    }


def _joined(pairs: list[tuple[Floats, Bools, Bools]]) -> tuple[Floats, Bools, Bools]:
    value, label, held_out = zip(*pairs, strict=True)
    return np.concatenate(value), np.concatenate(label), np.concatenate(held_out)


def _better_curve(value: Floats, label: Bools, held_out: Bools) -> Curve:
    """Of the two kinds, the one with the smaller Brier score on what is held out; fitted on everything."""
    fits = (fit_platt, fit_isotonic)
    brier = [np.mean((fit(value[~held_out], label[~held_out])(value[held_out]) - label[held_out]) ** 2) for fit in fits]
    return fits[int(np.argmin(brier))](value, label)


def fit_platt(value: Floats, label: Bools) -> Curve:
    """p = 1 / (1 + exp(-(a v + b))), of greatest likelihood with targets (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2)."""
    from scipy.optimize import minimize

    positives = int(label.sum())
    target = np.where(label, (positives + 1) / (positives + 2), 1 / (len(label) - positives + 2))
    centre, spread = float(value.mean()), float(value.std()) or 1.0
    scaled = (value - centre) / spread

    def loss(weights: Floats) -> tuple[float, Floats]:
        logit = weights[0] * scaled + weights[1]
        gap = 0.5 * (1 + np.tanh(logit / 2)) - target
        return float(np.mean(np.logaddexp(0, logit) - target * logit)), np.array([np.mean(gap * scaled), np.mean(gap)])

    rate = float(target.mean())
    slope, intercept = minimize(loss, np.array([0.0, np.log(rate / (1 - rate))]), jac=True, method="BFGS").x
    return lambda given: 0.5 * (1 + np.tanh((slope * (given - centre) / spread + intercept) / 2))


def fit_isotonic(value: Floats, label: Bools) -> Curve:
    """Least squares among all curves that never fall, over bins of at least 20 pairs, 1/(N + 2) away from 0 and 1."""
    from scipy.optimize import isotonic_regression

    parts = np.array_split(np.argsort(value, kind="stable"), max(1, len(value) // _BIN))
    centre = np.array([value[part].mean() for part in parts])
    share = np.array([label[part].mean() for part in parts])
    edge = 1 / (len(value) + 2)
    level = np.clip(isotonic_regression(share, weights=np.array([len(part) for part in parts])).x, edge, 1 - edge)
    return lambda given: np.interp(given, centre, level)
