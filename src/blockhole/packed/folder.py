"""A packed graph: facts, adjacency and names as files that are worked on where they lie.

A folder of packed.json (format and counts), entities.parquet and relations.parquet (columns id, name), train.npy and,
where there are such facts, valid.npy, test.npy and their negatives ([T, 3] int32, in file order), and the four arrays
of the train facts' `Adjacency`. Arrays are mapped into memory: pages are read when they are touched, shared by all
processes, and given back when memory is short.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError
from blockhole.graph.knowledge_graph import Adjacency, SplitGraph
from blockhole.graph.vocabulary import StoredNames, Vocabulary

RECORD: Final = "packed.json"
FORMAT: Final = 1
ENTITIES: Final = "entities.parquet"
RELATIONS: Final = "relations.parquet"
FACTS: Final = ("train", "valid", "test", "valid_negatives", "test_negatives")
ADJACENCY: Final = ("group_start", "group_relation", "edge_start", "target")


def is_packed(folder: Path) -> bool:
    """Whether `folder` holds a packed graph."""
    return (folder / RECORD).is_file()


def read_packed(folder: Path) -> SplitGraph:
    """The graph in `folder`, mapped: opening it reads next to nothing, whatever its size."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        version, counts = record["format"], {name: int(record[name]) for name in ("entities", "relations", "facts")}
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise DataError(f"{folder / RECORD}: is damaged ({failure}); pack the graph again.") from None
    if version != FORMAT:
        raise DataError(f"{folder}: was packed by another version (format {version}); pack the graph again.")
    adjacency = Adjacency(*(_mapped(folder / f"{name}.npy") for name in ADJACENCY))
    facts = {name: _mapped(folder / f"{name}.npy") for name in FACTS if (folder / f"{name}.npy").is_file()}
    if "train" not in facts:
        raise DataError(f"{folder}: train.npy is missing; pack the graph again.")
    shape = (counts["facts"], 3), (counts["entities"] + 1,)
    whole = len(adjacency.edge_start) and adjacency.edge_start[-1] == len(adjacency.target)
    if (facts["train"].shape, adjacency.group_start.shape) != shape or not whole:
        raise DataError(f"{folder}: the arrays do not fit {RECORD}; pack the graph again.")
    return SplitGraph(
        Vocabulary(StoredNames(folder / ENTITIES, counts["entities"])),
        Vocabulary(StoredNames(folder / RELATIONS, counts["relations"]), "relation"),
        **facts,
        train_adjacency=adjacency,
    )


def _mapped(path: Path) -> NDArray[Any]:
    """An array on disk, as a plain array: the subclass np.memmap makes every look-up slower."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError) as failure:
        raise DataError(f"{path}: cannot be read ({failure}); pack the graph again.") from None
