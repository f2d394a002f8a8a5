"""Data sets as integer arrays in one small file each, for a GPU machine that has NumPy and torch but no table library.

`python -m blockhole.paper.encoded FOLDER wn11 fb13` writes FOLDER/wn11.npz.xz and FOLDER/fb13.npz.xz.
"""

from __future__ import annotations

import argparse
import io
import lzma
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet
from blockhole.data.words import with_words
from blockhole.errors import BlockholeError, DataError
from blockhole.graph.replacing import replacing
from blockhole.graph.split import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.paths.queries import PathQueries
from blockhole.paths.splits import PATH_PARTS, PathSplits

_FACTS = ("train", "valid", "test", "valid_negatives", "test_negatives")
_SUFFIX = ".npz.xz"


def write_encoded(data: DataSet, folder: Path) -> Path:
    """Write a data set to `folder`, path queries included where it has them; the file."""
    arrays: dict[str, NDArray[np.generic]] = {f"facts.{part}": getattr(data.split, part) for part in _FACTS}
    arrays["entities"] = np.array(len(data.split.entities))
    arrays["relations"] = np.array(list(data.split.relations))
    hop = np.int16 if 2 * len(data.split.relations) <= 2**15 else np.int32
    for part in PATH_PARTS if data.has_paths else ():
        queries = by_source(data.paths(part)) if part == "train" else data.paths(part)
        # Sorted sources compress to almost nothing as differences, and columns better than rows.
        arrays[f"{part}.source"] = np.diff(queries.source, prepend=np.int32(0))
        arrays[f"{part}.path"] = queries.path.astype(hop).T
        arrays[f"{part}.length"] = queries.length.astype(np.int8)
        arrays[f"{part}.target"] = queries.target
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    file = folder / f"{Path(data.name).name}{_SUFFIX}"
    with replacing(file) as temporary:
        temporary.write_bytes(lzma.compress(buffer.getvalue(), preset=3))
    return file


def encoded_name(name: str, *, words: bool) -> str:
    """What the file of a data set is called: wn11, and wn11-words where words of names are among its facts."""
    return f"{name}-words" if words else name


def read_encoded(folder: Path, name: str, *, words: bool = False) -> DataSet:
    """The data set `name` as `write_encoded` left it in `folder`; its entities are named by their numbers."""
    file = folder / f"{encoded_name(name, words=words)}{_SUFFIX}"
    again = f"python -m blockhole.paper.encoded{' --words' if words else ''} {folder} {name}"
    if not file.is_file():
        raise DataError(f"there is no {file}; write it with: {again}")
    try:
        arrays = np.load(io.BytesIO(lzma.decompress(file.read_bytes())))
        split = SplitGraph(
            Vocabulary(map(str, range(int(arrays["entities"]))), "entity"),
            Vocabulary(arrays["relations"].tolist(), "relation"),
            **{part: arrays[f"facts.{part}"] for part in _FACTS},
        )
        has_paths = f"{PATH_PARTS[0]}.source" in arrays
        splits = PathSplits(*(_read_part(arrays, part) for part in PATH_PARTS)) if has_paths else None
    except (lzma.LZMAError, zipfile.BadZipFile, EOFError, KeyError, ValueError) as failure:
        raise DataError(f"{file} is damaged or of another version ({failure}); write it again with: {again}") from None
    return DataSet(name, split, splits=splits)


def by_source(queries: PathQueries) -> PathQueries:
    """The queries in the order of their sources, those of one source as they were."""
    return queries.take(np.argsort(queries.source, kind="stable"))


def _read_part(arrays: np.lib.npyio.NpzFile, part: str) -> PathQueries:
    return PathQueries(
        np.cumsum(arrays[f"{part}.source"], dtype=np.int32),
        np.ascontiguousarray(arrays[f"{part}.path"].T.astype(np.int32)),
        arrays[f"{part}.length"].astype(np.int32),
        arrays[f"{part}.target"],
    )


def main(arguments: list[str] | None = None) -> int:
    """Encode the named data sets; 0, or 1 where one of them cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m blockhole.paper.encoded", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("names", nargs="+", metavar="NAME", help="data sets")
    parser.add_argument("--words", action="store_true", help="with the words of entity names as facts, without paths")
    options = parser.parse_args(arguments)
    from blockhole.data.load import load

    try:
        for name in options.names:
            data = load(name)
            if options.words:
                data = DataSet(encoded_name(Path(data.name).name, words=True), with_words(data.split))
            print(write_encoded(data, options.folder), file=sys.stderr, flush=True)
    except BlockholeError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
