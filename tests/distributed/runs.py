"""Small runs for the tests with real processes, and what they must come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import SplitGraph, build_adjacency
from blockhole.runs.checkpoint import load_checkpoint
from blockhole.runs.tracking import read_metrics
from tests.sweep import WHOLE
from tests.training.worlds import SMALL, random_split

SETTINGS = SMALL | {
    "training.on": "base",
    "training.epochs": 4,
    "training.batch_size": 32,
    "training.checkpoint_seconds": 0,
    "loss.kind": "sampled_softmax",
    "loss.negatives": 8,
    "early_stop.metric": "mq",
    "early_stop.patience": 1000,
}
PATIENT = SETTINGS | {"training.checkpoint_seconds": 60}
"""The same with a checkpoint at the end alone: those of shards take longer than the training of so small a graph."""
AVERAGED = PATIENT | {"training.average_epochs": 3}
PACKED = {key: value for key, value in SETTINGS.items() if not key.startswith("early_stop.")} | {
    "training.epochs": 2,
    "training.batch_size": 32 if WHOLE else 256,  # walks are twenty times as many as facts
    "training.on": "paths",
    "training.walks": "fresh",
}


def data() -> SplitGraph:
    return random_split(entities=30, facts=150)


def packed() -> SplitGraph:
    """The same as a packed graph: batches are made as they are needed."""
    split = data()
    adjacency = build_adjacency(split.train, len(split.entities), len(split.relations))
    return SplitGraph(split.entities, split.relations, train=split.train, train_adjacency=adjacency)


def write_facts(folder: Path) -> Path:
    """The same graph as files."""
    split = data()
    folder.mkdir()
    for part, triples in (("train", split.train), ("valid", split.valid)):
        lines = (f"e{source}\tr{relation}\te{target}" for source, relation, target in triples)
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def tensors(folder: Path) -> dict[str, NDArray[Any]]:
    """Weights, best weights and optimizer of a run, by name."""
    checkpoint = load_checkpoint(folder)
    assert checkpoint.best is not None
    sections = {"weights": checkpoint.weights, "best": checkpoint.best, "optimizer": checkpoint.optimizer}
    return {f"{part}.{name}": value.numpy() for part, values in sections.items() for name, value in values.items()}


def figures(folder: Path) -> list[dict[str, Any]]:
    """The run's metrics, without the time they took."""
    return [
        {key: value for key, value in line.items() if key != "seconds"}
        for line in read_metrics(folder / "metrics.jsonl")
    ]


def assert_equal(one: Path, other: Path, *, tolerance: float = 0.0) -> None:
    """Two runs came to the same end, bit for bit or nearly."""
    expected, got = tensors(one), tensors(other)
    assert expected.keys() == got.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=tolerance, err_msg=name)
    if not tolerance:
        assert figures(one) == figures(other)
