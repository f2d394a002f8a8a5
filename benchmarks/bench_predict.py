"""What `blockhole predict` finds: train on a data set, list its most probable missing facts, and look them up in test.

python -m benchmarks.bench_predict --run FOLDER trains into FOLDER (or uses the run there) and prints JSON: the time and
the memory of the list, and of its first 100 and 1,000 facts that are not validation facts the share that are test
facts, beside their mean probability. Validation facts are left out because probabilities are fitted on them.
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
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.machine import peak_bytes
from blockhole.runs.run import is_run

Names = set[tuple[str, str, str]]


def names_of(split: SplitGraph, facts: NDArray[np.int32]) -> Names:
    """Facts [T, 3] by name."""
    return {(split.entities[s], split.relations[r], split.entities[o]) for s, r, o in facts.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--top", type=int, default=1000)
    parser.add_argument("--settings", default="{}", help="Settings of the training, as JSON.")
    options = parser.parse_args()
    if not is_run(options.run):
        blockhole.train(options.data, preset="fast", settings=json.loads(options.settings), out=options.run)
    split = blockhole.load(options.data).split
    valid, test = names_of(split, split.valid), names_of(split, split.test)
    began = perf_counter()
    listed = blockhole.predict(options.run, top=4 * options.top, known="train")
    seconds = perf_counter() - began
    rest = [fact for fact in listed if (fact.source, fact.relation, fact.target) not in valid]
    found = np.array([(fact.source, fact.relation, fact.target) in test for fact in rest])
    said = np.array([fact.score for fact in rest])
    report = {
        "data": options.data,
        "seconds": round(seconds, 1),
        "peak_rss_mb": round(peak_bytes() / 2**20),
        "precision_at": {str(top): float(found[:top].mean()) for top in (100, options.top)},
        "mean_probability_at": {str(top): float(said[:top].mean()) for top in (100, options.top)},
    }
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
