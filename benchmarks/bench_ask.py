"""How fast answers come, on one core: single, in batches, explained, and from a cold start.

    python -m benchmarks.bench_ask [--parts warm,batch,explain,cold]

prints one JSON object. The model has FB13's size (75,043 entities, 13 relations, b = 2, m = 25) and random weights, the
graph FB13's number of random facts: speed does not depend on what they say. Times are medians
by the wall; on a busy machine look at those of the processor. `bench_million` has a million entities.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import torch

from blockhole.answering.calibration import Calibrated, Calibration, Curve, save_calibration
from blockhole.answering.engine import Engine
from blockhole.answering.proofs import explain
from blockhole.answering.search import Candidates
from blockhole.answering.vectors import Vectors
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.models.contract import Model
from blockhole.queries.language import Hop, Query
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import sample_walks
from blockhole.runs.checkpoint import TrainingState
from blockhole.runs.config import TrainConfig
from blockhole.runs.run import Run
from blockhole.runs.writer import RunWriter
from blockhole.training.steppers import AutogradStepper

ENTITIES, RELATIONS, FACTS = 75_043, 13, 316_232
SETTINGS = ModelSettings(name="blockhole", blocks=2, block_size=25)
PARTS = ("warm", "batch", "explain", "cold")


def random_graph(entities: int = ENTITIES, seed: int = 0) -> KnowledgeGraph:
    """FB13's number of facts; targets of a relation come from its own range, so that typed candidates are fewer."""
    rng = np.random.default_rng(seed)
    relation = rng.integers(RELATIONS, size=FACTS)
    span = entities // 4
    target = (relation * (entities // RELATIONS) + rng.integers(span, size=FACTS)) % entities
    triples = np.column_stack([rng.integers(entities, size=FACTS), relation, target]).astype(np.int32)
    return KnowledgeGraph(
        Vocabulary([f"entity_{i}" for i in range(entities)]),
        Vocabulary([f"relation_{i}" for i in range(RELATIONS)], "relation"),
        triples,
    )


def calibration() -> Calibrated:
    """Curves as a fit gives them, without normalisers, which are then made when first asked for."""
    curve = Curve(low=-9.0, low_slope=1.0, slope=1.0, top_slope=1.0, intercept=0.0)
    return Calibrated(
        Calibration(
            scale=1.0,
            new_objects=1.0,
            doubts={},
            hop=curve,
            chains={},
            facts=1,
            missing=1.0,
            brier=0.0,
            sampling_error=0.0,
        ),
        None,
    )


def spelled(graph: KnowledgeGraph, queries: PathQueries) -> list[Query]:
    return [
        Query(
            graph.entities[queries.source[i]],
            tuple(Hop(*graph.relation_name(int(r))) for r in queries.path[i, : queries.length[i]]),
        )
        for i in range(len(queries))
    ]


def milliseconds(name: str, work: Callable[[int], object], count: int) -> dict[str, float]:
    """The median time of work(0) … work(count - 1), by the wall and by the processor, once it is warm."""
    work(0)
    wall, cpu = [], []
    for i in range(count):
        began, used = perf_counter(), process_time()
        work(i)
        wall.append(perf_counter() - began)
        cpu.append(process_time() - used)
    return {f"{name}_ms": round(1000 * median(wall), 3), f"{name}_cpu_ms": round(1000 * median(cpu), 3)}


def warm(engine: Engine, queries: list[Query]) -> dict[str, float]:
    typed = milliseconds("warm_top10_typed", lambda i: engine.ask(queries[i]), 200)
    return typed | milliseconds("warm_top10_all", lambda i: engine.ask(queries[i], candidates="all"), 200)


def batch(engine: Engine, queries: list[Query]) -> dict[str, float]:
    kinds: tuple[Candidates, ...] = ("typed", "all")
    rates: dict[str, float] = {}
    for kind in kinds:
        best = best_cpu = float("inf")
        for _ in range(3):
            began, used = perf_counter(), process_time()
            engine.ask_many(queries, candidates=kind)
            best, best_cpu = min(best, perf_counter() - began), min(best_cpu, process_time() - used)
        rates[f"batch_{kind}_queries_per_second"] = round(len(queries) / best)
        rates[f"batch_{kind}_queries_per_cpu_second"] = round(len(queries) / best_cpu)
    return rates


def explained(engine: Engine, queries: list[Query]) -> dict[str, float]:
    long = [query for query in queries if len(query.hops) == 3][:40]
    targets = [engine.ask(query, only="predicted")[0].entity for query in long]
    return milliseconds("explain_length_3", lambda i: explain(engine, long[i], targets[i]), len(long))


def write_run(folder: Path, model: Model, graph: KnowledgeGraph) -> None:
    config = TrainConfig(model=SETTINGS)
    writer = RunWriter(folder, model, AutogradStepper(model, config, graph))
    writer.begin(config, graph)
    writer.save(TrainingState(epoch=1), None, best_changed=False)
    writer.close()
    save_calibration(calibration(), folder)


def cold(model: Model, graph: KnowledgeGraph, query: Query) -> dict[str, float]:
    """Start to answer of a process of its own: the best of five, wall and processor time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        folder.mkdir()
        write_run(folder, model, graph)
        Run.open(folder)
        command = [
            sys.executable,
            "-c",
            "from blockhole.cli.main import main; main()",
            "ask",
            str(folder),
            str(query),
            "--json",
        ]
        times = []
        for _ in range(5):
            began, used = perf_counter(), os.times()
            subprocess.run(command, check=True, capture_output=True)
            after = os.times()
            cpu = after.children_user + after.children_system - used.children_user - used.children_system
            times.append((perf_counter() - began, cpu))
    return {"cold_ask_s": round(min(t for t, _ in times), 3), "cold_ask_cpu_s": round(min(t for _, t in times), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS))
    parts = set(parser.parse_args().parts.split(","))
    if parts - set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    report: dict[str, float] = {}
    graph = random_graph()
    model = build_model(SETTINGS, ENTITIES, RELATIONS, seed=0)
    engine = Engine(Vectors.of_weights(SETTINGS, dict(model.state_dict()), RELATIONS), graph, calibration())
    queries = spelled(graph, sample_walks(graph, 4000, lengths=(1, 3), seed=0))
    if "warm" in parts:
        report |= warm(engine, queries)
    if "batch" in parts:
        report |= batch(engine, queries)
    if "explain" in parts:
        report |= explained(engine, queries)
    if "cold" in parts:
        report |= cold(model, graph, queries[0])
    print(json.dumps(report))


if __name__ == "__main__":
    main()
