"""One GPU: epochs of full softmax over all paths, stored and fresh, fused beside plain PyTorch; ranking of the test.

`python -m benchmarks.bench_gpu FOLDER wn11 fb13` prints one JSON object; `experiments.material` writes the FOLDER.
Needs torch, triton, numpy and pydantic only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from blockhole.data.dataset import DataSet
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.truth import build_truth, queries_of
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.queries.paths import PathQueries
from blockhole.runs.config import TrainConfig
from blockhole.training.batches import PathTensors
from blockhole.training.positives import FreshWalks, Positives, StoredPositives
from blockhole.training.steppers import AutogradStepper, CapturedStepper, Stepper
from experiments.material import read_encoded

DEVICE = torch.device("cuda", 0)
EPOCHS = 3
BATCH = 8192
PLAIN_BATCH = 2048
COPY_BYTES_PER_SECOND = 4.3e12
FLOAT16_FLOPS = 790e12


def _config(batch_size: int) -> TrainConfig:
    return TrainConfig.model_validate(
        {
            "model": {"name": "blockhole", "blocks": 2, "block_size": 25},
            "loss": {"kind": "softmax"},
            "optimizer": {"kind": "adagrad", "learning_rate": 0.5},
            "training": {"on": "paths", "batch_size": batch_size, "device": "cuda"},
        }
    )


class _PlainSoftmax(nn.Module):
    """What one writes first: complex einsum, all logits in memory, torch's cross entropy and Adagrad."""

    def __init__(self, entities: int, relations: int) -> None:
        super().__init__()
        model = build_model(ModelSettings(name="blockhole", blocks=2, block_size=25), entities, relations, seed=0)
        entity = model.entity.detach().view(entities, 2, 2, 25)
        relation = model.relation.detach().view(2 * relations, 2, 2, 2, 25)
        self.entity = nn.Parameter(torch.complex(entity[:, 0], entity[:, 1]).contiguous())
        self.relation = nn.Parameter(torch.complex(relation[:, 0], relation[:, 1]).contiguous())

    def forward(self, source: Tensor, path: Tensor, target: Tensor) -> Tensor:
        vector = self.entity[source]
        for step in range(path.shape[1]):
            vector = torch.einsum("bif,bijf->bjf", vector, self.relation[path[:, step]])
        logits = torch.einsum("bif,eif->be", vector, self.entity.conj()).real
        return nn.functional.cross_entropy(logits, target)


def _fused_epochs(graph: KnowledgeGraph, positives: Positives, epochs: int, batch: int) -> dict[str, Any]:
    """Whole epochs, and the part of each that draws its positives and their order."""
    config = _config(batch)
    model = build_model(config.model, graph.num_entities, graph.num_relations, seed=0).to("cuda")
    stepper: Stepper = CapturedStepper(AutogradStepper(model, config, graph))
    seconds, preparing, losses = [], [], []
    for epoch in range(epochs):
        torch.cuda.synchronize()
        began = perf_counter()
        plan = positives.plan(epoch)
        torch.cuda.synchronize()
        preparing.append(perf_counter() - began)
        total = torch.zeros((), device="cuda")
        for index in range(len(plan)):
            total += stepper.step(plan.batch(index)) * plan.size(index)
        losses.append(total.item() / len(positives))
        seconds.append(perf_counter() - began)
    return {"batch": batch, "seconds": seconds, "of_which_preparing": preparing, "loss": losses}


def _plain_epoch(graph: KnowledgeGraph, queries: PathQueries, batch: int, most: int) -> dict[str, Any]:
    """As many batches of a plain epoch as `most`, its time scaled to all of them."""
    torch.set_float32_matmul_precision("high")
    model = _PlainSoftmax(graph.num_entities, graph.num_relations).to("cuda")
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.5)
    plan = StoredPositives(PathTensors.of(queries, DEVICE), 0, batch).plan(0)
    done = min(most, len(plan))
    for index in range(min(10, done)):
        model(plan.batch(index).source, plan.batch(index).path, plan.batch(index).target).backward()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    began = perf_counter()
    total, count = torch.zeros((), device="cuda"), 0
    for index in range(done):
        each = plan.batch(index)
        loss = model(each.source, each.path, each.target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(each.source)
        count += len(each.source)
    mean = total.item() / count
    seconds = (perf_counter() - began) * len(queries) / count
    return {"batch": batch, "batches": done, "of": len(plan), "seconds": seconds, "loss": mean}


def _rank_test(data: DataSet) -> dict[str, Any]:
    """The whole path test of a data set, ranked twice: the first time compiles."""
    settings = ModelSettings(name="blockhole", blocks=2, block_size=25)
    model = build_model(settings, len(data.split.entities), len(data.split.relations), seed=0)
    queries = queries_of(data, "all")
    seconds = []
    for _ in range(2):
        began = perf_counter()
        ranks = rank(model, queries, build_truth(data.split), device="cuda")
        seconds.append(perf_counter() - began)
    return {"queries": len(queries), "evaluated": int(ranks.evaluated.sum()), "seconds": seconds}


def _limits(entities: int, paths: int, seconds: float) -> dict[str, float]:
    """Shares of the chip's measured ceilings: 4 products of width 100 per logit, and the entity rows read per batch."""
    flops = 4 * 2.0 * paths * entities * 100
    # Per batch the table and its optimizer state are read and written, the gradient written and read, in float32.
    moved = (paths / BATCH) * entities * 100 * 4 * 6.0
    return {
        "arithmetic_share": flops / seconds / FLOAT16_FLOPS,
        "memory_share": moved / seconds / COPY_BYTES_PER_SECOND,
    }


def main() -> None:
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name in sys.argv[2:]:
        data = read_encoded(Path(sys.argv[1]), name)
        graph, queries = data.split.graph("train"), data.paths("train")
        paths = PathTensors.of(queries, DEVICE)
        fused = _fused_epochs(graph, StoredPositives(paths, 0, BATCH), EPOCHS, BATCH)
        same = _fused_epochs(graph, StoredPositives(paths, 0, PLAIN_BATCH), 1, PLAIN_BATCH)
        plain = _plain_epoch(graph, queries, PLAIN_BATCH, most=len(queries))
        best = min(fused["seconds"][1:])
        entry = {
            "paths": len(queries),
            "fused": fused,
            "fused_at_plain_batch": same,
            "fused_fresh_walks": _fused_epochs(graph, FreshWalks(graph, 0, "edges", BATCH, DEVICE), EPOCHS, BATCH),
            "plain": plain,
            "ratio": plain["seconds"] / best,
            "ranking": _rank_test(data),
            **_limits(graph.num_entities, len(queries), best),
        }
        report[name] = entry
        sys.stderr.write(json.dumps(entry) + "\n")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
