"""What `blockhole audit` finds: plant wrong facts in a graph, train on it, and count them among the least probable.

python -m benchmarks.bench_audit --run FOLDER plants 1,000 facts whose objects are drawn from all entities, trains on
the graph with them, audits it, and prints JSON: the share of the planted facts among the first 500, 1,000 and 2,000 of
the audit, beside that of a list in random order. --objects typed draws objects that the relation has.
The planted facts are in train like all others: the model has learned them too.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import blockhole
from blockhole.evaluation.truth import truth_of
from blockhole.files.writers import write_split
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.machine import peak_bytes
from blockhole.queries.exact import holds
from blockhole.queries.paths import PathQueries
from blockhole.runs.run import is_run


def plant(split: SplitGraph, count: int, objects: str, seed: int) -> NDArray[np.int32]:
    """Facts [count, 3] that are in no split: facts of train with another object each."""
    rng = np.random.default_rng(seed)
    truth = truth_of(split.graph("train", "valid", "test"))
    wrong = split.train[rng.choice(len(split.train), 2 * count, replace=False)].copy()
    for fact in wrong:
        of_type = truth.candidates(int(fact[1]))
        fact[2] = rng.choice(of_type) if objects == "typed" else rng.integers(len(split.entities))
    wrong = wrong[~holds(truth.graph, PathQueries.from_triples(wrong))]
    _, first = np.unique(wrong, axis=0, return_index=True)
    return wrong[np.sort(first)][:count]


def with_planted(split: SplitGraph, planted: NDArray[np.int32], seed: int) -> SplitGraph:
    """The split with facts planted among those of train: their place in the file must not tell."""
    train = np.concatenate([split.train, planted])
    train = train[np.random.default_rng(seed).permutation(len(train))]
    return SplitGraph(split.entities, split.relations, train, split.valid, split.test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--objects", choices=("any", "typed"), default="any")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", default="{}", help="Settings of the training, as JSON.")
    options = parser.parse_args()
    split = blockhole.load(options.data).split
    planted = plant(split, options.count, options.objects, options.seed)
    if not is_run(options.run):
        folder = options.run.with_name(options.run.name + "-data")
        write_split(with_planted(split, planted, options.seed), folder)
        blockhole.train(folder, preset="fast", settings=json.loads(options.settings), out=options.run)
    began = perf_counter()
    suspects = blockhole.audit(options.run, top=2000)
    seconds = perf_counter() - began
    names = {(split.entities[s], split.relations[r], split.entities[o]) for s, r, o in planted.tolist()}
    hits = np.array([(fact.source, fact.relation, fact.target) in names for fact in suspects])
    report = {
        "data": options.data,
        "objects": options.objects,
        "planted": len(planted),
        "facts": len(split.train) + len(planted),
        "seconds": round(seconds, 1),
        "peak_rss_mb": round(peak_bytes() / 2**20),
        "found_among": {str(top): float(hits[:top].sum() / len(planted)) for top in (500, 1000, 2000)},
        "by_chance_among_2000": 2000 / (len(split.train) + len(planted)),
    }
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
