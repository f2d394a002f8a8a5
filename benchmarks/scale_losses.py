"""Losses of the same steps for each kind of loss, by this process alone or by all that torchrun started with it.

`bench_scale_gpu.py` runs it both ways; process 0 prints one JSON object, kind → losses.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch

from blockhole.data.dataset import DataSet
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.paths import PathQueries
from blockhole.runs.config import TrainConfig
from blockhole.training.batches import EpochOrder, PathTensors
from blockhole.training.workers import Workers, joined

RELATIONS, BATCH = 50, 1024
NEGATIVES = {"softmax": 1, "sampled_softmax": 512, "logistic": 5}


def losses(workers: Workers, graph: KnowledgeGraph, kind: str, device: str, steps: int) -> list[float]:
    config = TrainConfig.model_validate(
        {
            "model": {"name": "blockhole", "blocks": 2, "block_size": 25},
            "loss": {"kind": kind, "negatives": NEGATIVES[kind]},
            "optimizer": {"kind": "rowwise_adagrad", "learning_rate": 0.1},
            "penalty": {"dura": 0.0},
            "training": {"on": "base", "batch_size": BATCH, "device": device},
        }
    )
    place = workers.settle(config, DataSet("", SplitGraph(graph.entities, graph.relations, graph.triples)))
    model = workers.build_model(config, graph.num_entities, RELATIONS)
    stepper = workers.build_stepper(model, config, graph, 1, None)
    positives = PathTensors.of(PathQueries.from_triples(graph.triples), place)
    plan = EpochOrder(positives, BATCH, seed=0, device=place).plan(0)
    return torch.stack([stepper.step(plan.batch(index)) for index in range(steps)]).tolist()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--entities", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    E = options.entities
    facts = np.random.default_rng(0).integers([E, RELATIONS, E], size=(options.steps * BATCH, 3)).astype(np.int32)
    names = Vocabulary(map(str, range(E))), Vocabulary(map(str, range(RELATIONS)), "relation")
    graph = KnowledgeGraph(*names, facts)
    with joined(None) as workers:
        found = {kind: losses(workers, graph, kind, options.device, options.steps) for kind in NEGATIVES}
        if workers.speaks:
            print(json.dumps(found))


if __name__ == "__main__":
    main()
