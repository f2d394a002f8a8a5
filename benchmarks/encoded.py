"""Data sets as integer arrays in one small file, for a GPU machine that has NumPy and torch but no table library.

`python -m benchmarks.encoded wn11 OUT.npz.xz` writes one; `read` gives back the split and the path queries.
"""

from __future__ import annotations

import io
import lzma
import sys
from pathlib import Path

import numpy as np

from blockhole.graph.split import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.paths.queries import PathQueries
from blockhole.paths.splits import PATH_PARTS

_FACTS = ("train", "valid", "test", "valid_negatives", "test_negatives")


def write(name: str, file: Path) -> None:
    """Encode the named data set, path queries included."""
    from blockhole.data.load import load

    data = load(name)
    arrays: dict[str, np.ndarray] = {f"facts.{part}": getattr(data.split, part) for part in _FACTS}
    arrays["sizes"] = np.array([len(data.split.entities), len(data.split.relations)])
    for part in PATH_PARTS:
        queries = data.paths(part)
        # Sorted sources compress to almost nothing as differences; the order of queries carries no meaning in train.
        if part == "train":
            queries = queries.take(np.argsort(queries.source, kind="stable"))
        arrays[f"{part}.source"] = np.diff(queries.source, prepend=0)
        arrays[f"{part}.path"] = queries.path.astype(np.int16).T
        arrays[f"{part}.length"] = queries.length.astype(np.int8)
        arrays[f"{part}.target"] = queries.target
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    file.write_bytes(lzma.compress(buffer.getvalue(), preset=3))


def read(file: Path) -> tuple[SplitGraph, dict[str, PathQueries]]:
    """The split and the five parts; entities and relations are named by their numbers."""
    arrays = np.load(io.BytesIO(lzma.decompress(file.read_bytes())))
    num_entities, num_relations = arrays["sizes"].tolist()
    split = SplitGraph(
        Vocabulary(map(str, range(num_entities)), "entity"),
        Vocabulary(map(str, range(num_relations)), "relation"),
        **{part: arrays[f"facts.{part}"] for part in _FACTS},
    )
    paths = {
        part: PathQueries(
            np.cumsum(arrays[f"{part}.source"], dtype=np.int32),
            np.ascontiguousarray(arrays[f"{part}.path"].T.astype(np.int32)),
            arrays[f"{part}.length"].astype(np.int32),
            arrays[f"{part}.target"],
        )
        for part in PATH_PARTS
    }
    return split, paths


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
