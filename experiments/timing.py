"""The run-time figure: seconds of an epoch on one CPU thread against n, for each b, and how they grow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import torch

from blockhole.data.dataset import DataSet
from blockhole.errors import ConfigError, nearest_or_all
from blockhole.fitting import fit
from blockhole.models.catalogue import ModelSettings
from blockhole.runs.config import LossConfig, OptimizerConfig, PenaltyConfig, TrainConfig, TrainingConfig
from experiments.records import Commit, Record, describe_device, write_record

TIMED_DATA = "wn11"

DIMENSIONS = (128, 256, 384, 512, 640)
"""Multiples of 128: m is at least 16 for every b, below which the compiler leaves a hop's loops unvectorised."""

BLOCKS: dict[str, int | None] = {
    "blockhole-b1": 1,
    "blockhole-b2": 2,
    "blockhole-b4": 4,
    "blockhole-b8": 8,
    "rescal": None,
}
"""The curves: b of BlockHolE; RESCAL has no blocks."""

ROUNDS = 5
SEED = 0


class TimingPlan(NamedTuple):
    """Which curves, at which n, and how many rounds, of which the best counts."""

    columns: tuple[str, ...]
    dimensions: tuple[int, ...]
    rounds: int

    @classmethod
    def of(
        cls, columns: Sequence[str] | None = None, dimensions: Sequence[int] | None = None, rounds: int | None = None
    ) -> TimingPlan:
        """The plan of the paper's figure, but for what is given."""
        chosen, sizes = tuple(columns or BLOCKS), tuple(sorted(set(dimensions or DIMENSIONS)))
        for column in chosen:
            if column not in BLOCKS:
                hint = nearest_or_all(column, BLOCKS, "its columns are")
                raise ConfigError(f"the table time has no column {column!r}; {hint}")
            for n in sizes:
                if n % (BLOCKS[column] or 1):
                    raise ConfigError(f"n = {n} cannot be cut into the {BLOCKS[column]} blocks of {column}.")
        if len(sizes) < 2:
            raise ConfigError("how time grows with n needs two different n at least; give --dimension twice.")
        return cls(chosen, sizes, rounds or ROUNDS)


class Curve(NamedTuple):
    """Seconds of an epoch at each n, the best of the rounds: on the wall clock, and of the processor.

    `training_spent` are the seconds of all its epochs, `spent` those of all that was done to time them.
    """

    column: str
    seconds: list[float]
    processor_seconds: list[float]
    training_spent: float
    spent: float


def time_config(column: str, dimension: int) -> TrainConfig:
    """The paper's training on the edges: logistic loss, five negatives, L2, Adagrad, one thread."""
    blocks = BLOCKS[column]
    model = (
        ModelSettings(name="rescal", dim=dimension)
        if blocks is None
        else ModelSettings(name="blockhole", blocks=blocks, block_size=dimension // blocks)
    )
    return TrainConfig(
        model=model,
        loss=LossConfig(kind="logistic", negatives=5),
        penalty=PenaltyConfig(l2=1e-4),
        optimizer=OptimizerConfig(kind="adagrad", learning_rate=0.05),
        training=TrainingConfig(
            on="base", reverse="none", batch_size=1024, epochs=1, threads=1, device="cpu", seed=SEED
        ),
    )


def time_curves(data: DataSet, plan: TimingPlan, say: Callable[[str], None]) -> list[Curve]:
    """Time every column at every n.

    A round times one epoch of each, so that a slow spell of the machine does not fall on one column alone; the epoch
    before the first round is not counted: it compiles.
    """
    best = {(column, n): (math.inf, math.inf) for column in plan.columns for n in plan.dimensions}
    training_spent, spent = dict.fromkeys(plan.columns, 0.0), dict.fromkeys(plan.columns, 0.0)
    for attempt in range(plan.rounds + 1):
        for (column, n), (wall, processor) in best.items():
            start = time.perf_counter()
            taken = _time_epoch(data, time_config(column, n))
            spent[column] += time.perf_counter() - start
            training_spent[column] += taken[0]
            if attempt:
                best[column, n] = (min(wall, taken[0]), min(processor, taken[1]))
            say(f"{column}, n = {n}, round {attempt} of {plan.rounds}: {taken[0]:.3f} s")
    return [
        Curve(
            column,
            seconds=[best[column, n][0] for n in plan.dimensions],
            processor_seconds=[best[column, n][1] for n in plan.dimensions],
            training_spent=training_spent[column],
            spent=spent[column],
        )
        for column in plan.columns
    ]


def _time_epoch(data: DataSet, config: TrainConfig) -> tuple[float, float]:
    """Wall and processor seconds of one epoch: shuffle, cut into batches, draw negatives, step."""
    clock = _ProcessorClock()
    run = fit(data, config, progress=clock)
    return run.state.seconds, clock.seconds


@final
class _ProcessorClock:
    """Processor seconds from the begin of an epoch to its last batch."""

    def __init__(self) -> None:
        self._begin = 0.0
        self.seconds = 0.0

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        """See Progress."""
        self._begin = time.process_time()

    def batches_done(self, paths: int, loss: float) -> None:
        """See Progress."""
        self.seconds = time.process_time() - self._begin

    def validated(self, figures: Mapping[str, float]) -> None:
        """See Progress."""


def growth(dimensions: Sequence[int], seconds: Sequence[float]) -> dict[str, float]:
    """How seconds grow with n: the line a + c·n of least squares with its R², and the exponent of a power law."""
    n, t = np.array(dimensions, dtype=np.float64), np.array(seconds)
    slope, intercept = np.polyfit(n, t, 1)
    residual = ((t - intercept - slope * n) ** 2).sum() / ((t - t.mean()) ** 2).sum()
    return {
        "slope": float(slope),
        "intercept": float(intercept),
        "r2": float(1 - residual),
        "exponent": float(np.polyfit(np.log(n), np.log(t), 1)[0]),
    }


def record_curves(
    data: DataSet, plan: TimingPlan, curves: Sequence[Curve], results: Path, commit: Commit
) -> list[Path]:
    """Keep each curve as a record of the table `time`; the files."""
    name = Path(data.name).name
    return [
        write_record(results, f"time/{name}/{curve.column}-seed{SEED}", _record(name, plan, curve, commit))
        for curve in curves
    ]


def _record(data: str, plan: TimingPlan, curve: Curve, commit: Commit) -> Record:
    points = {
        str(n): {"seconds": wall, "processor_seconds": processor}
        for n, wall, processor in zip(plan.dimensions, curve.seconds, curve.processor_seconds, strict=True)
    }
    sizes = {"dim", "blocks", "block_size"}
    return Record(
        table="time",
        data=data,
        column=curve.column,
        seed=SEED,
        split="test",
        truth=None,
        settings=time_config(curve.column, plan.dimensions[0]).model_dump(mode="json", exclude={"model": sizes}),
        parameters=None,
        epochs=plan.rounds,
        best_epoch=None,
        loss=None,
        seconds=round(curve.spent, 2),
        training_seconds=round(curve.training_spent, 2),
        device=describe_device(torch.device("cpu")),
        torch=torch.__version__,
        commit=commit.hash,
        dirty=commit.dirty,
        figures={"by_dimension": points, **growth(plan.dimensions, curve.seconds)},
    )
