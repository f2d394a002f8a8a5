"""Speed and memory of evaluation: path ranking on WN11 and FB13, completion beside PyKEEN's filtered evaluator.

    BLOCKHOLE_DATA=folder python -m benchmarks.bench_evaluate [--peers .venv-peers/bin/python]
    python -m benchmarks.bench_evaluate --device cuda --encoded FOLDER/fb13   (of experiments.material)

prints one JSON object. Weights are random: ranking them costs what ranking trained ones costs. Each measurement runs
in a process of its own, so that its peak memory is its own, and after one small call that compiles the loops; times
are the best of three. On a shared machine processor time tells more than wall time, so both are given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from blockhole.errors import BlockholeWarning
from blockhole.evaluation.completion import both_sides
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.truth import Truth, build_truth
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.machine import parse_size, peak_bytes
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.queries.paths import PathQueries

REPEATS = 3
ENTITIES, RELATIONS, TRAIN, TEST = 38_696, 11, 112_581, 2_000
"""A random graph of WN11's size, for completion."""


def best(work: Callable[[], object], queries: int, repeats: int) -> dict[str, float]:
    wall, processor = [], []
    for _ in range(repeats):
        start, start_processor = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_processor)
    return {
        "queries": queries,
        "seconds": round(min(wall), 3),
        "processor_seconds": round(min(processor), 3),
        "queries_per_second": round(queries / min(wall), 1),
        "queries_per_processor_second": round(queries / min(processor), 1),
        "peak_rss_mb": round(peak_bytes() / 2**20, 1),
    }


def load_named(name: str) -> tuple[SplitGraph, PathQueries]:
    from blockhole.data.dataset import load
    from blockhole.evaluation.truth import queries_of

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlockholeWarning)
        data = load(name)
    return data.split, queries_of(data, "all")


def load_encoded(place: Path) -> tuple[SplitGraph, PathQueries]:
    from experiments.material import read_encoded

    data = read_encoded(place.parent, place.name)
    return data.split, PathQueries.concatenate([data.paths("test_deduction"), data.paths("test_induction")])


def bench_ranking(source: str | Path, memory: str, device: str, repeats: int) -> dict[str, Any]:
    split, queries = load_named(source) if isinstance(source, str) else load_encoded(source)
    settings = ModelSettings(name="blockhole", blocks=2, block_size=25)
    model = build_model(settings, len(split.entities), len(split.relations), seed=0)
    truth = build_truth(split)
    cap = parse_size(memory)
    rank(model, queries.take(slice(0, 8)), truth, memory=cap, device=device)
    found = best(lambda: rank(model, queries, truth, memory=cap, device=device), len(queries), repeats)
    share = round(peak_bytes() / cap, 3)
    return {"memory": memory, "device": device, **found, "peak_rss_over_cap": share}


def random_completion() -> tuple[SplitGraph, Truth]:
    generator = np.random.default_rng(0)
    limits = (ENTITIES, RELATIONS, ENTITIES)
    train, test = (
        np.column_stack([generator.integers(limit, size=count) for limit in limits]).astype(np.int32)
        for count in (TRAIN, TEST)
    )
    entities = Vocabulary(map(str, range(ENTITIES)), "entity")
    relations = Vocabulary(map(str, range(RELATIONS)), "relation")
    split = SplitGraph(entities, relations, train, test=test)
    return split, build_truth(split)


def bench_completion(repeats: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    split, truth = random_completion()
    model = build_model(ModelSettings(name="complex", dim=50), ENTITIES, RELATIONS, seed=0)
    queries = both_sides(split.test, RELATIONS)
    rank(model, queries.take(slice(0, 8)), truth, candidates="all")
    return best(lambda: rank(model, queries, truth, candidates="all"), len(queries), repeats)


def bench_pykeen(python: Path, repeats: int) -> dict[str, Any]:
    split, _ = random_completion()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "triples.npz"
        np.savez(file, sizes=np.array([ENTITIES, RELATIONS]), train=split.train, test=split.test)
        script = Path(__file__).parent / "peers" / "evaluate_pykeen.py"
        options = ["--triples", str(file), "--dim", "50", "--repeats", str(repeats), "--batch-sizes", "2", "8", "32"]
        # A fresh environment would look for the GPU and the user's configuration again; one thread is all it may use.
        done = subprocess.run(
            [str(python), str(script), *options],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "PYSTOW_HOME": folder},
        )
    return dict(json.loads(done.stdout))


def alone(work: Callable[..., dict[str, Any]], *arguments: object, **threads: str) -> dict[str, Any]:
    """Call `work` in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_with_threads, (threads, work, *arguments))


def _with_threads(threads: dict[str, str], work: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
    if "numba" in threads:
        import numba

        numba.set_num_threads(int(threads["numba"]))
    return work(*arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=["wn11", "fb13"])
    parser.add_argument("--encoded", nargs="*", default=[], metavar="FOLDER/NAME", help="instead of data sets by name")
    parser.add_argument("--memory", nargs="*", default=["2GB", "1GB"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peers", type=Path, help="Python of the environment that has PyKEEN")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    sources: dict[str, str | Path] = {name: name for name in options.sets}
    if options.encoded:
        sources = {Path(text).name: Path(text) for text in options.encoded}
    result: dict[str, Any] = {
        "ranking": {
            name: [alone(bench_ranking, source, cap, options.device, options.repeats) for cap in options.memory]
            for name, source in sources.items()
        }
    }
    if options.device == "cpu":
        result["completion_one_thread"] = alone(bench_completion, options.repeats, numba="1")
    if options.peers is not None:
        peer = bench_pykeen(options.peers, options.repeats)
        ours = result["completion_one_thread"]["queries_per_processor_second"]
        result["pykeen_one_thread"] = peer
        result["completion_over_pykeen"] = round(ours / peer["queries_per_processor_second"], 2)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
