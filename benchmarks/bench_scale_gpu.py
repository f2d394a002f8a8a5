"""Ten million entities on one GPU, and the stepper of several processes over NCCL beside that of one.

    python -m benchmarks.bench_scale_gpu --commit $(git rev-parse --short HEAD) > benchmarks/results/scale_gpu.json

One epoch over the facts of a packed graph for each sampled loss, with row-wise Adagrad: edges per second, and the
memory of the GPU, as stated before and as the driver counts it after. Steps of several batch sizes and widths, for the
cost model. And the losses of the same steps by one process and by torchrun's only one. Needs torch, numpy, pydantic and
rich only.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks import synthetic_graph
from benchmarks.launching import figures_of
from blockhole.data.dataset import DataSet
from blockhole.fitting import fit
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph, build_adjacency
from blockhole.graph.vocabulary import Vocabulary
from blockhole.machine import peak_bytes
from blockhole.queries.paths import PathQueries
from blockhole.runs.config import TrainConfig
from blockhole.training.batches import Batch, PathTensors
from blockhole.training.memory_needed import memory_needed
from blockhole.training.positives import StoredPositives
from blockhole.training.workers import ALONE, Workers, joined

NEGATIVES = {"logistic": 5, "sampled_softmax": 1024}
STEP_BLOCK_SIZES, STEP_BATCHES = (13, 25, 50), (8192, 32_768, 131_072)
WARM, STEPS = 4, 20
COMPARED = {"softmax": 1, "sampled_softmax": 512, "logistic": 5}
"""Losses whose steps are compared, and their negatives."""
COMPARED_STEPS, COMPARED_ENTITIES, COMPARED_RELATIONS, COMPARED_BATCH = 60, 20_000, 50, 1024


def packed(edges: int, entities: int, relations: int) -> SplitGraph:
    """The graph as `blockhole data pack` leaves it, in memory."""
    facts = np.concatenate([ids.astype(np.int32) for ids in synthetic_graph.blocks(edges, entities, relations, seed=0)])
    return SplitGraph(
        Vocabulary(map(str, range(entities))),
        Vocabulary(map(str, range(relations)), "relation"),
        facts,
        train_adjacency=build_adjacency(facts, entities, relations),
    )


def settings(loss: str, options: argparse.Namespace) -> TrainConfig:
    return TrainConfig.model_validate(
        {
            "model": {"name": "blockhole", "blocks": 2, "block_size": options.block_size},
            "loss": {"kind": loss, "negatives": NEGATIVES[loss]},
            "optimizer": {"kind": "rowwise_adagrad", "learning_rate": 0.05},
            "penalty": {"l2": 0.0, "dura": 0.0},
            "training": {
                "on": "base",
                "reverse": "none",
                "epochs": 1,
                "batch_size": options.batch_size,
                "device": options.device,
            },
        }
    )


def measure(split: SplitGraph, loss: str, options: argparse.Namespace) -> dict[str, Any]:
    config = settings(loss, options)
    stated = memory_needed(config, split, None, saved=False)
    start = perf_counter()
    run = fit(DataSet("synthetic", split), config)
    figures = {
        "loss": loss,
        "negatives": NEGATIVES[loss],
        "epoch_seconds": round(run.state.seconds, 2),
        "edges_per_second": round(run.state.paths / run.state.seconds),
        "all_seconds": round(perf_counter() - start, 2),
        "mean_loss": run.state.loss,
        "stated_gpu_mb": round(stated.gpu / 2**20),
        "peak_rss_mb": round(peak_bytes() / 2**20),
    }
    if options.device == "cuda":
        free, total = torch.cuda.mem_get_info()
        figures["gpu_used_mb"] = round((total - free) / 2**20)
        figures["gpu_reserved_mb"] = round(torch.cuda.max_memory_reserved() / 2**20)
        figures["gpu_allocated_mb"] = round(torch.cuda.max_memory_allocated() / 2**20)
    return figures


def forget(device: str) -> None:
    """Give back what the last measurement left on the GPU, so that the next counts its own alone."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def step_times(split: SplitGraph, options: argparse.Namespace) -> list[dict[str, float]]:
    """Seconds of a step of the logistic loss over random facts, for each width and batch size."""
    graph, place, times = split.graph("train"), torch.device(options.device), []
    for block_size in STEP_BLOCK_SIZES:
        config = settings("logistic", argparse.Namespace(**vars(options) | {"block_size": block_size}))
        model = ALONE.build_model(config, graph.num_entities, graph.num_relations)
        engine = ALONE.build_stepper(model, config, graph, 1, None)
        for size in STEP_BATCHES:
            facts = torch.from_numpy(graph.triples[: (WARM + STEPS) * size].astype(np.int64)).to(place)
            parts = facts.reshape(-1, size, 3)
            batches = [Batch(part[:, 0], part[:, 1:2], part[:, 2], 0, index) for index, part in enumerate(parts)]
            for batch in batches[:WARM]:
                engine.step(batch).item()
            start = perf_counter()
            losses = [engine.step(batch) for batch in batches[WARM:]]
            torch.stack(losses).tolist()
            seconds = (perf_counter() - start) / STEPS
            times.append({"width": 4 * block_size, "batch_size": size, "seconds": round(seconds, 6)})
    return times


def losses(workers: Workers, device: str) -> dict[str, list[float]]:
    """The losses of the same steps for each kind of loss, by this process alone or by all of its launch."""
    E, R = COMPARED_ENTITIES, COMPARED_RELATIONS
    facts = np.random.default_rng(0).integers([E, R, E], size=(COMPARED_STEPS * COMPARED_BATCH, 3)).astype(np.int32)
    names = Vocabulary(map(str, range(E))), Vocabulary(map(str, range(R)), "relation")
    graph, found = KnowledgeGraph(*names, facts), {}
    for kind, negatives in COMPARED.items():
        config = TrainConfig.model_validate(
            {
                "model": {"name": "blockhole", "blocks": 2, "block_size": 25},
                "loss": {"kind": kind, "negatives": negatives},
                "optimizer": {"kind": "rowwise_adagrad", "learning_rate": 0.1},
                "penalty": {"dura": 0.0},
                "training": {"on": "base", "batch_size": COMPARED_BATCH, "device": device},
            }
        )
        place = workers.settle(config, DataSet("", SplitGraph(*names, facts)))
        model = workers.build_model(config, E, R)
        stepper = workers.build_stepper(model, config, graph, 1, None)
        positives = PathTensors.of(PathQueries.from_triples(facts), place)
        plan = StoredPositives(positives, 0, COMPARED_BATCH).plan(0)
        steps = [stepper.step(plan.batch(index)) for index in range(COMPARED_STEPS)]
        found[kind] = torch.stack(steps).tolist()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--entities", type=int, default=10_000_000)
    parser.add_argument("--step-entities", type=int, default=2_000_000)
    parser.add_argument("--relations", type=int, default=1000)
    parser.add_argument("--block-size", type=int, default=25)
    parser.add_argument("--batch-size", type=int, default=32_768)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--worker", action="store_true", help="print the losses of some steps alone")
    options = parser.parse_args()
    if options.worker:
        with joined(None) as workers:
            print(json.dumps(losses(workers, options.device)))
        return
    report: dict[str, Any] = {"commit": options.commit, "torch": torch.__version__}
    report["device"] = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    report |= {key: vars(options)[key] for key in ("edges", "entities", "relations", "batch_size")}
    report |= {"model": "blockhole", "width": 4 * options.block_size, "optimizer": "rowwise_adagrad"}
    worker = ["benchmarks.bench_scale_gpu", "--worker", "--device", options.device]
    alone, together = (figures_of(worker, processes) for processes in (None, 1))
    report["steps_beside_one_process"] = {
        kind: {
            "steps": len(expected),
            "first": [expected[0], together[kind][0]],
            "last": [expected[-1], together[kind][-1]],
            "largest_difference": float(np.abs(np.subtract(expected, together[kind])).max()),
        }
        for kind, expected in alone.items()
    }
    print(json.dumps(report), file=sys.stderr)
    report["step_entities"] = options.step_entities
    report["steps"] = step_times(packed(4_000_000, options.step_entities, options.relations), options)
    print(json.dumps(report["steps"]), file=sys.stderr)
    split = packed(options.edges, options.entities, options.relations)
    report["epochs"] = []
    for loss in NEGATIVES:
        forget(options.device)
        report["epochs"].append(measure(split, loss, options))
        print(json.dumps(report["epochs"][-1]), file=sys.stderr)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
