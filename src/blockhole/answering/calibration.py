"""What makes probabilities of a model's shares, how it is fitted, and the files in a run's folder that keep it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Final, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from blockhole.errors import DamagedRun
from blockhole.runs.checkpoint import weights_id
from blockhole.runs.folder import read_derived
from blockhole.saving import READ_AT_ONCE, is_intact, read_json, replacing, sealed, sha256_of

Floats = NDArray[np.float64]

_LEAST = 1e-30
"""A share below this is taken for it, so that it has a logarithm."""


BEND = np.float32(np.log(0.05))
"""log K, where the curve of a hop bends."""


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Parts = Annotated[
    tuple[Annotated[float, Field(ge=0)], ...],
    Field(min_length=1, description="how much scores of each model count, beside α, that a model was merged from"),
]
ENOUGH = 10
"""Validation facts without which there is no calibration."""
ONE_PART = (1.0,)


@final
class Curve(_Stored):
    """The probability of a hop by its share x and its object's κ: a logistic curve with two bends, which never falls.

    p = 1 / (1 + exp(-(low_slope · min(log x - log L, 0) + slope · min(max(log x, log L), log K) + top_slope ·
    max(log x - log K, 0) + intercept + log κ))). Models are often too sure of their best answers, and beyond K = 1/20 a
    larger share then says less than before. Below L are the many that nobody is shown, and that are hardly ever true.
    Among objects that are new to a relation κ < 1 tells these apart, and there is no bend at L.
    """

    low: float = Field(description="log L, where the curve bends among the entities that are hardly ever true")
    low_slope: float = Field(ge=0)
    slope: float = Field(ge=0)
    top_slope: float = Field(ge=0)
    intercept: float

    def probability(
        self, share: NDArray[np.float32], kind: NDArray[np.float32], *against: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        """Shapes [N, C], [C] log κ → [N, C]; what else speaks `against`, as odds, is added to those of the curve."""
        odds = np.log(np.maximum(share, np.float32(_LEAST)))
        above = np.maximum(odds - BEND, np.float32(0))
        below = np.minimum(odds - np.float32(self.low), np.float32(0))
        np.clip(odds, np.float32(self.low), BEND, out=odds)
        odds *= np.float32(-self.slope)
        odds -= np.float32(self.top_slope) * above
        below *= np.where(kind < 0, np.float32(self.slope), np.float32(self.low_slope))
        odds -= below
        odds -= np.float32(self.intercept) + kind
        np.exp(np.minimum(odds, np.float32(80), out=odds), out=odds)
        odds += np.float32(1)
        for other in against:
            if other is not None:
                odds += other
        return np.divide(np.float32(1), odds, out=odds)


@final
class ChainCurve(_Stored):
    """What a path's composed vector adds to its best witness: neither may lower the probability.

    p = 1 / (1 + exp(-(witness · logit w + share · log x + intercept))), with w the probability of the best witness and
    x the share of the answer among all entities by the composed vector, times the number of known answers.
    """

    parts: Parts = ONE_PART
    witness: float = Field(ge=0)
    share: float = Field(ge=0)
    intercept: float

    def probability(self, witness: Floats, log_share: Floats | float) -> Floats:
        """Shapes [N], [N] or one for all → [N]."""
        logit = self.witness * log_odds(witness) + self.share * log_share + self.intercept
        return 0.5 * (1 + np.tanh(logit / 2))


CLOSEST = 1e-4
"""No probability is taken to be closer than this to 0 or 1 where it needs a logit."""


def log_odds(probability: Floats) -> Floats:
    """log(p / (1 - p)), with p kept away from 0 and 1: [N] → [N]."""
    kept = np.clip(probability, CLOSEST, 1 - CLOSEST)
    odds: Floats = np.log(kept) - np.log1p(-kept)
    return odds


@final
class Calibration(_Stored):
    """From scores to probabilities: α, the curve of a hop, and where paths have scores, those of composed vectors."""

    scale: float = Field(gt=0, description="α, which scores are multiplied with before the softmax")
    parts: Parts = ONE_PART
    new_objects: float = Field(ge=0, description="c, how much an object counts that is new to a relation")
    doubts: dict[int, Annotated[float, Field(gt=0, le=1)]] = Field(
        description="τ, by relation: how much its shares count where hardly any of its likely objects is true"
    )
    hop: Curve
    chains: dict[int, ChainCurve] = Field(description="by number of hops; longer paths take the longest's")
    facts: int = Field(ge=1, description="validation facts that it was fitted on")
    missing: float = Field(ge=1, description="how many facts train lacks for each validation fact that it lacks")
    brier: float = Field(ge=0, description="of the twenty best predicted objects of facts held out")
    sampling_error: float = Field(ge=0, description="root mean square error of sampled normalisers, in logits")

    def weights(self, parts: Parts) -> list[float]:
        """α times how much each part counts."""
        return [self.scale * each for each in parts]

    def chain(self, hops: int) -> ChainCurve | None:
        """The curve of a path of so many hops, if paths have one."""
        shorter = [length for length in self.chains if length <= hops]
        return self.chains[max(shorter)] if shorter else None


# Logistic regression with weights that are not negative


def fit_logistic(features: Floats, label: NDArray[np.bool_], least: Sequence[float]) -> tuple[list[float], float]:
    """K weights, each no less than its `least`, and the intercept, of greatest likelihood: [N, K], [N], [K]."""
    from scipy.optimize import minimize

    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread == 0] = 1.0
    scaled = np.column_stack([(features - centre) / spread, np.ones(len(features))])
    total = features.shape[1]

    def loss(point: Floats) -> tuple[float, Floats]:
        logit = scaled @ point
        gap = (0.5 * (1 + np.tanh(logit / 2)) - label) / len(label)
        ridge = 1e-6 * point[:total] @ point[:total]
        value = float((np.logaddexp(0, logit) - label * logit).mean() + ridge)
        slope = scaled.T @ gap
        slope[:total] += 2e-6 * point[:total]
        return value, slope

    rate = np.clip(label.mean(), 1e-6, 1 - 1e-6)
    start = np.append(np.full(total, 0.5), np.log(rate / (1 - rate)))
    limits = [(low * each, None) for low, each in zip(least, spread, strict=True)] + [(None, None)]
    found = minimize(
        loss,
        np.maximum(start, [low if low is not None else -np.inf for low, _ in limits]),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-8},
    ).x
    weights = found[:total] / spread
    return weights.tolist(), float(found[-1] - weights @ centre)


# The files in a run's folder

CALIBRATION = "calibration.json"
NORMALISERS: Final = "normalisers.safetensors"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """A calibration and the normalisers that it was fitted with, [2R, E]; None where they are made when asked for."""

    calibration: Calibration
    normalisers: NDArray[np.float32] | None


@final
class _File(BaseModel):
    """The contents of calibration.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: str
    file: Literal["normalisers.safetensors"] | None = Field(description="where normalisers are, if they were kept")
    sha256: str | None = Field(description="sum of that file")
    calibration: Calibration


def save_calibration(calibrated: Calibrated, folder: Path) -> None:
    """Keep a calibration beside the weights it was fitted for."""
    from safetensors.numpy import save

    file: Literal["normalisers.safetensors"] | None = None
    if calibrated.normalisers is not None:
        file = NORMALISERS
        with replacing(folder / file) as temporary:
            temporary.write_bytes(save({"log_sums": calibrated.normalisers}))
    stored = _File(
        weights=weights_id(folder),
        file=file,
        sha256=None if file is None else sha256_of(folder / file),
        calibration=calibrated.calibration,
    )
    with replacing(folder / CALIBRATION) as temporary:
        temporary.write_text(sealed(stored.model_dump(mode="json")), encoding="utf-8")


def load_calibration(folder: Path, shape: tuple[int, int] | None = None) -> Calibrated | None:
    """The calibration of the run in `folder`; None where there is none, or one of other weights.

    Normalisers are those of every relation and entity, whose numbers are the `shape` they must have, if it is given.

    One that is damaged is refused, and so is one of version 0.1, which knew paths and no hops.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    remedy = f"make it again with `blockhole calibrate {quote(str(folder))}`"
    if _is_of_version_0_1(folder / CALIBRATION):
        raise DamagedRun(f"{folder / CALIBRATION} was made by version 0.1, whose probabilities were others; {remedy}")
    stored = read_derived(folder / CALIBRATION, _File, remedy)
    if stored is None or stored.weights != weights_id(folder):
        return None
    table = None
    if stored.file is not None:
        path = folder / stored.file
        try:
            if not is_intact(path, stored.sha256, at_most=READ_AT_ONCE):
                raise DamagedRun(f"{path} is damaged: its bytes are not those that were saved; {remedy}")
            table = load_file(path)["log_sums"]
        except (OSError, SafetensorError, KeyError):
            raise DamagedRun(f"{path} cannot be read; {remedy}") from None
        if table.dtype != np.float32 or table.shape != (shape or table.shape):
            raise DamagedRun(f"{path} does not fit the weights of {folder}; {remedy}")
    return Calibrated(stored.calibration, table)


def _is_of_version_0_1(path: Path) -> bool:
    try:
        stored = read_json(path)
    except (OSError, ValueError):
        return False
    match stored:
        case {"calibration": {"lengths": _}}:
            return True
    return False
