"""Training by several processes of one thread each: time, memory, and what each process sends.

    BLOCKHOLE_DATA=folder python -m benchmarks.bench_processes wn11 > benchmarks/results/distributed.json
    python -m benchmarks.bench_processes packed > benchmarks/results/processes.json

wn11: the full softmax over all entities, by one process in the engine that `blockhole train` gives it, and by two.
packed: the logistic loss over a packed graph of a million entities with 100 numbers each, by 1, 2 and 4 processes,
along the entities and along the data, and the most memory of any process; four share the cores where there are two.
Rounds alternate between the meshes, and the best of each counts. A step is what the trainer does: make a batch, step,
agree on whether to go on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from torch import distributed as dist

from benchmarks import synthetic_graph
from benchmarks.launching import commit, figures_of
from benchmarks.volume import bytes_sent, sizes_of, step_bytes
from blockhole.data.dataset import DataSet, load
from blockhole.files.readers import read_split
from blockhole.machine import peak_bytes, torch_threads
from blockhole.runs.config import TrainConfig, gather, validate
from blockhole.training.batches import Batch, PathTensors, Plan
from blockhole.training.distributed.mesh import EntityMesh
from blockhole.training.learner import seen_entities
from blockhole.training.negatives import NegativeSampler
from blockhole.training.positives import StoredPositives, StreamedPositives
from blockhole.training.steppers import Stepper
from blockhole.training.workers import Workers, joined

WARM = 3
DATA, LOSS, BATCH = "wn11", "softmax", 1024
EDGES, ENTITIES, RELATIONS, PACKED_BATCH, BLOCK_SIZE = 2_000_000, 1_000_000, 1000, 8192, 25
MESHES: dict[str, dict[str, str | None]] = {
    "wn11": {"one process": None, "2 processes, mesh 1x2": "1x2", "2 processes, mesh 2x1": "2x1"},
    "packed": {mesh: mesh for mesh in ("1x1", "1x2", "2x1", "1x4", "2x2", "4x1")},
}
SPEED = {"wn11": "paths_per_second", "packed": "facts_per_second"}


class Steps(NamedTuple):
    """Batches, and of each the seconds that making it and stepping on it took, by the processor too, and bytes sent."""

    batches: tuple[Batch, ...]
    making: tuple[float, ...]
    stepping: tuple[float, ...]
    processor: tuple[float, ...]
    sent: tuple[int, ...]

    @property
    def positives(self) -> int:
        return sum(len(batch.source) for batch in self.batches)


def take(workers: Workers, plan: Plan, stepper: Stepper, steps: int) -> Steps:
    """So many steps, after some that warm up."""
    taken = []
    for index in range(WARM + steps):
        start, before = perf_counter(), bytes_sent()
        batch = plan.batch(index)
        made, busy = perf_counter(), process_time()
        stepper.step(batch)
        workers.agree(False)
        done, used = perf_counter(), process_time()
        if index >= WARM:
            taken.append((batch, made - start, done - made, used - busy, bytes_sent() - before))
    return Steps(*zip(*taken, strict=True))


def work_on_wn11(workers: Workers, steps: int) -> dict[str, object]:
    settings = {"loss.kind": LOSS, "training.batch_size": BATCH, "training.device": "cpu"}
    config = validate(gather(preset="best", overrides=settings))
    data = load(DATA)
    graph, sizes = data.split.graph("train"), (len(data.split.entities), len(data.split.relations))
    device = workers.settle(config, data)
    model = workers.build_model(config, *sizes)
    positives = StoredPositives(PathTensors.of(data.paths("train"), device), 0, BATCH)
    seen = seen_entities(graph, positives)
    taken = take(workers, positives.plan(0), workers.build_stepper(model, config, graph, 1, seen), steps)
    mesh, counted = workers.sharing(), 0.0
    if isinstance(mesh, EntityMesh):
        sampler = NegativeSampler(config.loss, graph, config.training.seed, seen)
        sizes_of_steps = [sizes_of(model, sampler, mesh, batch, seen) for batch in taken.batches]
        counted = float(np.mean([step_bytes(mesh.shape, each) for each in sizes_of_steps]))
    return {
        "paths_per_second": round(taken.positives / sum(taken.stepping)),
        "paths_per_processor_second": round(taken.positives / sum(taken.processor)),
        "best_step_ms": round(1e3 * min(taken.stepping), 1),
        "sent_bytes_per_step": round(float(np.mean(taken.sent))),
        "counted_bytes_per_step": round(counted),
    }


def work_on_packed(workers: Workers, steps: int, packed: Path) -> dict[str, object]:
    config = TrainConfig.model_validate(
        {
            "model": {"name": "blockhole", "blocks": 2, "block_size": BLOCK_SIZE},
            "loss": {"kind": "logistic", "negatives": 5},
            "optimizer": {"kind": "rowwise_adagrad", "learning_rate": 0.05},
            "penalty": {"dura": 0.0},
            "training": {"on": "base", "reverse": "none", "batch_size": PACKED_BATCH, "device": "cpu"},
        }
    )
    split = read_split(packed)
    graph = split.graph("train")
    device = workers.settle(config, DataSet("", split))
    before = peak_bytes()
    model = workers.build_model(config, graph.num_entities, graph.num_relations)
    stepper = workers.build_stepper(model, config, graph, 1, None)
    positives = StreamedPositives(graph, 0, "none", PACKED_BATCH, device, walks=False, sharing=workers.sharing())
    taken = take(workers, positives.plan(0), stepper, steps)
    most: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(most, peak_bytes())
    return {
        "facts_per_second": round(taken.positives / (sum(taken.making) + sum(taken.stepping))),
        "making_ms": round(1e3 * float(np.median(taken.making)), 2),
        "step_ms": round(1e3 * float(np.median(taken.stepping)), 2),
        "sent_mb_per_step": round(float(np.mean(taken.sent)) / 1e6, 2),
        "peak_rss_mb": round(max(most) / 2**20),
        "before_mb": round(before / 2**20),
    }


def best_of_each(options: argparse.Namespace, packed: list[str]) -> dict[str, dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    worker = ["benchmarks.bench_processes", options.graph, "--worker", "--steps", str(options.steps), *packed]
    for _ in range(options.rounds):
        for name, mesh in MESHES[options.graph].items():
            data, entities = map(int, (mesh or "1x1").split("x"))
            shape = [] if mesh is None else ["--mesh", mesh]
            figures = figures_of([*worker, *shape], data * entities if shape else None)
            print(f"{name}: {figures}", file=sys.stderr)
            speed = SPEED[options.graph]
            if name not in best or figures[speed] > best[name][speed]:
                best[name] = figures
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", choices=MESHES)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help="be one of the processes, and print what process 0 found")
    parser.add_argument("--mesh", help="of the worker")
    parser.add_argument("--packed", type=Path, help="the worker's graph")
    options = parser.parse_args()
    if options.worker:
        with joined(options.mesh) as workers, torch_threads(1):
            on_wn11 = options.graph == "wn11"
            found = (
                work_on_wn11(workers, options.steps)
                if on_wn11
                else work_on_packed(workers, options.steps, options.packed)
            )
            if workers.speaks:
                print(json.dumps(found))
    elif options.graph == "wn11":
        best = best_of_each(options, [])
        for figures in best.values():
            ratio = figures["paths_per_second"] / best["one process"]["paths_per_second"]
            figures["times_one_process"] = round(ratio, 2)
        print(json.dumps({"data": DATA, "loss": LOSS, "batch_size": BATCH, **best}, indent=1))
    else:
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder) / "packed"
            synthetic_graph.write_packed(packed, EDGES, ENTITIES, RELATIONS, memory=2 * 10**9)
            best = best_of_each(options, ["--packed", str(packed)])
        report: dict[str, Any] = {"commit": commit(), "cores": os.cpu_count(), "edges": EDGES, "entities": ENTITIES}
        report |= {"width": 4 * BLOCK_SIZE, "batch_size": PACKED_BATCH, "meshes": best}
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
