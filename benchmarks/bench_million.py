"""How fast a million entities answer on one core, exactly and with an approximate index, and what the index misses.

    python -m benchmarks.bench_million FOLDER [--entities 1000000] [--kind ivf] [--candidates all] [--exact]

plants a graph and its vectors (b = 2, m = 25) in FOLDER, as a run, unless it is there already: 100 entities make a
cluster, and relations, which are rotations, lead from each to a cluster of another quarter of the entities. Facts are
the pairs that score best with some noise, a few of which are held out to calibrate on. It prints one JSON object:
milliseconds by the wall and by the processor of the ten best predicted answers of 1p, 2i and 2p, engine open, with
typed candidates or all, and the share of the exact best ten that the index finds; as in
`results/million.json`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench_ask import SETTINGS, write_run
from benchmarks.bench_queries import predicted
from blockhole.answering.calibrating import fit
from blockhole.answering.calibration import save_calibration
from blockhole.answering.engine import Engine
from blockhole.answering.index import ApproximateKind, build_index
from blockhole.answering.search import Candidates
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import DataSet
from blockhole.errors import QueryTooCostly
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import build_model
from blockhole.queries.plans import Both, Follow, Plan, Start
from blockhole.runs.run import Run, is_run

TYPES, MEMBERS, RELATIONS = 4, 100, 8
BLOCKS, FREQS = 2, 25
SIZE, SPREAD, NOISE = 0.45, 0.5, 0.5
"""Root mean square of a centre's numbers; how far members lie from it, in these; noise of which facts hold, in SDs."""


def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.complex128]:
    numbers = np.empty(shape, dtype=np.complex128)
    numbers.real, numbers.imag = rng.normal(size=shape), rng.normal(size=shape)
    return numbers


def rotation(rng: np.random.Generator) -> NDArray[np.complex128]:
    """A unitary b×b matrix for each frequency: [block, block, freq]."""
    return np.moveaxis(np.linalg.qr(gaussian(rng, (FREQS, BLOCKS, BLOCKS))).Q, 0, -1)


def moved(vectors: NDArray[np.complex128], matrix: NDArray[np.complex128]) -> NDArray[np.complex128]:
    found: NDArray[np.complex128] = np.einsum("nif,ijf->njf", vectors, matrix)
    return found


def stored(numbers: NDArray[np.complex128]) -> NDArray[np.float32]:
    """Complex numbers as models store them, real parts first: [N, …] → [N, width]."""
    flat = numbers.reshape(len(numbers), -1)
    return np.concatenate([flat.real, flat.imag], axis=1).astype(np.float32)


def plant(folder: Path, entities: int, seed: int = 0) -> None:
    """Write the run and its calibration."""
    rng = np.random.default_rng(seed)
    clusters = entities // (TYPES * MEMBERS)
    entities = clusters * TYPES * MEMBERS
    shape = (clusters, BLOCKS, FREQS)
    centre = SIZE * gaussian(rng, shape)
    steps = [rotation(rng) for _ in range(TYPES - 1)]
    last = np.repeat(np.eye(BLOCKS, dtype=np.complex128)[:, :, None], FREQS, axis=2)
    for step in steps:
        last = np.einsum("ijf,jkf->ikf", last, step)
    steps.append(last.conj().swapaxes(0, 1))  # which leads back to where the first began
    number = rng.permutation(entities).reshape(TYPES, clusters, MEMBERS)
    table = np.empty((entities, 2 * BLOCKS * FREQS), dtype=np.float32)
    for kind in range(TYPES):
        for member in range(MEMBERS):
            table[number[kind, :, member]] = stored(centre + SPREAD * SIZE * gaussian(rng, shape))
        centre = moved(centre, steps[kind])
    matrices = [step + 0.02 * gaussian(rng, step.shape) for step in steps * 2]
    inverses = [matrix.conj().swapaxes(0, 1) for matrix in matrices]
    facts = []
    for relation, matrix in enumerate(matrices):
        kind = relation % TYPES
        for cluster in range(clusters):
            sources, objects = number[kind, cluster], number[(kind + 1) % TYPES, cluster]
            half = rng.permutation(MEMBERS)[: MEMBERS // 2]
            start = table[sources[half]].astype(np.float64)
            complex_rows = (start[:, : BLOCKS * FREQS] + 1j * start[:, BLOCKS * FREQS :]).reshape(-1, BLOCKS, FREQS)
            score = stored(moved(complex_rows, matrix)) @ table[objects].T
            best = np.argsort(-(score + NOISE * score.std() * rng.normal(size=score.shape)), axis=1)[:, :3]
            object_ = objects[best.ravel()]
            facts.append(np.column_stack([np.repeat(sources[half], 3), np.full(best.size, relation), object_]))
    triples = rng.permutation(np.concatenate(facts).astype(np.int32))
    names = Vocabulary([f"e{i}" for i in range(entities)])
    relations = Vocabulary([f"r{i}" for i in range(RELATIONS)], "relation")
    held = min(20_000, len(triples) // 10)
    split = SplitGraph(names, relations, triples[held:].copy(), valid=triples[:held].copy())
    model = build_model(SETTINGS, entities, RELATIONS, seed)
    model.entity.data.numpy()[:] = table
    model.relation.data.numpy()[:] = stored(np.stack(matrices + inverses))
    folder.mkdir(parents=True, exist_ok=True)
    write_run(folder, model, split.graph("train"))
    save_calibration(fit(Vectors.of(Run.open(folder)), DataSet("planted", split)), folder)


def drawn(engine: Engine, count: int, seed: int) -> dict[str, list[Plan]]:
    """Queries of each type that facts lead through; a relation leads to a quarter, from which the next two lead on."""
    rng, known = np.random.default_rng(seed), engine.known
    plans: dict[str, list[Plan]] = {"1p": [], "2i": [], "2p": []}
    for _ in range(count):
        first = int(rng.integers(RELATIONS))
        second = (first + 1) % TYPES + TYPES * int(rng.integers(2))
        source = int(rng.choice(known.candidates(engine.graph.inverse(first))))
        plans["1p"].append(Plan.of_chain(source, [first]))
        plans["2p"].append(Plan.of_chain(source, [first, second]))
        other = (first + TYPES) % RELATIONS
        shared = np.intersect1d(known.candidates(first), known.candidates(other))
        target = np.array([rng.choice(shared)])
        ends = [int(rng.choice(known.targets(target, engine.graph.inverse(each)))) for each in (first, other)]
        steps = (Start(0), Follow(0, 1), Start(2), Follow(2, 3), Both((1, 3), ()))
        plans["2i"].append(Plan(steps, (ends[0], first, ends[1], other)))
    return plans


def measure(
    engine: Engine, plans: list[Plan], candidates: Candidates
) -> tuple[dict[str, float], list[NDArray[np.intp] | None]]:
    """Milliseconds, and the ten best of each query; the first is asked twice, so that nothing is made for it."""
    wall, cpu = [], []
    best: list[NDArray[np.intp] | None] = []
    for plan in [plans[0], *plans]:
        began, used = perf_counter(), process_time()
        try:
            best.append(predicted(engine, plan, candidates, 10)[1])
        except QueryTooCostly:
            best.append(None)
        wall.append(1000 * (perf_counter() - began))
        cpu.append(1000 * (process_time() - used))
    figures = {
        f"{name}_{clock}": round(float(measured(times[1:])), 1)
        for clock, times in (("ms", wall), ("cpu_ms", cpu))
        for name, measured in (("median", np.median), ("p95", lambda each: np.percentile(each, 95)))
    }
    return figures | {"too_costly": sum(each is None for each in best[1:])}, best[1:]


def recall(exact: list[NDArray[np.intp] | None], found: list[NDArray[np.intp] | None]) -> float:
    """The share of the exact ten best that were found, of all queries that both answer."""
    both = [(a, b) for a, b in zip(exact, found, strict=True) if a is not None and b is not None]
    return sum(len(np.intersect1d(a, b)) for a, b in both) / max(sum(len(a) for a, _ in both), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--kind", default="ivf", choices=["ivf", "hnsw"])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--candidates", default="typed", choices=["typed", "all"])
    parser.add_argument("--exact", action="store_true", help="without an index")
    given = parser.parse_args()
    if not is_run(given.folder):
        plant(given.folder, given.entities)
    run = Run.open(given.folder)
    report: dict[str, object] = {"entities": len(run.entities)}
    kind: ApproximateKind = given.kind
    if not given.exact and not list(given.folder.glob(f"index-{kind}-*")):
        began = perf_counter()
        record = build_index(given.folder, Vectors.of(run), run.graph, kind)
        report |= {"index_build_s": round(perf_counter() - began, 1), "index_recall": record.recall}
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if not given.exact:
        import faiss

        faiss.omp_set_num_threads(1)
    engine = Engine.open(run, calibrated=True)
    approximate, engine.approximate = engine.approximate, None
    for relation in range(2 * RELATIONS):
        engine.hops.columns(relation)
    plans = drawn(engine, given.count, seed=1)
    for name, own in plans.items():
        figures, exact = measure(engine, own, given.candidates)
        report[f"{name}_exact"] = figures
        if approximate is not None and not given.exact:
            engine.approximate = approximate
            figures, found = measure(engine, own, given.candidates)
            report[f"{name}_{kind}"] = figures | {"recall_at_10": round(recall(exact, found), 4)}
            engine.approximate = None
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
