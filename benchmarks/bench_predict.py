"""What `blockhole predict` finds: train on a data set, list its most probable missing facts, and look them up in test.

python -m benchmarks.bench_predict --run FOLDER trains into FOLDER (or uses the run there) and prints JSON: the time and
the memory of the list, and of its first 100 and 1,000 facts that are not validation facts the share that are test
facts, beside their mean probability. Validation facts are left out because probabilities are fitted on them.

With --peers .venv-peers/bin/python PyKEEN's ComplEx of the same width is trained for as much processor time, against
sixteen negatives with its own loss and Adagrad, and its `predict_all` lists the best of all triples; train and
validation facts are left out. Its MRR of the validation facts and the share of train facts among its first say whether
it has learned anything; where it has not, the comparison says nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import blockhole
from blockhole.compiled import available_threads
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.machine import peak_bytes
from blockhole.runs.run import is_run

Names = set[tuple[str, str, str]]


def names_of(split: SplitGraph, facts: NDArray[np.int32]) -> Names:
    """Facts [T, 3] by name."""
    return {(split.entities[s], split.relations[r], split.entities[o]) for s, r, o in facts.tolist()}


def peer(python: Path, run: blockhole.Run, split: SplitGraph, seconds: float, top: int) -> dict[str, Any]:
    """What PyKEEN finds after as many seconds of processor time."""
    with tempfile.TemporaryDirectory() as folder:
        triples, sizes = Path(folder) / "triples.npz", (len(split.entities), len(split.relations))
        np.savez(triples, train=split.train, valid=split.valid, test=split.test, sizes=sizes)
        given = {
            "--triples": triples,
            "--dim": run.model.entity.shape[1] // 2,
            "--train-seconds": seconds,
            "--top": top,
            "--threads": available_threads(),
        }
        script = Path(__file__).parent / "peers" / "predict_pykeen.py"
        done = subprocess.run(
            [str(python), str(script), *(str(each) for pair in given.items() for each in pair)],
            check=True,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "PYSTOW_HOME": folder},
        )
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--top", type=int, default=1000)
    parser.add_argument("--preset", help="Preset of the training (default: what `train` chooses).")
    parser.add_argument("--settings", default="{}", help="Settings of the training, as JSON.")
    parser.add_argument("--peers", type=Path, help="Python of the environment that has PyKEEN.")
    parser.add_argument("--peer-seconds", type=float, help="Its processor time, where the run is there already.")
    options = parser.parse_args()
    spent = options.peer_seconds
    if not is_run(options.run):
        began = process_time()
        blockhole.train(options.data, preset=options.preset, settings=json.loads(options.settings), out=options.run)
        spent = process_time() - began
    elif options.peers is not None and spent is None:
        parser.error("the run is there already: say how much processor time its training took with --peer-seconds")
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
    if options.peers is not None:
        report["train_processor_seconds"] = round(spent, 1)
        report["pykeen"] = peer(options.peers, blockhole.Run.open(options.run), split, spent, options.top)
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
