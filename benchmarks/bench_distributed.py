"""Training by several processes beside training by one, on WN11 with the full softmax over all entities.

    BLOCKHOLE_DATA=folder python -m benchmarks.bench_distributed [--steps 30] [--rounds 3]

prints one JSON object: paths per second of one process with one thread in the engine that `blockhole train` gives it,
and of 2 processes with one thread each, their ratio by wall time, and what a process sent per step. Rounds alternate
between the settings, and the best of each counts; every process has one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from benchmarks.launching import add_sizes, figures_of

SETTINGS: dict[str, list[str]] = {
    "one process": [],
    "2 processes, mesh 1x2": ["--mesh", "1x2"],
    "2 processes, mesh 2x1": ["--mesh", "2x1"],
}


def measure(mesh: list[str], options: argparse.Namespace) -> dict[str, Any]:
    worker = ["benchmarks.distributed_steps", "--data", options.data, "--loss", options.loss]
    sizes = ["--steps", str(options.steps), "--batch-size", str(options.batch_size)]
    figures: dict[str, Any] = figures_of([*worker, *sizes, *mesh], 2 if mesh else None)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    add_sizes(parser)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    best: dict[str, dict[str, Any]] = {}
    for _ in range(options.rounds):
        for name, mesh in SETTINGS.items():
            figures = measure(mesh, options)
            print(f"{name}: {figures}", file=sys.stderr)
            if name not in best or figures["paths_per_second"] > best[name]["paths_per_second"]:
                best[name] = figures
    alone = best["one process"]["paths_per_second"]
    for figures in best.values():
        figures["times_one_process"] = round(figures["paths_per_second"] / alone, 2)
    print(json.dumps({"data": options.data, "loss": options.loss, "batch_size": options.batch_size, **best}, indent=1))


if __name__ == "__main__":
    main()
