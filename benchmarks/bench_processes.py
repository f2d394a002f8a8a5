"""Time and memory against the number of processes that hold one entity table together.

    python -m benchmarks.bench_processes > benchmarks/results/processes.json

Steps of the logistic loss over a packed graph of a million entities with 100 numbers each, by 1, 2 and 4 processes of
one thread, along the entities and along the data; the best of several rounds, and the most memory of any process. Four
share the cores where there are two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import synthetic_graph
from benchmarks.launching import figures_of

MESHES = ("1x1", "1x2", "2x1", "1x4", "2x2", "4x1")
EDGES, ENTITIES, RELATIONS, BATCH, BLOCK_SIZE = 2_000_000, 1_000_000, 1000, 8192, 25


def measure(packed: Path, mesh: str, steps: int) -> dict[str, Any]:
    data, entities = map(int, mesh.split("x"))
    worker = ["benchmarks.process_steps", str(packed), "--mesh", mesh, "--steps", str(steps)]
    sizes = ["--batch-size", str(BATCH), "--block-size", str(BLOCK_SIZE)]
    figures: dict[str, Any] = figures_of([*worker, *sizes], data * entities)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    best: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "packed"
        synthetic_graph.write_packed(packed, EDGES, ENTITIES, RELATIONS, memory=2 * 10**9)
        for _ in range(options.rounds):
            for mesh in MESHES:
                figures = measure(packed, mesh, options.steps)
                print(f"{mesh}: {figures}", file=sys.stderr)
                if mesh not in best or figures["facts_per_second"] > best[mesh]["facts_per_second"]:
                    best[mesh] = figures
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    report = {
        "commit": told.stdout.strip() or "unknown",
        "cores": os.cpu_count(),
        "edges": EDGES,
        "entities": ENTITIES,
        "width": 4 * BLOCK_SIZE,
        "batch_size": BATCH,
        "meshes": best,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
