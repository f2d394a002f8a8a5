"""How fast queries of every type are answered: the ten best predicted answers of a run, engine open.

    python -m benchmarks.bench_queries RUN --queries query2box [--data nell] [--count 40] [--candidates typed]

prints one JSON object: median and 95th percentile of wall time by type, in milliseconds on one core, and how many of
three queries had other answers once everything was opened, which must be none. With --device cuda it prints queries a
second, `--count` of them asked together. The queries are those of a data set with query sets; `--data` names it where
the run does not.
"""

from __future__ import annotations

import argparse
import json
import os
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.answering.calibrating import data_of
from blockhole.answering.device import DeviceSweep
from blockhole.answering.engine import Engine
from blockhole.answering.search import UNLIMITED, Candidates, Search, Wanted, nth_largest
from blockhole.data.dataset import load
from blockhole.errors import QueryTooCostly
from blockhole.queries.plans import Plan
from blockhole.queries.query_sets import QuerySet, steps_of_type
from blockhole.runs.run import Run

CHECKED = 3


def predicted(
    engine: Engine, plan: Plan, candidates: Candidates, settled: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """The values of the ten best predicted answers, and which they are, by a search that settles so many."""
    among = np.ones(engine.graph.num_entities, dtype=bool)
    known = engine.known.plan_answers(plan)
    among[known] = False
    low = Search(engine, plan, candidates, UNLIMITED).settle(Wanted(among, settled, known[:0])).low
    places = np.flatnonzero(among & (low >= max(nth_largest(low[among], 10), np.finfo(np.float64).tiny)))
    best = places[np.argsort(-low[places], kind="stable")[:10]]
    return low[best], best


def measure(engine: Engine, plans: list[Plan], candidates: Candidates) -> dict[str, float]:
    """Milliseconds of one type's queries; the first is asked twice, so that nothing is made for the first time."""
    seconds, costly, unequal = [], 0, 0
    for place, plan in enumerate([plans[0], *plans]):
        start = perf_counter()
        try:
            best, _ = predicted(engine, plan, candidates, 10)
        except QueryTooCostly:
            costly += 1
            continue
        seconds.append(1000 * (perf_counter() - start))
        if 0 < place <= CHECKED:
            try:
                unequal += not np.array_equal(best, predicted(engine, plan, candidates, len(engine.graph.entities))[0])
            except QueryTooCostly:
                continue
    return {
        "median_ms": float(np.median(seconds[1:])),
        "p95_ms": float(np.percentile(seconds[1:], 95)),
        "queries": len(seconds) - 1,
        "too_costly": costly,
        "unequal": unequal,
    }


def rate(engine: Engine, queries: QuerySet, candidates: Candidates, device: torch.device) -> dict[str, float]:
    """Queries a second of each type that a device answers together, known answers included; a few are asked before."""
    sweep, found = DeviceSweep(engine, device, candidates), {}
    for type_, ids in queries.ids.items():
        steps = steps_of_type(type_)
        list(sweep.settled(steps, ids[:64], 10))
        start = perf_counter()
        asked = sum(1 for _ in sweep.settled(steps, ids, 10))  # answers are on the host: nothing is under way
        found[type_] = asked / (perf_counter() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--data")
    parser.add_argument("--queries", required=True)
    parser.add_argument("--split", default="test", choices=["valid", "test"])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--candidates", default="typed", choices=["typed", "all"])
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    run = Run.open(given.run)
    data = data_of(run) if given.data is None else load(given.data)
    engine = Engine.open(run, graph=data.split.graph("train"), calibrated=True)
    queries = data.queries(given.queries, given.split).take(given.count)
    for relation in range(2 * len(data.split.relations)):
        engine.hops.normalisers.of(relation)
    if device.type == "cpu":
        found: object = {name: measure(engine, queries.plans(name), given.candidates) for name in queries.ids}
    else:
        found = rate(engine, queries, given.candidates, device)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
