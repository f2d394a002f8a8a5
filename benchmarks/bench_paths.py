"""Speed and memory of path queries on WN11 and FB13: walks, building, loading, exact answers.

    BLOCKHOLE_DATA=folder python benchmarks/bench_paths.py [wn11 fb13]

prints one JSON object. Each measurement runs in a process of its own, so that its peak memory is its own; times are
the best of three, wall and processor, after one small call that compiles the loops.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from blockhole.errors import BlockholeWarning
from blockhole.files.readers import read_split
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.machine import peak_bytes
from blockhole.queries.exact import answer_sets, holds
from blockhole.queries.path_sets import build_paths, read_paths, write_path_splits
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import sample_walks

REPEATS = 3


def load(folder: Path) -> SplitGraph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlockholeWarning)
        return read_split(folder)


def best(work: Callable[[], int]) -> dict[str, float]:
    """The least wall time and the least processor time of some runs; `work` says how many items it did."""
    wall, processor, items = [], [], 0
    for _ in range(REPEATS):
        start, start_processor = time.perf_counter(), time.process_time()
        items = work()
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_processor)
    return {
        "items": items,
        "seconds": round(min(wall), 3),
        "processor_seconds": round(min(processor), 3),
        "items_per_second": round(items / min(wall)),
    }


def bench_build(folder: Path) -> dict[str, float]:
    """From the files of facts to the files of path queries, as `blockhole data build` does."""

    def work() -> int:
        with tempfile.TemporaryDirectory() as out:
            split = load(folder)
            paths = build_paths(split)
            write_path_splits(paths, Path(out) / "paths", split.entities, split.relations)
            return sum(paths.counts().values())

    return best(work)


def bench_walks(folder: Path) -> dict[str, float]:
    graph = load(folder).graph("train")
    sample_walks(graph, 1)
    return best(lambda: len(sample_walks(graph, 20 * len(graph), seed=1)))


def bench_load(folder: Path) -> dict[str, float]:
    """The train paths, from Parquet into int arrays."""
    split = load(folder)
    return best(lambda: len(read_paths(folder / "paths" / "train.parquet", split.entities, split.relations)))


def test_queries(folder: Path, split: SplitGraph) -> PathQueries:
    parts = [folder / "paths" / f"test_{kind}.tsv" for kind in ("deduction", "induction")]
    return PathQueries.concatenate([read_paths(part, split.entities, split.relations) for part in parts])


def bench_answers(folder: Path) -> dict[str, float]:
    """The answer sets of all test queries, F* = train + valid + test."""
    split = load(folder)
    graph, queries = split.graph("train", "valid", "test"), test_queries(folder, split)
    list(answer_sets(graph, queries.take(slice(0, 1))))
    answers = 0

    def work() -> int:
        nonlocal answers
        answers = sum(len(sets.entities) for sets in answer_sets(graph, queries))
        return len(queries)

    return {**best(work), "answers": answers}


def bench_holds(folder: Path) -> dict[str, float]:
    """Deduction or induction, for all test queries."""
    split = load(folder)
    graph, queries = split.graph("train"), test_queries(folder, split)
    holds(graph, queries.take(slice(0, 1)))
    return {**best(lambda: len(holds(graph, queries))), "deduction": int(np.count_nonzero(holds(graph, queries)))}


MEASUREMENTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "build": bench_build,
    "walks": bench_walks,
    "load_parquet": bench_load,
    "answer_sets": bench_answers,
    "holds": bench_holds,
}


def measure(name: str, folder: Path) -> dict[str, float]:
    figures = MEASUREMENTS[name](folder)
    return {**figures, "peak_rss_mb": round(peak_bytes() / 2**20)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=["wn11", "fb13"])
    chosen = parser.parse_args()
    root = Path(os.environ["BLOCKHOLE_DATA"])
    report: dict[str, Any] = {"processors": len(os.sched_getaffinity(0))}
    for data in chosen.data:
        for name in MEASUREMENTS:
            with multiprocessing.get_context("spawn").Pool(1) as process:
                report.setdefault(data, {})[name] = process.apply(measure, (name, root / data))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
