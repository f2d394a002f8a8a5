"""Scores as probabilities: for each path length a curve from evidence to probability, kept beside the weights.

The evidence for an answer is its score over the norm of the query vector, φ(s, p, o) / ‖q‖. Norms differ from query to
query and tell nothing about an answer, so a score means more once they are gone; within a query the order is the same.

Two kinds of curve compete, and the one with the smaller Brier score on queries held out is kept: Platt's sigmoid (1999)
needs little data, isotonic regression (Zadrozny and Elkan, KDD 2002) assumes no shape. `calibrating` makes the pairs
that curves are fitted on; here are the curves, how they are fitted, and their file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from blockhole.runs.checkpoint import weights_id
from blockhole.runs.folder import read_derived
from blockhole.saving import replacing, sealed

Floats = NDArray[np.float64]

_BIN = 20
"""Pairs that make one point of an isotonic curve; alone, the few with most evidence would claim certainty."""
_ENOUGH = 20
"""Positives of a path length without which it has no curve of its own, on either side of the hold-out."""


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class PlattCurve(_Stored):
    """p = 1 / (1 + exp(-(slope · evidence + intercept)))."""

    kind: Literal["platt"] = "platt"
    slope: float
    intercept: float

    def probability(self, evidence: Floats) -> Floats:
        """Shape [N] → [N]."""
        return 0.5 * (1 + np.tanh((self.slope * evidence + self.intercept) / 2))


@final
class IsotonicCurve(_Stored):
    """A curve that never falls: straight between the points (evidence, value), level beyond them."""

    kind: Literal["isotonic"] = "isotonic"
    evidence: tuple[float, ...] = Field(min_length=1)
    value: tuple[Annotated[float, Field(ge=0, le=1)], ...]

    @model_validator(mode="after")
    def _is_a_curve(self) -> Self:
        if len(self.evidence) != len(self.value):
            raise ValueError("a point of a curve is an evidence and a value")
        return self

    def probability(self, evidence: Floats) -> Floats:
        """Shape [N] → [N]."""
        return np.interp(evidence, self.evidence, self.value)


Curve = PlattCurve | IsotonicCurve
Kind = Literal["platt", "isotonic"]


@final
class LengthCalibration(_Stored):
    """The curve for one path length, and what it was fitted on; `brier` is measured on the queries held out."""

    curve: Annotated[Curve, Field(discriminator="kind")]
    positives: int = Field(ge=0)
    negatives: int = Field(ge=0)
    brier: dict[Kind, float]


@final
class Calibration(_Stored):
    """From the evidence for a predicted answer to its probability, by path length.

    A length that was not measured takes the curve of the nearest shorter one, or of the shortest.
    """

    lengths: dict[int, LengthCalibration] = Field(min_length=1)

    def probability(self, evidence: Floats, length: int) -> Floats:
        """The probability that a predicted answer of this evidence is true, for a path of `length`; shape [N] → [N]."""
        shorter = [known for known in self.lengths if known <= length]
        return self.lengths[max(shorter) if shorter else min(self.lengths)].curve.probability(evidence)


def fit_calibration(
    length: NDArray[np.int64], evidence: Floats, label: NDArray[np.bool_], held_out: NDArray[np.bool_]
) -> Calibration:
    """Fit a curve for each path length; `held_out` marks the pairs that decide between the kinds; shapes [N].

    Lengths with too few positives to fit or to judge share the pairs of all lengths.
    """
    fitted: dict[int, LengthCalibration] = {}
    everything = _fit_better(evidence, label, held_out)
    for k in np.unique(length).tolist():
        of_length = length == k
        enough = min(label[of_length & held_out].sum(), label[of_length & ~held_out].sum()) >= _ENOUGH
        part = (evidence[of_length], label[of_length], held_out[of_length])
        fitted[k] = _fit_better(*part) if enough else everything
    return Calibration(lengths=fitted)


def _fit_better(evidence: Floats, label: NDArray[np.bool_], held_out: NDArray[np.bool_]) -> LengthCalibration:
    brier: dict[Kind, float] = {}
    if held_out.all() or not held_out.any():  # a handful of queries: what they are fitted on must judge as well
        fitted_on = judged_on = np.ones(len(label), dtype=bool)
    else:
        fitted_on, judged_on = ~held_out, held_out
    for kind, fit in _FITS.items():
        curve = fit(evidence[fitted_on], label[fitted_on])
        brier[kind] = float(np.mean((curve.probability(evidence[judged_on]) - label[judged_on]) ** 2))
    best = min(brier, key=lambda kind: brier[kind])
    positives = int(label.sum())
    return LengthCalibration(
        curve=_FITS[best](evidence, label), positives=positives, negatives=len(label) - positives, brier=brier
    )


def fit_platt(evidence: Floats, label: NDArray[np.bool_]) -> PlattCurve:
    """Maximum likelihood with Platt's smoothed targets (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2)."""
    from scipy.optimize import minimize

    positives = int(label.sum())
    target = np.where(label, (positives + 1) / (positives + 2), 1 / (len(label) - positives + 2))
    centre, spread = float(evidence.mean()), float(evidence.std()) or 1.0
    scaled = (evidence - centre) / spread
    rate = np.clip(target.mean(), 1e-6, 1 - 1e-6)

    def loss(weights: Floats) -> tuple[float, Floats]:
        logit = weights[0] * scaled + weights[1]
        gap = 0.5 * (1 + np.tanh(logit / 2)) - target
        value = np.mean(np.logaddexp(0, logit) - target * logit)
        return float(value), np.array([np.mean(gap * scaled), np.mean(gap)])

    start = np.array([0.0, np.log(rate / (1 - rate))])
    slope, intercept = minimize(loss, start, jac=True, method="BFGS").x
    return PlattCurve(slope=float(slope / spread), intercept=float(intercept - slope * centre / spread))


def fit_isotonic(evidence: Floats, label: NDArray[np.bool_]) -> IsotonicCurve:
    """Least squares among all curves that never fall (pool adjacent violators), over bins of at least 20 pairs.

    No finite sample makes an answer certain, so values stay 1/(N + 2) away from 0 and 1.
    """
    from scipy.optimize import isotonic_regression

    order = np.argsort(evidence, kind="stable")
    parts = np.array_split(order, max(1, len(order) // _BIN))
    centre = np.array([evidence[part].mean() for part in parts])
    share = np.array([label[part].mean() for part in parts])
    value = isotonic_regression(share, weights=np.array([len(part) for part in parts])).x
    edge = 1 / (len(evidence) + 2)
    # Inside a level stretch a point says nothing that its ends do not.
    level = np.zeros(len(value), dtype=bool)
    level[1:-1] = (value[1:-1] == value[:-2]) & (value[1:-1] == value[2:])
    value = np.clip(value, edge, 1 - edge)
    return IsotonicCurve(evidence=tuple(centre[~level].tolist()), value=tuple(value[~level].tolist()))


_FITS: Mapping[Kind, Callable[[Floats, NDArray[np.bool_]], Curve]] = {"platt": fit_platt, "isotonic": fit_isotonic}


# The file in a run's folder

CALIBRATION = "calibration.json"


@final
class _File(BaseModel):
    """The contents of calibration.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: str
    calibration: Calibration


def save_calibration(calibration: Calibration, folder: Path) -> Path:
    """Keep a calibration beside the weights it was fitted for."""
    path = folder / CALIBRATION
    stored = _File(weights=weights_id(folder), calibration=calibration)
    with replacing(path) as temporary:
        temporary.write_text(sealed(stored.model_dump(mode="json")), encoding="utf-8")
    return path


def load_calibration(folder: Path) -> Calibration | None:
    """The calibration of the run in `folder`; None where there is none, or one of other weights.

    One that is damaged is refused.
    """
    remedy = f"make it again with `blockhole calibrate {quote(str(folder))}`"
    stored = read_derived(folder / CALIBRATION, _File, remedy)
    return stored.calibration if stored is not None and stored.weights == weights_id(folder) else None
