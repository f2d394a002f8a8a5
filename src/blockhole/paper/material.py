"""The data of an experiment: a named data set, or its encoded file; both give the same experiment."""

from __future__ import annotations

from pathlib import Path

from blockhole.data.dataset import DataSet
from blockhole.data.words import Words, with_words
from blockhole.paper.encoded import by_source, read_encoded, read_words
from blockhole.paths.splits import PATH_PARTS, PathSplits

PATH_SEED = 0
"""Draws the path queries of a data set that has none of its own."""


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
                self._opened[key] = _with_paths(data) if paths else DataSet(data.name, data.split)
        return self._opened[key]

    def _load(self, name: str) -> DataSet:
        if self._encoded is not None:
            return read_encoded(self._encoded, name)
        from blockhole.data.load import load

        return load(name)

    def _words(self, data: DataSet) -> Words:
        return Words.of_names(data.split.entities) if self._encoded is None else read_words(self._encoded, data.name)


def _with_paths(data: DataSet) -> DataSet:
    """The data set with path queries, its own or built; the train paths in the order of the encoded file, since
    shuffles start from it.
    """
    if not data.has_paths:
        from blockhole.paths.builder import build_paths

        data = DataSet(data.name, data.split, splits=build_paths(data.split, seed=PATH_SEED))
    parts = {part: data.paths(part) for part in PATH_PARTS}
    return DataSet(data.name, data.split, splits=PathSplits(**(parts | {"train": by_source(parts["train"])})))
