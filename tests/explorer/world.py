"""A graph whose names are as awkward as names can be, and the runs that the explorer is driven on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from blockhole.fitting import train
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.answering.toys import make_model, write_clockwork
from tests.serving.random_run import write_untrained

SCRIPT = "<script>document.title='owned'</script>"
IMAGE = "<img src=x onerror=\"document.title='owned'\">"
LONG = "a_name_that_goes_on_and_on_without_a_single_space_" * 60
"""Three thousand characters, as of a description that went into the wrong column."""
HUB = 'the/hub of "all" \\ things'
"""An entity with many neighbours, whose name needs every kind of quoting."""
ARABIC = "الملكة رانيا"
"""A name that is read from right to left."""
BOLD = "is <b>like</b>"
SPOKES = 130
BY_FACTS = '"number 6"/next/double'
"""Facts lead to number 14, whatever a model makes of it."""


NAMES = ("blockhole", "complex", "bare")


def make_runs(folder: Path) -> None:
    """The folders of three runs over one graph, in `folder`: blockhole, complex, and bare, which has no calibration."""
    data = write_clockwork(folder / "data")
    facts = [
        ("number 1", BOLD, SCRIPT),
        (SCRIPT, BOLD, IMAGE),
        (IMAGE, "next", "number 2"),
        (LONG, "next", "number 3"),
        (ARABIC, "next", "number 4"),
        *((HUB, "holds", f"spoke {i:03d}") for i in range(SPOKES)),
    ]
    with (data / "train.tsv").open("a", encoding="utf-8") as file:
        file.writelines("\t".join(fact) + "\n" for fact in facts)
    _train(data, folder / "blockhole", "blockhole", {"model.blocks": 2, "model.block_size": 8})
    _train(data, folder / "complex", "complex", {"model.dim": 16})
    shutil.copytree(folder / "blockhole", folder / "bare")
    (folder / "bare" / "calibration.json").unlink()


def write_star(folder: Path, spokes: int) -> Path:
    """A run over one entity that holds so many others; its weights are random, as nobody asks for predictions."""
    names = ["hub", *(f"spoke {i}" for i in range(spokes))]
    triples = np.zeros((spokes, 3), dtype=np.int32)
    triples[:, 2] = np.arange(1, spokes + 1)
    graph = KnowledgeGraph(Vocabulary(names, "entity"), Vocabulary(["holds"], "relation"), triples)
    write_untrained(folder, "blockhole", make_model("blockhole", spokes + 1, 1, 0), graph)
    return folder


def _train(data: Path, out: Path, model: str, size: dict[str, int]) -> None:
    train(
        str(data),
        model=model,
        preset="fast",
        settings={
            **size,
            "training.epochs": 10,
            "training.batch_size": 128,
            "training.threads": 1,
            "loss.kind": "softmax",
            "penalty.dura": 0.002,
        },
        out=out,
    )
