"""The data that experiments train on: data sets by name, or as integer arrays where hardly anything is installed.

    python -m experiments.material FOLDER wn11 fb13

writes FOLDER/wn11.npz.xz and FOLDER/fb13.npz.xz, for a GPU machine that has NumPy and torch but no table library; with
--words FOLDER/wn11-words.npz.xz and FOLDER/fb13-words.npz.xz, the words of entity names, which numbered entities have
no more. A data set and its encoded file give the same experiment.
"""

from __future__ import annotations

import argparse
import io
import lzma
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet, load
from blockhole.data.words import Words, with_words
from blockhole.errors import BlockholeError, DataError
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.path_sets import PATH_PARTS, PathSplits, build_paths
from blockhole.queries.paths import PathQueries
from blockhole.queries.query_sets import QuerySet, QuerySplit
from blockhole.saving import replacing

PATH_SEED = 0
"""Draws the path queries of a data set that has none of its own."""

_FACTS = ("train", "valid", "test", "valid_negatives", "test_negatives")
_SUFFIX, _WORDS, _QUERIES = ".npz.xz", "-words", "queries"


class Material:
    """Opens each data set once; from `encoded` files if that folder is given."""

    def __init__(self, encoded: Path | None = None) -> None:
        self._encoded = encoded
        self._opened: dict[tuple[str, bool, int], DataSet] = {}

    def open(self, name: str, *, paths: bool, words: int = 0) -> DataSet:
        """The data set `name`; with `paths` also its path queries, which are built where there are none.

        With `words` it has the words of entity names as facts, and each of them so many times among its train paths.
        """
        key = (name, paths, words)
        if key not in self._opened:
            if words:
                plain = self.open(name, paths=paths)
                self._opened[key] = with_words(plain, self._words(plain), words)
            else:
                data = self._load(name)
                self._opened[key] = _with_paths(data) if paths else data.with_paths(None)
        return self._opened[key]

    def _load(self, name: str) -> DataSet:
        if self._encoded is not None:
            return read_encoded(self._encoded, name)
        return load(name)

    def _words(self, data: DataSet) -> Words:
        entities = data.split.entities
        words = Words.of_names(entities) if self._encoded is None else read_words(self._encoded, data.name)
        return words.telling(len(entities))


def _with_paths(data: DataSet) -> DataSet:
    """The data set with path queries, its own or built; the train paths in the order of the encoded file, since
    shuffles start from it.
    """
    if not data.has_paths:
        data = data.with_paths(build_paths(data.split, seed=PATH_SEED))
    parts = {part: data.paths(part) for part in PATH_PARTS}
    return data.with_paths(PathSplits(**(parts | {"train": _by_source(parts["train"])})))


def _by_source(queries: PathQueries) -> PathQueries:
    """The queries in the order of their sources, those of one source as they were."""
    return queries.take(np.argsort(queries.source, kind="stable"))


def write_encoded(data: DataSet, folder: Path) -> Path:
    """Write a data set to `folder`, path queries included where it has them; the file."""
    arrays: dict[str, NDArray[np.generic]] = {f"facts.{part}": getattr(data.split, part) for part in _FACTS}
    arrays["entities"] = np.array(len(data.split.entities))
    arrays["relations"] = np.array(list(data.split.relations))
    hop = np.int16 if 2 * len(data.split.relations) <= 2**15 else np.int32
    for part in PATH_PARTS if data.has_paths else ():
        queries = _by_source(data.paths(part)) if part == "train" else data.paths(part)
        # Sorted sources compress to almost nothing as differences, and columns better than rows.
        arrays[f"{part}.source"] = np.diff(queries.source, prepend=np.int32(0))
        arrays[f"{part}.path"] = queries.path.astype(hop).T
        arrays[f"{part}.length"] = queries.length.astype(np.int8)
        arrays[f"{part}.target"] = queries.target
    for name in data.query_sets:
        own = data.queries(name)
        arrays |= {f"{_QUERIES}.{name}.{own.split}.{type_}": ids for type_, ids in own.ids.items()}
    return _write(arrays, folder, Path(data.name).name)


def read_encoded(folder: Path, name: str) -> DataSet:
    """The data set `name` as `write_encoded` left it in `folder`; its entities are named by their numbers."""
    with _reading(folder, name, "") as arrays:
        split = SplitGraph(
            Vocabulary(map(str, range(int(arrays["entities"]))), "entity"),
            Vocabulary(arrays["relations"].tolist(), "relation"),
            **{part: arrays[f"facts.{part}"] for part in _FACTS},
        )
        has_paths = f"{PATH_PARTS[0]}.source" in arrays
        splits = PathSplits(*(_read_part(arrays, part) for part in PATH_PARTS)) if has_paths else None
        sets: dict[tuple[str, str], dict[str, NDArray[np.int32]]] = {}
        for key in arrays:
            if key.startswith(f"{_QUERIES}."):
                _, own, which, type_ = key.split(".")
                sets.setdefault((own, which), {})[type_] = arrays[key]
    query_sets = {own: QuerySet(own, ids, _split_named(which)) for (own, which), ids in sets.items()}
    return DataSet(name, split, splits=splits, query_sets=query_sets)


def _split_named(name: str) -> QuerySplit:
    return "valid" if name == "valid" else "train" if name == "train" else "test"


def write_words(data: DataSet, folder: Path) -> Path:
    """Write the words of a data set's entity names to `folder`; the file."""
    words = Words.of_names(data.split.entities)
    arrays = {"words": np.array(words.words, dtype=np.str_), "pairs": words.pairs}
    return _write(arrays, folder, f"{Path(data.name).name}{_WORDS}")


def read_words(folder: Path, name: str) -> Words:
    """The words of the names that the entities of data set `name` had, as `write_words` left them in `folder`."""
    with _reading(folder, name, _WORDS) as arrays:
        return Words(tuple(arrays["words"].tolist()), arrays["pairs"])


def _write(arrays: Mapping[str, NDArray[np.generic]], folder: Path, name: str) -> Path:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    file = folder / f"{name}{_SUFFIX}"
    with replacing(file) as temporary:
        temporary.write_bytes(lzma.compress(buffer.getvalue(), preset=3))
    return file


@contextmanager
def _reading(folder: Path, name: str, kind: str) -> Iterator[Mapping[str, Any]]:
    """The arrays of a file; what is wrong with it is said together with the command that writes it."""
    file = folder / f"{name}{kind}{_SUFFIX}"
    again = f"python -m experiments.material{' --words' if kind == _WORDS else ''} {folder} {name}"
    if not file.is_file():
        raise DataError(f"there is no {file}; write it with: {again}")
    try:
        with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as arrays:
            yield arrays
    except (lzma.LZMAError, zipfile.BadZipFile, EOFError, KeyError, ValueError) as failure:
        raise DataError(f"{file} is damaged or of another version ({failure}); write it again with: {again}") from None


def _read_part(arrays: Mapping[str, Any], part: str) -> PathQueries:
    return PathQueries(
        np.cumsum(arrays[f"{part}.source"], dtype=np.int32),
        np.ascontiguousarray(arrays[f"{part}.path"].T.astype(np.int32)),
        arrays[f"{part}.length"].astype(np.int32),
        arrays[f"{part}.target"],
    )


def main(arguments: list[str] | None = None) -> int:
    """Encode the named data sets; 0, or 1 where one of them cannot be had."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.material", description="Write data sets as integer arrays."
    )
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("names", nargs="+", metavar="NAME", help="data sets")
    parser.add_argument("--words", action="store_true", help="the words of entity names instead")
    options = parser.parse_args(arguments)
    write = write_words if options.words else write_encoded
    try:
        for name in options.names:
            print(write(load(name), options.folder), file=sys.stderr, flush=True)
    except BlockholeError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
