"""The memory that a run is said to take, and what it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from blockhole.data.packing import pack
from blockhole.files.writers import write_graph
from blockhole.fitting import plan_memory
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.runs.config import TrainConfig, gather, validate
from blockhole.training.memory_needed import COPIES, GPU_PROGRAM, PROGRAM, memory_needed
from tests.sweep import WHOLE

E, R, T = 1000, 7, 5000
TRIPLES = np.random.default_rng(0).integers([E, R, E], size=(T, 3)).astype(np.int32)
SPLIT = SplitGraph(Vocabulary(map(str, range(E))), Vocabulary(map(str, range(R)), "relation"), TRIPLES)


def _config(**settings: object) -> TrainConfig:
    sized = {"model.blocks": 2, "model.block_size": 8}
    return validate(gather(overrides=sized | {key.replace("__", "."): value for key, value in settings.items()}))


@pytest.mark.parametrize(("optimizer", "state"), [("adagrad", 1), ("adam", 2)])
def test_the_parts_are_those_of_the_formula(optimizer: str, state: int) -> None:
    needed = memory_needed(_config(optimizer__kind=optimizer, training__on="base"), SPLIT, None, saved=True)
    tables = 4 * (E * 2 * 16 + 2 * R * 2 * 32)
    assert needed.parts == {
        "program": PROGRAM,
        "tables": tables,
        "optimizer": state * tables,
        "ids": 17 * E,
        "averages": 0,
        "positives": 2 * T * (8 * 4 + 26),
        "graph": 24 * T + 200 * E,
        "saving": 2 * state * tables,
    }
    assert (needed.held, needed.mapped) == (sum(needed.parts.values()), 0)


def test_settings_change_what_they_cost() -> None:
    base = _config(optimizer__kind="rowwise_adagrad", training__on="base", training__reverse="none")
    needed = memory_needed(base, SPLIT, None, saved=False)
    assert needed.parts["optimizer"] == 4 * (E + 2 * R)
    assert needed.parts["saving"] == 0
    assert needed.parts["positives"] == T * (8 * 4 + 26)
    paths = _config(training__reverse="none", training__average_epochs=3)
    assert memory_needed(paths, SPLIT, 9000, saved=False).parts["positives"] == 9000 * (8 * 8 + 26)
    corrupted = _config(training__reverse="none", loss__kind="logistic", loss__corrupted_paths=2, loss__corrupt="once")
    more = 2 * 9000 * (4 * 5 + 1) + 2 * 9000 // 4 * 40 * 5
    assert memory_needed(corrupted, SPLIT, 9000, saved=False).parts["positives"] == 9000 * (8 * 8 + 26) + more
    added = _config(training__reverse="none", training__walks="added")
    assert memory_needed(added, SPLIT, 9000, saved=False).parts["positives"] == (9000 + 20 * T) * (8 * 8 + 26)
    walks = memory_needed(paths, SPLIT, None, saved=False).parts
    assert walks["positives"] == 21 * T * (8 * 8 + 26)
    assert walks["averages"] == 4 * walks["tables"]


@pytest.mark.parametrize(
    ("loss", "rows", "logits"),
    [("softmax", E, 100 * E), ("sampled_softmax", 2 * 100 + 9, 0), ("logistic", 100 * (2 + 9), 0)],
)
def test_a_gpu_holds_what_is_trained_and_the_rows_of_a_batch(loss: str, rows: int, logits: int) -> None:
    settings = {"training.on": "base", "training.batch_size": 100, "loss.kind": loss, "loss.negatives": 9}
    needed = memory_needed(_config(**settings), SPLIT, None, saved=True)
    trained = sum(needed.parts[part] for part in ("tables", "optimizer", "ids", "averages", "positives"))
    assert needed.gpu == GPU_PROGRAM + trained + COPIES * 4 * 32 * rows + 6 * logits


@pytest.mark.slow
def test_a_run_keeps_to_it(tmp_path: Path) -> None:
    entities, facts = 300_000, 200_000 if WHOLE else 50_000
    triples = np.random.default_rng(0).integers([entities, 20, entities], size=(facts, 3)).astype(np.int32)
    names = Vocabulary(map(str, range(entities))), Vocabulary(map(str, range(20)), "relation")
    write_graph(KnowledgeGraph(*names, triples), tmp_path / "facts.parquet")
    pack(tmp_path / "facts.parquet", tmp_path / "packed")
    settings = {
        "training.on": "base",
        "training.epochs": 1,
        "training.batch_size": 4096,
        "training.threads": 1,
        "training.reverse": "none",
        "loss.kind": "logistic" if WHOLE else "sampled_softmax",  # a fused step is compiled for many seconds
        "loss.negatives": 2,
        "optimizer.kind": "rowwise_adagrad",
        "model.blocks": 2,
        "model.block_size": 64,
        "penalty.dura": 0.0,
    }
    needed = plan_memory(tmp_path / "packed", settings=settings)
    assert needed.parts["positives"] == 0
    assert needed.mapped == 12 * facts
    assigned = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    program = "import sys; from blockhole.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "train", "--data", str(tmp_path / "packed"), "--json"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run"), *assigned], capture_output=True, text=True, check=True
    )
    peak = json.loads(done.stdout)["peak_rss_mb"] * 2**20
    assert needed.parts["tables"] + needed.parts["saving"] < peak < needed.held + needed.mapped
