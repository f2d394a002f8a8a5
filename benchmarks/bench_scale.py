"""Time and memory against edges, entities and dimension: packing, walks over the packed graph, one epoch of training.

    python -m benchmarks.bench_scale --edges 200000000 --entities 20000000 --measure pack walks
    python -m benchmarks.bench_scale --edges 100000000 --entities 10000000 --measure train
    python -m benchmarks.bench_scale --curve
    python -m benchmarks.scale_report --write

The graphs are those of benchmarks/synthetic_graph.py. Packing and training run in processes of their own, whose peak
memory the system tells. Files go to a temporary folder that is removed, or stay in --folder for the next measurement.
One JSON object is printed for each graph, and kept in benchmarks/results/scale.json in the place of an earlier one of
the same sizes; from there the last command makes the tables and the cost model of docs/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from benchmarks import synthetic_graph
from benchmarks.launching import BLOCKHOLE, commit
from blockhole.files.readers import read_split
from blockhole.machine import parse_size
from blockhole.queries.walks import sample_walks
from blockhole.training.positives import StreamedPositives

KEY = ("format", "edges", "entities", "width")
RESULTS = Path(__file__).parent / "results" / "scale.json"
CURVE = [
    (500_000, 50_000, 8),
    (1_000_000, 100_000, 8),
    (2_000_000, 200_000, 8),
    (4_000_000, 400_000, 8),
    (1_000_000, 20_000, 8),
    (1_000_000, 1_000_000, 8),
    (1_000_000, 100_000, 16),
    (1_000_000, 100_000, 32),
    (1_000_000, 1_000_000, 32),
]
"""Edges, entities and block size m; an entity has 2bm numbers."""


def started(*command: object) -> dict[str, Any]:
    """What a program prints as JSON, the processor time it took, and the most it held in memory of its own.

    Its peak RSS, which it tells itself, is the kernel's mark and counts mapped files too; memory of its own, which no
    file backs, is looked at ten times a second.
    """
    before, most = os.times(), 0
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            most = max(most, _own_bytes(process.pid))
            time.sleep(0.1)
        assert process.stdout is not None
        report: dict[str, Any] = json.loads(process.stdout.read())
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return report | {"cpu_seconds": round(cpu, 1), "peak_own_mb": round(most / 2**20, 1)}


def _own_bytes(process: int) -> int:
    """Memory of a process that no file backs; 0 once it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:"))


def measure_pack(facts: Path, packed: Path, memory: str) -> dict[str, Any]:
    report = started(*BLOCKHOLE, "data", "pack", facts, "--out", packed, "--memory", memory, "--overwrite", "--json")
    size = sum(file.stat().st_size for file in packed.iterdir())
    return {
        "file_mb": round(facts.stat().st_size / 1e6),
        "packed_mb": round(size / 1e6),
        "seconds": report["seconds"],
        "cpu_seconds": report["cpu_seconds"],
        "edges_per_second": round(report["facts"] / report["seconds"]),
        "memory_allowed": memory,
        "peak_rss_mb": report["peak_rss_mb"],
        "peak_own_mb": report["peak_own_mb"],
    }


def measure_walks(packed: Path, count: int = 2_000_000) -> dict[str, Any]:
    """The best of several; the first one also brings the files into the page cache."""
    graph = read_split(packed).graph("train")
    seconds, cpu = [], []
    for seed in range(4):
        start, used = time.perf_counter(), time.process_time()
        sample_walks(graph, count, seed=seed)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return {
        "paths_per_second": round(count / min(seconds)),
        "first_paths_per_second": round(count / seconds[0]),
        "paths_per_cpu_second": round(count / min(cpu)),
    }


def measure_batches(packed: Path, batch_size: int, count: int = 60) -> dict[str, Any]:
    """What making a batch of facts costs, before it is trained on; the processes of a run share this work."""
    plan = StreamedPositives(
        read_split(packed).graph("train"), 0, "none", batch_size, torch.device("cpu"), walks=False
    ).plan(0)
    plan.batch(0)
    used, facts = time.process_time(), 0
    for index in range(1, min(count, len(plan))):
        facts += len(plan.batch(index).source)
    return {"processor_microseconds_per_fact": round(1e6 * (time.process_time() - used) / facts, 3)}


def measure_train(packed: Path, run: Path, block_size: int, options: argparse.Namespace) -> dict[str, Any]:
    """One epoch: logistic loss, uniform negatives, row-wise Adagrad, edges as they are or with fresh walks."""
    settings = {
        "training.on": options.on,
        "training.walks": "fresh",
        "training.reverse": "none",
        "training.epochs": 1,
        "training.batch_size": options.batch_size,
        "training.checkpoint_seconds": 3600,
        "training.threads": options.threads,
        "loss.kind": "logistic",
        "loss.negatives": options.negatives,
        "penalty.dura": 0.0,
        "optimizer.kind": "rowwise_adagrad",
        "optimizer.learning_rate": 0.05,
        "model.blocks": options.blocks,
        "model.block_size": block_size,
    }
    report = started(sys.executable, "-m", "benchmarks.scale_epoch", packed, run, json.dumps(settings))
    shutil.rmtree(run)
    return {"threads": options.threads, **report}


def measure(edges: int, entities: int, block_size: int, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    facts, packed = folder / f"facts.{options.format}", folder / "packed"
    figures: dict[str, Any] = {"edges": edges, "entities": entities, "format": options.format}
    figures["width"] = 2 * options.blocks * block_size
    if "pack" in options.measure:
        if not facts.exists():
            synthetic_graph.write(facts, edges, entities, options.relations)
        figures["pack"] = _stamp() | measure_pack(facts, packed, options.memory)
    elif not packed.exists():
        synthetic_graph.write_packed(packed, edges, entities, options.relations, memory=parse_size(options.memory))
    if "walks" in options.measure:
        figures["walks"] = _stamp() | measure_walks(packed)
    if "batches" in options.measure:
        figures["batches"] = _stamp() | measure_batches(packed, options.batch_size)
    if "train" in options.measure:
        figures["train"] = _stamp() | measure_train(packed, folder / "run", block_size, options)
    return figures


def keep(figures: dict[str, Any], results: Path) -> None:
    """Put a record into the file of all, in the place of one of the same sizes; what was not measured again stays."""
    records = json.loads(results.read_text(encoding="utf-8")) if results.exists() else []
    same = [record for record in records if all(record[key] == figures[key] for key in KEY)]
    records = [record for record in records if record not in same] + [{**(same[0] if same else {}), **figures}]
    records.sort(key=lambda record: [record[key] for key in KEY])
    fresh = results.with_name(f"{results.name}.new")
    fresh.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    fresh.replace(results)


def _stamp() -> dict[str, Any]:
    """Which source is measured, and how many processes want the cores."""
    return {"commit": commit(), "load": round(os.getloadavg()[0], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--entities", type=int, default=200_000)
    parser.add_argument("--relations", type=int, default=1000)
    parser.add_argument("--format", choices=("parquet", "nt"), default="parquet")
    parser.add_argument("--memory", default="3GB")
    kinds = ["pack", "walks", "batches", "train"]
    parser.add_argument("--measure", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--on", choices=("base", "paths"), default="base")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--block-size", type=int, default=8)
    parser.add_argument("--negatives", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--curve", action="store_true", help="several sizes instead of --edges and --entities")
    parser.add_argument("--folder", type=Path, help="a folder for the files, which are used again: one for each graph")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    for edges, entities, block_size in (
        CURVE if options.curve else [(options.edges, options.entities, options.block_size)]
    ):
        with ExitStack() as stack:
            if options.folder is None or options.curve:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
            else:
                folder = options.folder
                folder.mkdir(parents=True, exist_ok=True)
            figures = measure(edges, entities, block_size, folder, options)
        print(json.dumps(figures), flush=True)
        keep(figures, options.results)


if __name__ == "__main__":
    main()
