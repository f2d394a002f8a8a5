"""Trains every combination alone and on every mesh, and keeps losses and weights; a script of test_equality.py.

python -m tests.distributed.equality_worker FOLDER
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import distributed as dist
from torch.distributed.tensor import DTensor

from blockhole.models.catalogue import build_model
from blockhole.models.contract import Model
from blockhole.training.distributed.mesh import EntityMesh, MeshShape
from blockhole.training.distributed.sharded import ShardedStepper, build_sharded_model
from blockhole.training.steppers import AutogradStepper, Stepper
from tests.distributed.combinations import COMBINATIONS, Combination, batches, seen, split
from tests.distributed.processes import end_group, start_group
from tests.sweep import WHOLE

MESHES = {"1x1": 1, "1x2": 2, "1x4": 4, "2x2": 4} if WHOLE else {"1x2": 2, "2x2": 4}
ALONE = "alone"


def whole(value: torch.Tensor) -> np.ndarray:
    return (value.full_tensor() if isinstance(value, DTensor) else value).detach().numpy()


def initial_model(combination: Combination) -> Model:
    data = split(combination)
    return build_model(combination.config().model, len(data.entities), len(data.relations), seed=0)


def train(combination: Combination, mesh: EntityMesh | None) -> dict[str, np.ndarray]:
    data, config = split(combination), combination.config()
    model: Model
    stepper: Stepper
    if mesh is None:
        model = initial_model(combination)
        stepper = AutogradStepper(model, config, data.graph("train"), seen(combination))
    else:
        model = build_sharded_model(config.model, len(data.entities), len(data.relations), 0, mesh)
        stepper = ShardedStepper(model, config, data.graph("train"), mesh, seen(combination))
    losses = [stepper.step(batch).item() for batch in batches(combination)]
    tables = {**dict(model.named_parameters()), **stepper.optimizer_state()}
    return {"losses": np.array(losses), **{name: whole(value) for name, value in tables.items()}}


def work(name: str, folder: Path) -> None:
    """Train everything; process 0 writes what came out."""
    torch.set_num_threads(1)
    mesh, rank = None, 0
    if name != ALONE:
        dist.init_process_group("gloo")
        mesh = EntityMesh(MeshShape.parse(name, MESHES[name]), torch.device("cpu"))
        rank = dist.get_rank()
    found: dict[str, np.ndarray] = {}
    for combination in COMBINATIONS.values():
        found |= {f"{combination.name}/{key}": value for key, value in train(combination, mesh).items()}
    if rank == 0:
        np.savez(folder / f"{name}.npz", allow_pickle=False, **found)


if __name__ == "__main__":
    into = Path(sys.argv[1])
    # This process first: all others find the loops that it compiles in their memory.
    work(ALONE, into)
    groups = [start_group(count, partial(work, name, into)) for name, count in MESHES.items()]
    sys.exit(any(status for group in groups for status in end_group(group)))
