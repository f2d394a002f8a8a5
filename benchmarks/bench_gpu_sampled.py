"""One GPU: epochs of the preset `fast`, a softmax over a sample that a batch shares, recorded beside step by step.

`python -m benchmarks.bench_gpu_sampled FOLDER wn11 [--device cpu --batches 20]` prints one JSON object;
`experiments.material` writes the FOLDER. Needs torch, triton, numpy, pydantic and rich only. Step by step is what every
step was before it could be recorded: launched from Python, on the rows that occur in it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from blockhole.data.dataset import DataSet
from blockhole.models.catalogue import build_model
from blockhole.runs.config import TrainConfig, gather, validate
from blockhole.training.batches import PathTensors
from blockhole.training.objective import dura_weight
from blockhole.training.positives import StoredPositives, with_reversed
from blockhole.training.steppers import AutogradStepper, Stepper, build_stepper
from experiments.material import read_encoded


def make_config(batch_size: int, positives_per_entity: float, device: str) -> TrainConfig:
    """The preset, with the penalty that `blockhole train` would make of it."""
    config = validate(gather(preset="fast", overrides={"training.device": device, "training.batch_size": batch_size}))
    weight = dura_weight(config.penalty.dura_per_entity, positives_per_entity)
    penalty = config.penalty.model_copy(update={"dura": weight, "dura_per_entity": 0.0})
    return config.model_copy(update={"penalty": penalty})


def time_epochs(
    data: DataSet, batch_size: int, device: torch.device, *, recorded: bool, epochs: int, most: int | None
) -> dict[str, Any]:
    """Seconds and mean loss of each epoch, or of its first `most` batches."""
    graph = data.split.graph("train")
    paths = with_reversed(PathTensors.of(data.paths("train"), device), "edges", graph.num_relations)
    config = make_config(batch_size, len(paths) / graph.num_entities, device.type)
    model = build_model(config.model, graph.num_entities, graph.num_relations, seed=0).to(device)
    stepper: Stepper = build_stepper(model, config, graph, 1) if recorded else AutogradStepper(model, config, graph)
    positives = StoredPositives(paths, 0, batch_size)
    seconds, losses = [], []
    for epoch in range(epochs):
        began, total, count = perf_counter(), torch.zeros((), device=device), 0
        plan = positives.plan(epoch)
        for index in range(min(len(plan), most or len(plan))):
            total += stepper.step(plan.batch(index)) * plan.size(index)
            count += plan.size(index)
        losses.append(total.item() / count)
        seconds.append(perf_counter() - began)
    result = {"stepper": type(stepper).__name__, "batch": batch_size, "paths": count, "seconds": seconds}
    return result | {"loss": losses, "paths_per_second": count / min(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batches", type=int, help="of an epoch, instead of all")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1024, 8192])
    options = parser.parse_args()
    device = torch.device(options.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    report: dict[str, Any] = {"device": name, "torch": torch.__version__}
    for each in options.data:
        data = read_encoded(options.folder, each)
        report[each] = [
            time_epochs(data, size, device, recorded=recorded, epochs=options.epochs, most=options.batches)
            for size in options.batch_sizes
            for recorded in (True, False)
        ]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
