"""The adjacency of facts that do not fit into memory, and the arrays on disk it is made with.

Entities are cut into ranges whose edges do fit. For each range the facts are read once more and the edges that leave it
are kept, sorted, and appended to the files: a few passes over a file instead of a sort outside of memory, since ids are
dense and tell where an edge belongs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from blockhole.errors import DataError
from blockhole.machine import resident_bytes

_PIECE = 1 << 20
"""Facts, or sorted edges, that are worked on at a time."""
_WORK = 200_000_000
"""Bytes that the pieces take while they are worked on, with room to spare."""
_KEY = 9
"""Bytes an edge takes while its range is sorted: its key, and some of what sorting takes."""
_BINS = 1 << 20
"""Bins in which edges are counted to find the ranges, at most."""


def write_adjacency(facts: Path, folder: Path, num_entities: int, num_relations: int, memory: int) -> int:
    """Write the four arrays of the `Adjacency` of the facts [T, 3] in a .npy file; the number of distinct edges.

    The process stays within `memory` bytes.
    """
    with ExitStack() as stack:

        def grown(name: str, dtype: type[np.generic]) -> GrowingArray:
            return stack.enter_context(GrowingArray(folder / f"{name}.npy", dtype))

        files = _Files(
            group_start=grown("group_start", np.int64),
            group_relation=grown("group_relation", np.int32),
            edge_start=grown("edge_start", np.int64),
            target=grown("target", np.int32),
        )
        for first, last, count in _ranges(facts, num_entities, num_relations, memory):
            # No name for the keys here: it would hold those of one range while the next are made.
            _append(
                files,
                _sorted_keys(facts, first, last, count, num_entities, num_relations),
                last - first,
                num_entities,
                num_relations,
            )
        files.group_start.append(np.array([files.group_relation.length]))
        files.edge_start.append(np.array([files.target.length]))
        return files.target.length


def adjacency_bytes(num_facts: int, num_entities: int) -> int:
    """Bytes the four arrays take at most: a target an edge, and a relation and a start for each group of edges."""
    return 2 * num_facts * (4 + 4 + 8) + 8 * (num_entities + 2)


class _Files(NamedTuple):
    """The arrays of an `Adjacency` under way."""

    group_start: GrowingArray
    group_relation: GrowingArray
    edge_start: GrowingArray
    target: GrowingArray


def _append(files: _Files, keys: NDArray[np.int64], sources: int, num_entities: int, num_relations: int) -> None:
    """Add the edges of a range of `sources` entities, given by sorted distinct keys."""
    groups_before, groups = files.group_relation.length, np.zeros(sources, dtype=np.int64)
    for begin in range(0, len(keys), _PIECE):
        pair, target = np.divmod(keys[begin : begin + _PIECE], num_entities)
        before = keys[begin - 1] // num_entities if begin else pair[0] - 1
        new = np.flatnonzero(np.diff(pair, prepend=before))
        source, relation = np.divmod(pair[new], 2 * num_relations)
        if len(source):  # a piece may lie within one group
            counts = np.bincount(source - source[0])
            groups[source[0] : source[0] + len(counts)] += counts
        files.group_relation.append(relation)
        files.edge_start.append(files.target.length + new)
        files.target.append(target)
    files.group_start.append(groups_before + np.cumsum(groups) - groups)


def _ranges(facts: Path, num_entities: int, num_relations: int, memory: int) -> Iterator[tuple[int, int, int]]:
    """Consecutive ranges of entities, first to last - 1, and how many edges leave each: as many as fit into memory."""
    width = -(-num_entities // _BINS)
    # A key holds the place of the source in its range, the relation and the target in 63 bits.
    longest = (2**63 - 1) // (2 * num_relations * num_entities) // width
    counts = np.zeros(-(-num_entities // width), dtype=np.int64)
    for triples in pieces(facts, _PIECE):
        counts += np.bincount(triples[:, 0::2].ravel() // width, minlength=len(counts))
    # Only now: what reading the facts took has gone back to the system meanwhile.
    room = (memory - resident_bytes() - _WORK) // _KEY
    if counts.max() > room:
        least = memory + (int(counts.max()) - room) * _KEY
        raise DataError(
            f"{memory / 1e9:.2f} GB of memory is too little for the edges of one entity; "
            f"allow {least / 1e9 + 0.05:.1f} GB with --memory."
        )
    begin, held = 0, 0
    for place, count in enumerate(counts.tolist()):
        if held + count > room or place - begin >= longest:
            yield begin * width, place * width, held
            begin, held = place, 0
        held += count
    yield begin * width, num_entities, held


def _sorted_keys(
    facts: Path, first: int, last: int, count: int, num_entities: int, num_relations: int
) -> NDArray[np.int64]:
    """((source - first)·2R + relation)·E + target of the distinct edges whose source is in the range, ascending."""
    keys = np.empty(count, dtype=np.int64)
    filled = 0
    for triples in pieces(facts, _PIECE):
        for source, relation, target, shift in (
            (triples[:, 0], triples[:, 1], triples[:, 2], 0),
            (triples[:, 2], triples[:, 1], triples[:, 0], num_relations),
        ):
            chosen = np.flatnonzero((source >= first) & (source < last))
            part = keys[filled : filled + len(chosen)]
            np.subtract(source[chosen], first, out=part, dtype=np.int64)
            part *= 2 * num_relations
            part += relation[chosen]
            part += shift
            part *= num_entities
            part += target[chosen]
            filled += len(chosen)
    keys.sort()
    return keys[: _drop_repeated(keys)]


def _drop_repeated(keys: NDArray[np.int64]) -> int:
    """Move the distinct ones of sorted keys to the front, piece by piece; how many they are."""
    kept = 0
    for begin in range(0, len(keys), _PIECE):
        piece = keys[begin : begin + _PIECE].copy()
        before = keys[kept - 1] if kept else piece[0] - 1
        distinct = piece[np.diff(piece, prepend=before) != 0]
        keys[kept : kept + len(distinct)] = distinct
        kept += len(distinct)
    return kept


# NumPy files that grow and are read piece by piece: arrays larger than memory, without mapping them.


@final
class GrowingArray:
    """A .npy file of rows of one shape, written by appending; it is valid once closed. `length` counts the rows."""

    def __init__(self, path: Path, dtype: type[np.generic], row: tuple[int, ...] = ()) -> None:
        self._dtype = np.dtype(dtype)
        self._row = row
        self._file = path.open("wb")
        self.length = 0
        self._write_header()

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        rows = np.ascontiguousarray(rows, dtype=self._dtype)
        self._file.write(rows.data)  # not `tofile`, which does not say why a write failed
        self.length += len(rows)

    def _write_header(self) -> None:
        # NumPy leaves room in the header for the first axis to grow, so that it can be written over in place.
        shape = (self.length, *self._row)
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, header)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            self._file.flush()
            self._file.seek(0)
            self._write_header()


def pieces(path: Path, rows: int) -> Iterator[NDArray[Any]]:
    """A .npy file `rows` rows at a time. Read, not mapped: mapped pages would count as memory of the process."""
    with path.open("rb") as file:
        npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file)
        width = int(np.prod(shape[1:]))
        for first in range(0, shape[0], rows):
            count = min(rows, shape[0] - first)
            yield np.fromfile(file, dtype, count * width).reshape(count, *shape[1:])
