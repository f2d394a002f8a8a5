"""Trains PyG's ComplEx as `bench_train.py` asks, and prints one JSON object; needs torch_geometric.

Object negatives are drawn as the benchmark defines them (PyG's own sampler would corrupt either side, once); model,
batches, loss function and optimizer are PyG's and torch's. Gradients are dense, which is faster here than sparse.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch_geometric
from torch.nn import functional
from torch_geometric.nn import ComplEx


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--positives", type=Path, required=True)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--negatives", type=int, required=True)
    parser.add_argument("--weights", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    data = np.load(options.positives)
    num_entities, num_relations = data["sizes"].tolist()
    source, relation, target = (torch.from_numpy(data[key].astype(np.int64)) for key in ("source", "path", "target"))

    model = ComplEx(num_entities, num_relations, options.dim)
    for table, scale in (
        (model.node_emb, 0.1),
        (model.node_emb_im, 0.1),
        (model.rel_emb, 0.5**0.5),
        (model.rel_emb_im, 0.5**0.5),
    ):
        torch.nn.init.normal_(table.weight, std=scale)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=options.rate)
    loader = model.loader(source, relation[:, 0], target, batch_size=options.batch_size, shuffle=True)

    epochs = []
    for _ in range(options.epochs):
        wall, processor = time.perf_counter(), time.process_time()
        for head, rel, tail in loader:
            optimizer.zero_grad()
            negatives = torch.randint(num_entities, (len(head) * options.negatives,))
            positive = model(head, rel, tail)
            negative = model(
                head.repeat_interleave(options.negatives), rel.repeat_interleave(options.negatives), negatives
            )
            scores = torch.cat([positive, negative])
            truth = torch.cat([torch.ones_like(positive), torch.zeros_like(negative)])
            torch.autograd.backward(functional.binary_cross_entropy_with_logits(scores, truth))
            optimizer.step()
        epochs.append([time.perf_counter() - wall, time.process_time() - processor])

    if options.weights:
        with torch.no_grad():
            np.savez(
                options.weights,
                entity=torch.cat([model.node_emb.weight, model.node_emb_im.weight], dim=1).numpy(),
                relation=torch.cat([model.rel_emb.weight, model.rel_emb_im.weight], dim=1).numpy(),
            )
    # Not from getrusage, which also counts what the process that started this one held.
    peak = int(Path("/proc/self/status").read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) / 1024
    print(
        json.dumps({"epochs": epochs, "peak_rss_mb": peak, "version": f"torch_geometric {torch_geometric.__version__}"})
    )


if __name__ == "__main__":
    main()
