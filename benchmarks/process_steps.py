"""Steps on a packed graph by all processes that torchrun started together; process 0 prints one JSON object.

`bench_processes.py` runs it. Memory is the most that any process held, and what it held before there was a table.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from torch import distributed as dist

from blockhole.data.dataset import DataSet
from blockhole.files.readers import read_split
from blockhole.machine import peak_bytes, torch_threads
from blockhole.runs.config import TrainConfig
from blockhole.training.distributed.mesh import bytes_sent
from blockhole.training.positives import StreamedPositives
from blockhole.training.workers import Workers, joined

WARM = 3
LOSS = {"kind": "logistic", "negatives": 5}


def run(workers: Workers, options: argparse.Namespace) -> dict[str, object]:
    config = TrainConfig.model_validate(
        {
            "model": {"name": "blockhole", "blocks": 2, "block_size": options.block_size},
            "loss": LOSS,
            "optimizer": {"kind": "rowwise_adagrad", "learning_rate": 0.05},
            "penalty": {"dura": 0.0},
            "training": {"on": "base", "reverse": "none", "batch_size": options.batch_size, "device": "cpu"},
        }
    )
    split = read_split(options.packed)
    graph = split.graph("train")
    device = workers.settle(config, DataSet("", split))
    before = peak_bytes()
    model = workers.build_model(config, graph.num_entities, graph.num_relations)
    stepper = workers.build_stepper(model, config, graph, 1, None)
    positives = StreamedPositives(graph, 0, "none", options.batch_size, device, walks=False, sharing=workers.sharing())
    plan = positives.plan(0)
    making, steps, sent, facts = [], [], [], 0
    for index in range(WARM + options.steps):
        start, busy = time.perf_counter(), bytes_sent()
        batch = plan.batch(index)
        made = time.perf_counter()
        stepper.step(batch)
        if index >= WARM:
            making.append(made - start)
            steps.append(time.perf_counter() - made)
            sent.append(bytes_sent() - busy)
            facts += len(batch.source)
    most: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(most, peak_bytes())
    return {
        "facts_per_second": round(facts / (sum(making) + sum(steps))),
        "making_ms": round(1e3 * float(np.median(making)), 2),
        "step_ms": round(1e3 * float(np.median(steps)), 2),
        "sent_mb_per_step": round(float(np.mean(sent)) / 1e6, 2),
        "peak_rss_mb": round(max(most) / 2**20),
        "before_mb": round(before / 2**20),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("packed", type=Path)
    parser.add_argument("--block-size", type=int, default=25)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--mesh")
    options = parser.parse_args()
    with joined(options.mesh) as workers, torch_threads(1):
        figures = run(workers, options)
        if workers.speaks:
            print(json.dumps(figures))


if __name__ == "__main__":
    main()
