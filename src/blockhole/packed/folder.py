"""A packed graph: facts, adjacency and names as files that are worked on where they lie.

A folder of packed.json (format, counts and SHA-256 sums), entities.parquet and relations.parquet (columns id, name),
train.npy and, where there are such facts, valid.npy, test.npy and their negatives ([T, 3] int32, in file order), and
the four arrays of the train facts' `Adjacency`. Arrays are mapped into memory: pages are read when they are touched,
shared by all processes, and given back when memory is short.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, why
from blockhole.graph.knowledge_graph import Adjacency, SplitGraph
from blockhole.graph.vocabulary import StoredNames, Vocabulary
from blockhole.saving import READ_AT_ONCE, is_intact

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
    """The graph in `folder`, mapped: opening it reads next to nothing, whatever its size.

    Files that are read in a tenth of a second are checked against their sums; `blockhole show --verify` checks all.
    """
    record = _read_record(folder)
    counts = record.counts
    if sum(_size(folder / name) for name in record.sha256) <= READ_AT_ONCE:
        for name, sha256 in record.sha256.items():
            if (folder / name).is_file() and not is_intact(folder / name, sha256):
                raise DataError(
                    f"{folder / name}: is damaged: its bytes are not those that were written; pack the graph again."
                )
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


def read_sums(folder: Path) -> dict[str, str]:
    """The SHA-256 sums of the files of a packed graph; version 0.1 kept none."""
    return _read_record(folder).sha256


class _Record(NamedTuple):
    """What is read of packed.json."""

    counts: dict[str, int]
    sha256: dict[str, str]


def _read_record(folder: Path) -> _Record:
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        version, counts = record["format"], {name: int(record[name]) for name in ("entities", "relations", "facts")}
        sha256 = {str(name): str(value) for name, value in record.get("sha256", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
        raise DataError(f"{folder / RECORD}: is damaged ({why(failure)}); pack the graph again.") from None
    if version != FORMAT:
        raise DataError(f"{folder}: was packed by another version (format {version}); pack the graph again.")
    return _Record(counts, sha256)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _mapped(path: Path) -> NDArray[Any]:
    """An array on disk, as a plain array: the subclass np.memmap makes every look-up slower."""
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError) as failure:
        raise DataError(f"{path}: cannot be read ({failure}); pack the graph again.") from None
