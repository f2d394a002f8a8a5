"""Trains PyKEEN's ComplEx or RESCAL as `bench_train.py` asks, and prints one JSON object; needs PyKEEN."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pykeen
import torch
from pykeen.models import RESCAL, ComplEx
from pykeen.training import SLCWATrainingLoop
from pykeen.training.callbacks import TrainingCallback
from pykeen.triples import CoreTriplesFactory


class Stopwatch(TrainingCallback):  # type: ignore[misc]
    """Notes wall and processor time at the end of every epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.marks = [(time.perf_counter(), time.process_time())]

    def post_epoch(self, epoch: int, epoch_loss: float, **kwargs: Any) -> None:
        self.marks.append((time.perf_counter(), time.process_time()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--positives", type=Path, required=True)
    parser.add_argument("--model", choices=("complex", "rescal"), required=True)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--negatives", type=int, required=True)
    parser.add_argument("--weights", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = np.load(options.positives)
    num_entities, num_relations = data["sizes"].tolist()
    triples = np.stack([data["source"], data["path"][:, 0], data["target"]], axis=1).astype(np.int64)
    factory = CoreTriplesFactory.create(torch.from_numpy(triples), num_entities, num_relations)

    neutral = 0.5**0.5 if options.model == "complex" else options.dim**-0.5
    model = (ComplEx if options.model == "complex" else RESCAL)(
        triples_factory=factory, embedding_dim=options.dim, loss="softplus", random_seed=0
    )
    entity, relation = (
        model.entity_representations[0]._embeddings.weight,
        model.relation_representations[0]._embeddings.weight,
    )
    torch.nn.init.normal_(entity, std=0.1)
    torch.nn.init.normal_(relation, std=neutral)

    stopwatch = Stopwatch()
    SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=torch.optim.Adagrad(model.parameters(), lr=options.rate),
        negative_sampler="basic",
        negative_sampler_kwargs={"num_negs_per_pos": options.negatives, "corruption_scheme": ("tail",)},
    ).train(
        factory,
        num_epochs=options.epochs,
        batch_size=options.batch_size,
        use_tqdm=False,
        callbacks=stopwatch,
        continue_training=True,  # or it would draw the weights anew, at a scale of its own
    )

    if options.weights:
        with torch.no_grad():
            vectors, matrices = model.entity_representations[0](None), model.relation_representations[0](None)
            if options.model == "complex":
                vectors, matrices = (torch.cat([table.real, table.imag], dim=1) for table in (vectors, matrices))
            np.savez(options.weights, entity=vectors.numpy(), relation=matrices.flatten(1).numpy())
    epochs = [
        [b - a for a, b in zip(*marks, strict=True)]
        for marks in zip(stopwatch.marks, stopwatch.marks[1:], strict=False)
    ]
    # Not from getrusage, which also counts what the process that started this one held.
    peak = int(Path("/proc/self/status").read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({"epochs": epochs, "peak_rss_mb": peak, "version": f"pykeen {pykeen.get_version()}"}))


if __name__ == "__main__":
    main()
