"""Counts what two processes send in a step, by formula and by the kernel; a script of test_volume.py.

python -m tests.distributed.volume_worker FILE
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import torch
from torch import distributed as dist

from blockhole.training.batches import EpochOrder
from blockhole.training.distributed.mesh import EntityMesh, MeshShape, bytes_sent, step_bytes
from blockhole.training.distributed.sharded import ShardedStepper, build_sharded_model
from tests.distributed.combinations import LOSSES
from tests.distributed.processes import end_group, start_group
from tests.training.worlds import config, random_queries, random_split

ENTITIES, RELATIONS, NEGATIVES = 2000, 4, 64
MODELS = {"blockhole": {}, "transe": {"model__blocks": None, "model__block_size": None, "model__dim": 100}}


def work(mesh_text: str, file: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = EntityMesh(MeshShape.parse(mesh_text, 2), torch.device("cpu"))
    split = random_split(ENTITIES, RELATIONS, facts=3000)
    plan = EpochOrder(random_queries(split, 900, 2), 300, seed=0, device=torch.device("cpu")).plan(0)
    found = []
    for name, size in MODELS.items():
        for loss in LOSSES:
            settings = {"model__name": name, "model__block_size": 25, "loss__kind": loss, "loss__negatives": NEGATIVES}
            chosen = config(**settings | size)
            model = build_sharded_model(chosen.model, ENTITIES, RELATIONS, 0, mesh)
            stepper = ShardedStepper(model, chosen, split.graph("train"), mesh)
            for index in range(len(plan)):
                batch = plan.batch(index)
                counted = step_bytes(mesh.shape, stepper.sizes(batch))
                dist.barrier()
                before = bytes_sent()
                stepper.step(batch)
                dist.barrier()
                found.append({"what": f"{name}, {loss}", "counted": counted, "sent": bytes_sent() - before})
    if dist.get_rank() == 0:
        file.write_text(json.dumps(found))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    groups = [start_group(2, partial(work, mesh, folder / f"{mesh}.json")) for mesh in ("1x2", "2x1")]
    sys.exit(any(status for group in groups for status in end_group(group)))
