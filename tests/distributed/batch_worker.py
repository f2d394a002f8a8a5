"""Makes batches in several processes together, and counts what is sent; a script of test_batches.py.

python -m tests.distributed.batch_worker FOLDER
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import torch
from torch import distributed as dist

from blockhole.queries import walks  # noqa: F401 — so that no child has to
from blockhole.training.distributed.mesh import EntityMesh, MeshShape, batch_bytes, bytes_sent
from blockhole.training.positives import StreamedPositives
from tests.distributed.processes import end_group, start_group
from tests.training.worlds import random_split

MESHES = {"1x2": 2, "3x1": 3, "2x2": 4}
SMALL, LARGE = 7, 20_000
"""Batches of which some process makes nothing at the end of an epoch, and those that are counted."""


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


def volume(mesh: EntityMesh) -> list[dict[str, int]]:
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


def work(mesh_text: str, file: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = EntityMesh(MeshShape.parse(mesh_text, MESHES[mesh_text]), torch.device("cpu"))
    report = {"compared": same_batches(mesh), "volume": volume(mesh) if sys.platform == "linux" else []}
    if dist.get_rank() == 0:
        file.write_text(json.dumps(report))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    groups = [start_group(size, partial(work, mesh, folder / f"{mesh}.json")) for mesh, size in MESHES.items()]
    sys.exit(any(status for group in groups for status in end_group(group)))
