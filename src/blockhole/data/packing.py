"""Packing a graph: from files of facts of any size to a folder that is worked on where it lies, in bounded memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import ORIGIN, check_destination
from blockhole.errors import DataError, counted
from blockhole.files.columns import Reading
from blockhole.files.formats import (
    Layout,
    compressed_size,
    format_of,
    listed_names,
    openke_files,
    require_file,
    split_files,
    text_blocks,
)
from blockhole.files.id_folders import has_id_facts, is_published
from blockhole.files.readers import encode_each, read_facts, warn_of_negatives
from blockhole.graph.knowledge_graph import SplitName
from blockhole.graph.parquet import reading_parquet
from blockhole.machine import resident_bytes
from blockhole.packed.adjacency import GrowingArray, adjacency_bytes, write_adjacency
from blockhole.packed.folder import ENTITIES, FORMAT, RECORD, RELATIONS, is_packed
from blockhole.saving import replacing_folder, sealed, sha256_of

DEFAULT_MEMORY = 3_000_000_000
"""Bytes the process may hold while it packs, when nothing else is said."""

_TRIPLE = 12


@final
@dataclass(frozen=True, slots=True)
class Packed:
    """What a packed graph holds: names, train facts (duplicates kept), and distinct edges in both directions."""

    entities: int
    relations: int
    facts: int
    edges: int


def pack(
    source: Path,
    folder: Path,
    *,
    memory: int = DEFAULT_MEMORY,
    overwrite: bool = False,
    reading: Reading | None = None,
    tell: Callable[[str], object] = lambda text: None,
) -> Packed:
    """Write the facts of a file, or of a folder of train, valid and test files, as a packed graph.

    Ids are those that reading the same files gives. The process stays within `memory` bytes, of which each name takes
    22 to 29; the room on the disk is checked before anything is written. All of the folder appears at once, or nothing.
    """
    files = _files(source)
    check_destination(folder, source, overwrite=overwrite)
    facts = {split: estimate_facts(path) for split, path in files.items()}
    with replacing_folder(folder) as fresh:
        _require_room(folder, _TRIPLE * sum(facts.values()) + adjacency_bytes(facts["train"], facts["train"]))
        return _Packing(source, files, fresh, reading or Reading(), memory, tell).write()


def _files(source: Path) -> dict[SplitName, Path]:
    if not source.exists():
        raise DataError(f"{source}: no such file or folder; check the name.")
    if source.is_file() and not source.name.endswith("2id.txt"):
        return {"train": source}
    if is_packed(source):
        raise DataError(f"{source}: is packed already; use it as it is.")
    if source.is_file() or openke_files(source) or is_published(source) or has_id_facts(source):
        raise DataError(
            f"{source}: holds ids, not names; convert it with `blockhole data convert` and pack the result."
        )
    return split_files(source)


@final
@dataclass(frozen=True, slots=True)
class _Packing:
    """One graph on its way into `folder`."""

    source: Path
    files: dict[SplitName, Path]
    folder: Path
    reading: Reading
    memory: int
    tell: Callable[[str], object]

    def write(self) -> Packed:
        folder = self.folder
        facts, entities, relations = self._write_facts()
        _require_room(folder, adjacency_bytes(facts, entities))
        self.tell("building the adjacency")
        edges = write_adjacency(folder / "train.npy", folder, entities, relations, self.memory)
        packed = Packed(entities=entities, relations=relations, facts=facts, edges=edges)
        self.tell("taking the sums of the files")
        sums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
        record = {"format": FORMAT, **asdict(packed), "sha256": sums}
        (folder / RECORD).write_text(sealed(record), encoding="utf-8")
        (folder / ORIGIN).write_text(json.dumps({"packed_from": str(self.source)}, indent=1) + "\n", encoding="utf-8")
        return packed

    def _write_facts(self) -> tuple[int, int, int]:
        """Facts and names; how many train facts, entities and relations there are."""
        from blockhole.packed.numbering import PackedNames

        lists = [self.source / name for name in ("entities.txt", "relations.txt")]
        entity_names, relation_names = (listed_names(path) if self.source.is_dir() else () for path in lists)
        with (
            PackedNames(self.folder / ENTITIES, entity_names) as entities,
            PackedNames(self.folder / RELATIONS, relation_names) as relations,
        ):
            counts: dict[SplitName, int] = {}
            for split, path in self.files.items():
                facts = read_facts(path, replace(self.reading, first=split == "train"))
                counts[split] = self._write_split(split, path, encode_each(facts, entities, relations))
        return counts["train"], len(entities), len(relations)

    def _write_split(
        self, split: SplitName, path: Path, blocks: Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]
    ) -> int:
        """The facts of `path`, true ones and false ones apart; how many are true."""
        with ExitStack() as stack:
            true = stack.enter_context(GrowingArray(self.folder / f"{split}.npy", np.int32, (3,)))
            false: GrowingArray | None = None
            left_out = 0
            for triples, positive in blocks:
                true.append(triples[positive])
                if split == "train":
                    left_out += int(np.count_nonzero(~positive))
                elif not positive.all():
                    negatives = self.folder / f"{split}_negatives.npy"
                    false = false or stack.enter_context(GrowingArray(negatives, np.int32, (3,)))
                    false.append(triples[~positive])
                self.tell(f"reading {path.name}: {counted(true.length, 'fact')}")
                _require_memory(self.memory, path)
            if not true.length:
                raise DataError(f"{path}: the file holds no facts; write one fact per line, or leave the file out.")
            warn_of_negatives(path, left_out)
            return true.length


def _require_memory(memory: int, path: Path) -> None:
    held = resident_bytes()
    if held > memory:
        raise DataError(
            f"the names of {path} take more than the {memory / 1e9:.1f} GB of memory that are allowed; "
            "allow more with --memory."
        )


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder.resolve().parent).free
    if needed > free:
        raise DataError(
            f"packing needs up to {needed / 1e6:,.2f} MB on the disk of {folder.parent}, and {free / 1e6:,.2f} MB "
            "are free; make room, or name a folder on another disk."
        )


def estimate_facts(path: Path) -> int:
    """The number of rows of a Parquet file; of a text, its size over the mean size of a line in its first block."""
    require_file(path)
    file_format = format_of(path)
    if file_format.layout is Layout.PARQUET:
        import polars as pl

        try:
            with reading_parquet(path):
                return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
        except pl.exceptions.PolarsError:
            return 0  # reading it will say what is wrong
    sample = next((block.data for block in text_blocks(path, file_format.compression)), b"\n")
    lines = max(1, sample.count(b"\n"))
    return -(-path.stat().st_size * lines // compressed_size(sample, file_format.compression))
