"""The cost model of docs/scaling.md: fitted to what benchmarks/results holds, and asked about Wikidata.

Costs are sums of products of sizes with coefficients that are not negative, fitted to relative errors:
minimise Σ ((Σ_j β_j x_ij - y_i) / y_i)², β ≥ 0. The error is that of each measurement under a model fitted to the
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from benchmarks.volume import StepSizes, batch_bytes, step_bytes
from blockhole.training.distributed.mesh import MeshShape

GPUS_PER_HOST = 8
WITHIN_HOST, BETWEEN_HOSTS = 450e9, 50e9
"""Bytes a second that a GPU sends, by data sheets: NVLink 4 of an H200, one way, and InfiniBand NDR of 400 Gbit/s."""
GPU_BYTES = 141e9
"""The memory of an H200, by its data sheet."""


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """y = Σ_j coefficients[j] · x[j] of the named terms, with the relative errors of leaving one out."""

    terms: tuple[str, ...]
    coefficients: NDArray[np.float64]
    errors: NDArray[np.float64]

    def __call__(self, *sizes: float) -> float:
        return float(np.dot(self.coefficients, sizes))


def fit(terms: Sequence[str], sizes: Sequence[Sequence[float]], measured: Sequence[float]) -> Fit:
    """The model of `measured` [n] over `sizes` [n, terms]; n must exceed the number of terms."""
    x, y = np.asarray(sizes, dtype=float), np.asarray(measured, dtype=float)
    errors = []
    for place in range(len(y)):
        others = np.arange(len(y)) != place
        errors.append(abs(x[place] @ _solve(x[others], y[others]) / y[place] - 1))
    return Fit(tuple(terms), _solve(x, y), np.array(errors))


def _solve(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.optimize import nnls

    relative = x / y[:, None]
    scale = relative.max(axis=0)
    found: NDArray[np.float64] = nnls(relative / scale, np.ones(len(y)))[0] / scale
    return found


def epoch_fit(records: Sequence[dict[str, Any]]) -> Fit:
    """Processor microseconds per fact of an epoch on a CPU, of the `epoch_sizes`."""
    rows = [record for record in records if "train" in record]
    return fit(
        ("1", "w", "log2(1 + MiB)"),
        [epoch_sizes(row["entities"], row["width"]) for row in rows],
        [row["train"]["processor_microseconds_per_positive"] for row in rows],
    )


def epoch_sizes(entities: int, width: int) -> tuple[float, float, float]:
    """Calls, numbers, and the caches, one larger than another, that a table of so many MiB does not fit."""
    return 1, width, log2(1 + 4 * entities * width / 2**20)


def pack_fit(records: Sequence[dict[str, Any]]) -> Fit:
    """Processor seconds of packing a Parquet file."""
    rows = [record for record in records if "pack" in record and record["format"] == "parquet"]
    return fit(
        ("1", "T", "E"),
        [(1, row["edges"], row["entities"]) for row in rows],
        [row["pack"]["cpu_seconds"] for row in rows],
    )


GPU_TERMS = ("1", "q", "q·w")


def gpu_fit(gpu: dict[str, Any]) -> Fit:
    """Seconds of a step of q queries on one GPU."""
    rows = gpu["steps"]
    return fit(
        GPU_TERMS,
        [(1, row["batch_size"], row["batch_size"] * row["width"]) for row in rows],
        [row["seconds"] for row in rows],
    )


@final
@dataclass(frozen=True, slots=True)
class Task:
    """A graph and its training: BlockHolE, logistic loss, row-wise Adagrad; `queries` in a process' part of a batch."""

    entities: int
    relations: int
    edges: int
    blocks: int
    block_size: int
    negatives: int
    queries: int

    @property
    def width(self) -> int:
        return 2 * self.blocks * self.block_size

    @property
    def dense(self) -> int:
        """Numbers in all relations and their inverses."""
        return 2 * self.relations * self.blocks * self.width


WIKIDATA = Task(100_000_000, 12_000, 1_500_000_000, blocks=2, block_size=25, negatives=5, queries=32_768)


@final
@dataclass(frozen=True, slots=True)
class Prediction:
    """What one mesh takes: bytes held on each GPU and sent by it in a step, and seconds of a step's parts."""

    mesh: MeshShape
    held: float
    sent: float
    making: float
    computing: float
    sending: float
    queries: int
    edges: int

    @property
    def edges_per_second(self) -> float:
        return self.mesh.data * self.queries / (self.making + self.computing + self.sending)

    @property
    def epoch_seconds(self) -> float:
        return self.edges / self.edges_per_second

    @property
    def fits(self) -> bool:
        return self.held < GPU_BYTES


def predict(task: Task, mesh: MeshShape, step: Fit, making_a_fact: float) -> Prediction:
    """Each host process makes its rows of a batch, `making_a_fact` seconds a fact; then a step computes and sends.

    Along the entities nothing but memory and the making is divided.
    """
    rows = task.queries * (2 + task.negatives)
    held = -(-task.entities // mesh.entities)
    touched = min(held, mesh.data * rows // mesh.entities)
    sizes = StepSizes(task.queries, 2 * task.queries, task.negatives, touched, task.width, task.width, task.dense)
    along_entities = step_bytes(MeshShape(1, mesh.entities), sizes)
    along_data = step_bytes(mesh, sizes) - along_entities
    gathered = batch_bytes(mesh, mesh.data * task.queries, hops=1)
    hosts = mesh.data * mesh.entities > GPUS_PER_HOST
    speed_of_entities = WITHIN_HOST if mesh.entities <= GPUS_PER_HOST else BETWEEN_HOSTS
    speed_of_all = BETWEEN_HOSTS if hosts else WITHIN_HOST
    computing = step(1, task.queries, task.queries * task.width)
    sending = along_entities / speed_of_entities + (along_data + gathered) / speed_of_all
    making = mesh.data * task.queries * making_a_fact / mesh.size
    bytes_held = 4 * (held * (task.width + 1) + task.dense) + 25 * task.entities + 40 * task.width * max(touched, rows)
    sent = along_entities + along_data + gathered
    return Prediction(mesh, bytes_held, sent, making, computing, sending, task.queries, task.edges)


def predictions(task: Task, gpus: int, step: Fit, making_a_fact: float) -> list[Prediction]:
    """All meshes of so many GPUs."""
    shapes = [MeshShape(data, gpus // data) for data in range(1, gpus + 1) if gpus % data == 0]
    return [predict(task, shape, step, making_a_fact) for shape in shapes]
