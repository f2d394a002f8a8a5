"""Kills small trainings with SIGKILL at random moments, again and again: `make kills`; test_kill.py does a few.

Children are forked from a process that has imported everything but used nothing that starts threads, so a life costs
milliseconds. Half of the lives end at a random moment of their first second; the other half within a few batches of
their first checkpoint, so that a run gets on however slow the machine is. A run is killed ten times at most, then
trained to its end, and the next begins: many deaths come before, or in, the first checkpoint.

After each death, and at the end, every command must do its work or say in one sentence why not.
Prints one JSON object: how many lives were ended, how far each had come, what the commands said, and whether all runs
equal one that was never disturbed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars  # noqa: F401 — so that no child has to
import torch

from blockhole.cli.main import main
from blockhole.fitting import train
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.hop_compiled import hop_rows, hop_rows_back
from blockhole.runs.checkpoint import load_checkpoint, read_record
from blockhole.runs.run import Run, is_run
from blockhole.training.kernels.loops import Rule, move_rows
from tests.training.worlds import SMALL

A_RUN = 10
"""Deaths of one run."""

FAULT = "fault: "

SETTINGS = SMALL | {
    "training.on": "base",
    "training.epochs": 20,
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
    before, child = place_of(folder), begin_life(folder)
    while after_a_checkpoint and place_of(folder) == before:
        if os.waitpid(child, os.WNOHANG)[0]:  # nothing was left to train
            return False
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, 0.05 if after_a_checkpoint else 1.0))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def place_of(folder: Path) -> tuple[int, int] | None:
    """Where the last checkpoint is, in epochs and batches; none before the first."""
    if not is_run(folder):
        return None
    state = read_record(folder).training
    return state.epoch, state.batch


def say(folder: Path, command: list[str]) -> str:
    """What came of a command in a child: done, the one sentence it refused with, or all that it printed."""
    log = folder.with_name("said")
    child = os.fork()
    if child == 0:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            main(command)
        except SystemExit as end:
            sys.stderr.flush()
            os._exit(int(end.code or 0))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    said = log.read_text(encoding="utf-8")
    if status == 0:
        return "done"
    sentences = [line for line in said.splitlines() if not line.startswith("warning: ")]
    refused = os.waitstatus_to_exitcode(status) == 1 and len(sentences) == 1 and sentences[0].startswith("error: ")
    return sentences[0].replace(str(folder), "RUN") if refused else f"{FAULT}{' '.join(command)}: {said}"


def try_commands(folder: Path) -> list[str]:
    """What the commands say that look at a run."""
    looks = (["show"], ["show", "--verify"], ["ask", "e1/a/b"], ["ask", "e2/a", "--top", "3"])
    return [say(folder, [command, str(folder), *more]) for command, *more in looks]


def same(folder: Path, straight: Path) -> tuple[bool, bool]:
    """Whether weights, optimizer and best weights are the same bit for bit, and the figures of all epochs."""
    ours, theirs = load_checkpoint(folder), load_checkpoint(straight)
    pairs = ((ours.weights, theirs.weights), (ours.optimizer, theirs.optimizer), (ours.best or {}, theirs.best or {}))
    equal = ours.state.epoch == theirs.state.epoch and all(
        part.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in part.items())
        for part, other in pairs
    )
    figures = [[(line["event"], line["epoch"], line.get("loss"), line.get("mq")) for line in Run.open(run).metrics()]
               for run in (folder, straight)]  # fmt: skip
    return equal, figures[0] == figures[1]


def kill_many(place: Path, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill so many lives, at most ten a run; what came of it."""
    load_loops()
    rng = random.Random(seed)
    straight = place / "straight"
    os.waitpid(begin_life(straight), 0)
    runs: list[dict[str, Any]] = []
    said: Counter[str] = Counter()
    left = kills
    while left:
        folder, progress, killed = place / f"run-{len(runs)}", [], 0
        while killed < min(A_RUN, left) and kill_at_random(folder, rng, after_a_checkpoint=killed % 2 == 1):
            killed += 1
            said.update(try_commands(folder))
            progress.append(place_of(folder) or (-1, -1))
        left -= killed
        os.waitpid(begin_life(folder), 0)
        said.update(try_commands(folder))
        left_over = len(list(folder.glob("*.next")))
        runs.append({"folder": folder.name, "killed": killed, "progress": progress, "left_over": left_over})
    for run in runs:  # only now: reading names starts threads, and what is forked after that may wait for them
        run["same_weights"], run["same_metrics"] = same(place / run["folder"], straight)
    early = sum(moment == (-1, -1) for run in runs for moment in run["progress"])
    return {"killed": sum(run["killed"] for run in runs), "before_a_checkpoint": early, "commands": dict(said),
            "runs": runs}  # fmt: skip


def is_faultless(report: dict[str, Any], kills: int) -> bool:
    """Whether every life was ended, every command did its work or said why not, and every run ended the same."""
    spoken = not any(said.startswith(FAULT) for said in report["commands"])
    whole = all(run["same_weights"] and run["same_metrics"] and not run["left_over"] for run in report["runs"])
    return report["killed"] == kills and spoken and whole


if __name__ == "__main__":
    kills = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        report = kill_many(Path(folder), kills, *map(int, sys.argv[2:3]))
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    sys.exit(not is_faultless(report, kills))
