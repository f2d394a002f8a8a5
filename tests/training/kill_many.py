"""Trains a tiny run and kills it with SIGKILL at random moments, again and again; a script of test_kill.py.

Children are forked from a process that has imported everything but used nothing that starts threads, so a life costs
milliseconds. Half of the lives end at a random moment from their beginning on; the other half within a few batches of
their first checkpoint, so that the run gets on however slow the machine is.
Prints one JSON object: how many lives were ended, how far each had come, and whether the final run equals one that
was never disturbed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars  # noqa: F401 — so that no child has to
import torch

from blockhole.fitting import train
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.hop_compiled import hop_rows, hop_rows_back
from blockhole.runs.checkpoint import load_checkpoint
from blockhole.runs.run import Run, is_run
from blockhole.training.kernels.loops import Rule, move_rows

SETTINGS: dict[str, Any] = {
    "model.blocks": 2,
    "model.block_size": 3,
    "training.on": "base",
    "training.threads": 1,
    "training.device": "cpu",
    "training.epochs": 60,
    "training.batch_size": 16,
    "training.checkpoint_seconds": 0,
    "loss.kind": "sampled_softmax",
    "loss.negatives": 8,
    "early_stop.metric": "mq",
    "early_stop.every": 3,
    "early_stop.patience": 1000,
}


def data() -> SplitGraph:
    rng = np.random.default_rng(0)
    triples = rng.integers((30, 3, 30), size=(120, 3)).astype(np.int32)
    entities, relations = Vocabulary([f"e{i}" for i in range(30)]), Vocabulary(["a", "b", "c"], "relation")
    return SplitGraph(entities, relations, train=triples[20:], valid=triples[:20])


def load_loops() -> None:
    """Compile the loops of a step, or read them from the disk, so that no child has to."""
    row, table, ids = np.ones((1, 12), np.float32), np.ones((1, 24), np.float32), np.zeros(1, np.int64)
    hop_rows(row, table, ids, row.copy(), 2, 2, 3)
    hop_rows_back(row, table, ids, row, row.copy(), table.copy(), 2, 2, 3)
    move_rows(row, row.copy(), row.copy(), ids, Rule(np.float32(0.1), np.float32(0.1), np.float32(0)))


def begin_life(folder: Path) -> int:
    """Fork a child that trains into `folder`, resuming what is there; its process id."""
    child = os.fork()
    if child == 0:
        train(data(), settings=SETTINGS, out=folder, resume=True)
        os._exit(0)
    return child


def kill_at_random(folder: Path, rng: random.Random, *, after_a_checkpoint: bool) -> bool:
    """Start a life and end it at a random moment; whether it was still under way."""
    before, child = written(folder), begin_life(folder)
    while after_a_checkpoint and written(folder) == before:
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, 0.05 if after_a_checkpoint else 0.3))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def written(folder: Path) -> float:
    """When the last checkpoint was written; 0 before the first."""
    state = folder / "state.json"
    return state.stat().st_mtime if state.exists() else 0.0


def main(place: Path, kills: int) -> None:
    load_loops()
    rng = random.Random(0)
    disturbed, progress, killed = place / "disturbed", [], 0
    for life in range(kills):
        killed += kill_at_random(disturbed, rng, after_a_checkpoint=life % 2 == 1)
        if is_run(disturbed):
            state = load_checkpoint(disturbed).state
            progress.append((state.epoch, state.batch))
    os.waitpid(begin_life(disturbed), 0)
    os.waitpid(begin_life(place / "straight"), 0)
    ours, theirs = load_checkpoint(disturbed), load_checkpoint(place / "straight")
    pairs = ((ours.weights, theirs.weights), (ours.optimizer, theirs.optimizer), (ours.best or {}, theirs.best or {}))
    same = all(torch.equal(value, other[name]) for part, other in pairs for name, value in part.items())
    figures = [[(line["event"], line["epoch"], line.get("loss"), line.get("mq")) for line in Run.open(folder).metrics()]
               for folder in (disturbed, place / "straight")]  # fmt: skip
    report = {"killed": killed, "progress": progress, "epochs": ours.state.epoch, "same": same,
              "same_metrics": figures[0] == figures[1], "left_over": len(list(disturbed.glob("*.next")))}  # fmt: skip
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
