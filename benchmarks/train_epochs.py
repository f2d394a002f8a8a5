"""Times epochs of one model in one of our steppers, and prints one JSON object.

`bench_train.py` runs it in a process of its own, so that peak memory and threads are its own. An epoch is what the
trainer does: shuffle, cut into batches, draw negatives, step.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.machine import peak_bytes
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.queries.paths import PathQueries
from blockhole.runs.config import LossConfig, OptimizerConfig, TrainConfig, TrainingConfig
from blockhole.training.batches import PathTensors
from blockhole.training.positives import StoredPositives
from blockhole.training.steppers import AutogradStepper, Stepper, build_stepper


def read_positives(file: Path, count: int | None, hops: int | None) -> tuple[PathQueries, int, int]:
    """The first `count` positives (absent: all), those of `hops` if given, and how many entities and relations."""
    arrays = np.load(file)
    source, path, length, target = (arrays[key][:count] for key in ("source", "path", "length", "target"))
    num_entities, num_relations = arrays["sizes"].tolist()
    queries = PathQueries(source, path, length, target)
    return queries if hops is None else queries.take(length == hops), num_entities, num_relations


def make_config(options: argparse.Namespace) -> TrainConfig:
    if options.model == "blockhole":
        model = ModelSettings(name="blockhole", blocks=options.blocks, block_size=options.block_size)
    else:
        model = ModelSettings(name=options.model, dim=options.dim)
    return TrainConfig(
        model=model,
        loss=LossConfig(negatives=options.negatives),
        optimizer=OptimizerConfig(kind=options.optimizer, learning_rate=options.rate),
        training=TrainingConfig(batch_size=options.batch_size, seed=0),
    )


def time_epochs(stepper: Stepper, order: StoredPositives, epochs: int) -> list[list[float]]:
    """Wall and processor seconds of each epoch; the first may include compiling the loops."""
    seconds = []
    for epoch in range(epochs):
        wall, processor = time.perf_counter(), time.process_time()
        plan = order.plan(epoch)
        for index in range(len(plan)):
            stepper.step(plan.batch(index))
        seconds.append([time.perf_counter() - wall, time.process_time() - processor])
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--positives", type=Path, required=True)
    parser.add_argument("--count", type=int)
    parser.add_argument("--hops", type=int, help="positives of this length alone")
    parser.add_argument("--engine", choices=("fused", "autograd"), default="fused")
    parser.add_argument("--model", default="blockhole")
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--block-size", type=int)
    parser.add_argument("--dim", type=int)
    parser.add_argument("--optimizer", default="adagrad")
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--negatives", type=int, required=True)
    parser.add_argument("--weights", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = make_config(options)
    queries, num_entities, num_relations = read_positives(options.positives, options.count, options.hops)
    model = build_model(config.model, num_entities, num_relations, seed=0)
    graph = KnowledgeGraph(
        Vocabulary(map(str, range(num_entities)), "entity"),
        Vocabulary(map(str, range(num_relations)), "relation"),
        np.zeros((0, 3), dtype=np.int32),
    )
    order = StoredPositives(PathTensors.of(queries, torch.device("cpu")), 0, options.batch_size)
    stepper: Stepper
    if options.engine == "fused":
        stepper = build_stepper(model, config, graph, options.threads)
    else:
        stepper = AutogradStepper(model, config, graph)
    epochs = time_epochs(stepper, order, options.epochs)
    if options.weights:
        np.savez(options.weights, entity=model.entity.detach().numpy(), relation=model.relation.detach().numpy())
    print(json.dumps({"epochs": epochs, "peak_rss_mb": peak_bytes() / 2**20, "parameters": model.parameter_count()}))


if __name__ == "__main__":
    main()
