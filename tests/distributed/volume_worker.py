"""Makes batches in several processes together, steps on them, and counts what is sent; a script of test_volume.py.

python -m tests.distributed.volume_worker FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import distributed as dist

from benchmarks.volume import batch_bytes, bytes_sent, sizes_of, step_bytes
from blockhole.queries import walks  # noqa: F401 — so that no child has to
from blockhole.training.batches import PathTensors
from blockhole.training.distributed.mesh import EntityMesh, MeshShape
from blockhole.training.distributed.sharded import ShardedStepper, build_sharded_model
from blockhole.training.negatives import NegativeSampler
from blockhole.training.positives import StoredPositives, StreamedPositives
from tests.distributed.combinations import LOSSES
from tests.distributed.processes import end_group, start_group
from tests.training.worlds import config, random_queries, random_split

MESHES = {"1x2": 2, "3x1": 3, "2x2": 4}
STEP_MESHES = ("1x2", "2x1")
SMALL, LARGE = 7, 20_000
"""Batches of which some process makes nothing at the end of an epoch, and those that are counted."""
ENTITIES, RELATIONS, NEGATIVES = 2000, 4, 64
MODELS = {"blockhole": {}, "transe": {"model__blocks": None, "model__block_size": None, "model__dim": 100}}


def same_batches(mesh: EntityMesh) -> int:
    """How many batches, of facts and of walks, are the same made together as made alone; all, or this fails."""
    graph, place = random_split(entities=12, relations=3, facts=25).graph("train"), torch.device("cpu")
    compared = 0
    for reverse in ("none", "paths"):
        alone, together = (
            StreamedPositives(graph, 5, reverse, SMALL, place, walks=True, lengths=(2, 3), sharing=sharing)
            for sharing in (None, mesh)
        )
        plans = alone.plan(1), together.plan(1)
        for index in range(len(plans[0])):
            expected, got = (plan.batch(index) for plan in plans)
            for name in ("source", "path", "target"):
                assert torch.equal(getattr(expected, name), getattr(got, name)), (reverse, index, name)
            assert (got.epoch, got.index) == (1, index)
            compared += 1
    rows = torch.arange(3).unsqueeze(1)[mesh.made(3)]
    assert mesh.gather_batch(rows, 3).flatten().tolist() == [0, 1, 2]  # with four processes one makes none
    return compared


def volume_of_batches(mesh: EntityMesh) -> list[dict[str, int]]:
    """The bytes of making each batch of an epoch together, as counted and as sent."""
    graph = random_split(entities=2000, relations=4, facts=3 * LARGE).graph("train")
    plan = StreamedPositives(graph, 0, "none", LARGE, torch.device("cpu"), walks=False, sharing=mesh).plan(0)
    found = []
    for index in range(len(plan)):
        dist.barrier()
        before = bytes_sent()
        plan.batch(index)
        dist.barrier()
        counted = batch_bytes(mesh.shape, plan.size(index), hops=1)
        found.append({"counted": counted, "sent": bytes_sent() - before})
    return found


def volume_of_steps(mesh: EntityMesh) -> list[dict[str, object]]:
    """The bytes of each step of an epoch, for every loss and two models, as counted and as sent."""
    split = random_split(ENTITIES, RELATIONS, facts=3000)
    paths = PathTensors.of(random_queries(split, 900, 2), torch.device("cpu"))
    plan = StoredPositives(paths, 0, 300).plan(0)
    found: list[dict[str, object]] = []
    for name, size in MODELS.items():
        for loss in LOSSES:
            settings = {"model__name": name, "model__block_size": 25, "loss__kind": loss, "loss__negatives": NEGATIVES}
            chosen = config(**settings | size)
            model = build_sharded_model(chosen.model, ENTITIES, RELATIONS, 0, mesh)
            stepper = ShardedStepper(model, chosen, split.graph("train"), mesh)
            sampler = NegativeSampler(chosen.loss, split.graph("train"), chosen.training.seed)
            for index in range(len(plan)):
                batch = plan.batch(index)
                counted = step_bytes(mesh.shape, sizes_of(model, sampler, mesh, batch))
                dist.barrier()
                before = bytes_sent()
                stepper.step(batch)
                dist.barrier()
                found.append({"what": f"{name}, {loss}", "counted": counted, "sent": bytes_sent() - before})
    return found


def make_batches(mesh: EntityMesh) -> dict[str, object]:
    return {"compared": same_batches(mesh), "volume": volume_of_batches(mesh) if sys.platform == "linux" else []}


def work(mesh_text: str, processes: int, measure: Callable[[EntityMesh], object], file: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    report = measure(EntityMesh(MeshShape.parse(mesh_text, processes), torch.device("cpu")))
    if dist.get_rank() == 0:
        file.write_text(json.dumps(report))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    groups = [
        start_group(size, partial(work, mesh, size, make_batches, folder / f"batches-{mesh}.json"))
        for mesh, size in MESHES.items()
    ]
    if sys.platform == "linux":
        groups += [
            start_group(2, partial(work, mesh, 2, volume_of_steps, folder / f"steps-{mesh}.json"))
            for mesh in STEP_MESHES
        ]
    sys.exit(any(status for group in groups for status in end_group(group)))
