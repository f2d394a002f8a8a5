"""A packed graph: facts, adjacency and names as files that are worked on where they lie.

A folder of packed.json (format, counts and SHA-256 sums), entities.parquet and relations.parquet (columns id, name),
train.npy and, where there are such facts, valid.npy, test.npy and their negatives ([T, 3] int32, in file order), and
the four arrays of the train facts' `Adjacency`. Arrays are mapped into memory: pages are read when they are touched,
shared by all processes, and given back when memory is short.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError, why
from blockhole.graph.knowledge_graph import Adjacency, SplitGraph
from blockhole.graph.vocabulary import StoredNames, Vocabulary
from blockhole.saving import READ_AT_ONCE, is_intact, read_sealed

RECORD: Final = "packed.json"
FORMAT: Final = 1
ENTITIES: Final = "entities.parquet"
RELATIONS: Final = "relations.parquet"
FACTS: Final = ("train", "valid", "test", "valid_negatives", "test_negatives")
ADJACENCY: Final[dict[str, type[np.generic]]] = {
    "group_start": np.int64,
    "group_relation": np.int32,
    "edge_start": np.int64,
    "target": np.int32,
}

_PIECE = 1 << 20
"""Numbers compared at a time: all of them may be more than memory holds."""


def is_packed(folder: Path) -> bool:
    """Whether `folder` holds a packed graph."""
    return (folder / RECORD).is_file()


def read_packed(folder: Path, *, thoroughly: bool = False) -> SplitGraph:
    """The graph in `folder`, mapped: opening it reads next to nothing, whatever its size.

    Files that are read in a tenth of a second are checked against their sums, and their ids against the counts, since
    compiled code follows ids unchecked. Of larger ones `blockhole show --verify` checks the same, ids `thoroughly`.
    """
    record = _read_record(folder)
    counts = record.counts
    small = sum(path.stat().st_size for path in folder.iterdir()) <= READ_AT_ONCE
    if small:
        for path in folder.iterdir():
            if not is_intact(path, record.sha256.get(path.name)):
                raise DataError(f"{path}: is damaged: its bytes are not those that were written; pack the graph again.")
    adjacency = Adjacency(*(_mapped(folder / f"{name}.npy", kind) for name, kind in ADJACENCY.items()))
    facts = {name: _mapped(folder / f"{name}.npy", np.int32) for name in FACTS if (folder / f"{name}.npy").is_file()}
    if "train" not in facts:
        raise DataError(f"{folder}: train.npy is missing; pack the graph again.")
    if not _fits(counts, facts, adjacency) or (
        (small or thoroughly) and not _leads_nowhere_else(counts, facts, adjacency)
    ):
        raise DataError(f"{folder}: the arrays do not fit {RECORD}; pack the graph again.")
    return SplitGraph(
        Vocabulary(StoredNames(folder / ENTITIES, counts["entities"])),
        Vocabulary(StoredNames(folder / RELATIONS, counts["relations"]), "relation"),
        **facts,
        train_adjacency=adjacency,
    )


def _fits(counts: dict[str, int], facts: dict[str, NDArray[Any]], adjacency: Adjacency) -> bool:
    """Whether shapes and ends are those of the counts: all that can be told without reading the arrays."""
    starts, edges = adjacency.group_start, adjacency.edge_start
    return (
        all(each.ndim == 2 and each.shape[1] == 3 for each in facts.values())
        and len(facts["train"]) == counts["facts"]
        and starts.shape == (counts["entities"] + 1,)
        and edges.shape == (len(adjacency.group_relation) + 1,)
        and (starts[0], starts[-1]) == (0, len(adjacency.group_relation))
        and (edges[0], edges[-1]) == (0, len(adjacency.target))
    )


def _leads_nowhere_else(counts: dict[str, int], facts: dict[str, NDArray[Any]], adjacency: Adjacency) -> bool:
    """Whether every id is one of an entity or a relation, and every range one of the array that it cuts."""
    E, R = counts["entities"], counts["relations"]
    columns = [(each[:, column], (E, R, E)[column]) for each in facts.values() for column in range(3)]
    below = [*columns, (adjacency.target, E), (adjacency.group_relation, 2 * R)]
    return all(not len(ids) or (ids.min() >= 0 and ids.max() < count) for ids, count in below) and all(
        _ascends(starts) for starts in (adjacency.group_start, adjacency.edge_start)
    )


def _ascends(starts: NDArray[np.int64]) -> bool:
    pieces = (starts[first : first + _PIECE + 1] for first in range(0, len(starts), _PIECE))
    return all(bool((piece[1:] >= piece[:-1]).all()) for piece in pieces)


def read_sums(folder: Path) -> dict[str, str]:
    """The SHA-256 sums of the files of a packed graph; version 0.1 kept none."""
    return _read_record(folder).sha256


class _Record(NamedTuple):
    """What is read of packed.json."""

    counts: dict[str, int]
    sha256: dict[str, str]


def _read_record(folder: Path) -> _Record:
    try:
        record = read_sealed(folder / RECORD)
        version, counts = record["format"], {name: int(record[name]) for name in ("entities", "relations", "facts")}
        sha256 = {str(name): str(value) for name, value in record.get("sha256", {}).items()}
        if min(counts.values()) < 0:
            raise ValueError("a count is below zero")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as failure:
        raise DataError(f"{folder / RECORD}: is damaged ({why(failure)}); pack the graph again.") from None
    if version != FORMAT:
        raise DataError(f"{folder}: was packed by another version (format {version}); pack the graph again.")
    return _Record(counts, sha256)


_LONGEST_HEADER = 512
"""Bytes; ours have 118. NumPy takes damaged ones apart by Python's tokenizer, ten thousand bytes in fifteen seconds."""


def _mapped(path: Path, kind: type[np.generic]) -> NDArray[Any]:
    """An array on disk, as a plain array: the subclass np.memmap makes every look-up slower."""
    try:
        array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False, max_header_size=_LONGEST_HEADER))
    except (
        Exception
    ) as failure:  # NumPy reads a header as Python does: a damaged one fails in as many ways as there are
        reason = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        raise DataError(f"{path}: cannot be read ({reason[:200]}); pack the graph again.") from None
    if array.dtype != kind:
        raise DataError(f"{path}: holds {array.dtype}, not {kind.__name__}; pack the graph again.")
    return array
