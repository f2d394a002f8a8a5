"""Time and memory against edges, entities and dimension: packing, walks over the packed graph, one epoch of training.

    python -m benchmarks.bench_scale --edges 200000000 --entities 20000000 --measure pack walks
    python -m benchmarks.bench_scale --edges 100000000 --entities 10000000 --measure pack train
    python -m benchmarks.bench_scale --curve

The graphs are those of benchmarks/synthetic_graph.py. Packing and training run in processes of their own, whose peak
memory the system tells. Files go to a temporary folder that is removed, or stay in --folder for the next measurement.
One JSON object is printed for each graph.
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
from pathlib import Path
from typing import Any

from benchmarks import synthetic_graph
from blockhole.evaluation.memory import parse_size
from blockhole.graph.readers import read_split
from blockhole.paths.walks import sample_walks

BLOCKHOLE = (sys.executable, "-c", "import sys; from blockhole.cli.main import main; main(sys.argv[1:])")
CURVE = [(1_000_000, 100_000), (2_000_000, 200_000), (4_000_000, 400_000), (4_000_000, 100_000), (4_000_000, 1_600_000)]
"""Edges and entities."""


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
    report = started(*BLOCKHOLE, "data", "pack", facts, "--out", packed, "--memory", memory, "--json")
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


def measure_train(packed: Path, run: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One epoch: logistic loss, uniform negatives, row-wise Adagrad, edges as they are or with fresh walks."""
    settings = {
        "training.on": options.on,
        "training.walks": "fresh",
        "training.reverse": "none",
        "training.epochs": 1,
        "training.batch_size": options.batch_size,
        "training.checkpoint_seconds": 3600,
        "loss.kind": "logistic",
        "loss.negatives": options.negatives,
        "penalty.dura": 0.0,
        "optimizer.kind": "rowwise_adagrad",
        "optimizer.learning_rate": 0.05,
        "model.blocks": options.blocks,
        "model.block_size": options.block_size,
    }
    report = started(sys.executable, "-m", "benchmarks.scale_epoch", packed, run, json.dumps(settings))
    shutil.rmtree(run)
    return {"width": 2 * options.blocks * options.block_size, **report}


def measure(edges: int, entities: int, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    facts, packed = folder / f"facts.{options.format}", folder / "packed"
    figures: dict[str, Any] = {"edges": edges, "entities": entities, "format": options.format}
    if "pack" in options.measure:
        if not facts.exists():
            synthetic_graph.write(facts, edges, entities, options.relations)
        figures["pack"] = measure_pack(facts, packed, options.memory)
    elif not packed.exists():
        synthetic_graph.write_packed(packed, edges, entities, options.relations, memory=parse_size(options.memory))
    if "walks" in options.measure:
        figures["walks"] = measure_walks(packed)
    if "train" in options.measure:
        figures["train"] = measure_train(packed, folder / "run", options)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--entities", type=int, default=200_000)
    parser.add_argument("--relations", type=int, default=1000)
    parser.add_argument("--format", choices=("parquet", "nt"), default="parquet")
    parser.add_argument("--memory", default="3GB")
    parser.add_argument("--measure", nargs="+", choices=("pack", "walks", "train"), default=["pack", "walks", "train"])
    parser.add_argument("--on", choices=("base", "paths"), default="base")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--block-size", type=int, default=8)
    parser.add_argument("--negatives", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--curve", action="store_true", help="several sizes instead of --edges and --entities")
    parser.add_argument("--folder", type=Path, help="a folder for the files, which are used again: one for each graph")
    options = parser.parse_args()
    sizes = CURVE if options.curve else [(options.edges, options.entities)]
    for edges, entities in sizes:
        if options.folder is not None and not options.curve:
            options.folder.mkdir(parents=True, exist_ok=True)
            print(json.dumps(measure(edges, entities, options.folder, options)), flush=True)
            continue
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            print(json.dumps(measure(edges, entities, Path(folder), options)), flush=True)


if __name__ == "__main__":
    main()
