"""Times training steps of this process, or of all that torchrun started with it; process 0 prints one JSON object.

`bench_distributed.py` runs it. A step is what the trainer does: gather a batch, step, agree on whether to go on.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import numpy as np

from benchmarks.launching import add_sizes
from blockhole.data.dataset import load
from blockhole.machine import torch_threads
from blockhole.runs.config import gather, validate
from blockhole.training.batches import PathTensors
from blockhole.training.distributed.mesh import MeshShape, bytes_sent, step_bytes
from blockhole.training.distributed.sharded import ShardedStepper
from blockhole.training.learner import seen_entities
from blockhole.training.positives import StoredPositives
from blockhole.training.workers import Workers, joined

WARM = 3


def run(workers: Workers, options: argparse.Namespace) -> dict[str, object]:
    settings = {"loss.kind": options.loss, "training.batch_size": options.batch_size, "training.device": "cpu"}
    config = validate(gather(preset="best", overrides=settings))
    data = load(options.data)
    graph, sizes = data.split.graph("train"), (len(data.split.entities), len(data.split.relations))
    device = workers.settle(config, data)
    model = workers.build_model(config, *sizes)
    positives = StoredPositives(PathTensors.of(data.paths("train"), device), 0, options.batch_size)
    stepper = workers.build_stepper(model, config, graph, options.threads, seen_entities(graph, positives))
    plan = positives.plan(0)
    seconds, processor, sent, counted, paths = [], [], [], [], []
    for index in range(WARM + options.steps):
        batch = plan.batch(index)
        start, busy, before = time.perf_counter(), time.process_time(), bytes_sent()
        stepper.step(batch)
        workers.agree(False)
        if index >= WARM:
            seconds.append(time.perf_counter() - start)
            processor.append(time.process_time() - busy)
            sent.append(bytes_sent() - before)
            if isinstance(stepper, ShardedStepper):
                shape = MeshShape.parse(options.mesh, int(os.environ["WORLD_SIZE"]))
                counted.append(step_bytes(shape, stepper.sizes(batch)))
            paths.append(len(batch.source))
    return {
        "paths_per_second": round(sum(paths) / sum(seconds)),
        "paths_per_processor_second": round(sum(paths) / sum(processor)),
        "best_step_ms": round(1e3 * float(np.min(seconds)), 1),
        "sent_bytes_per_step": round(float(np.mean(sent))),
        "counted_bytes_per_step": round(float(np.mean(counted))) if counted else 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    add_sizes(parser)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mesh")
    options = parser.parse_args()
    with joined(options.mesh) as workers, torch_threads(options.threads):
        figures = run(workers, options)
        if workers.speaks:
            print(json.dumps(figures))


if __name__ == "__main__":
    main()
