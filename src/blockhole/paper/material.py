"""The data of an experiment: a named data set, or its encoded file; both give the same experiment."""

from __future__ import annotations

from pathlib import Path

from blockhole.data.dataset import DataSet
from blockhole.data.words import with_words
from blockhole.paper.encoded import by_source, encoded_name, read_encoded
from blockhole.paths.splits import PATH_PARTS, PathSplits

PATH_SEED = 0
"""Draws the path queries of a data set that has none of its own."""


class Material:
    """Opens each data set once; from `encoded` files if that folder is given."""

    def __init__(self, encoded: Path | None = None) -> None:
        self._encoded = encoded
        self._opened: dict[str, DataSet] = {}

    def open(self, name: str, *, paths: bool, words: bool = False) -> DataSet:
        """The data set `name`; with `paths` also its path queries, which are built where there are none.

        With `words` it has the words of entity names as facts, and path queries, if any, over these facts too.
        """
        key = encoded_name(name, words=words)
        data = self._opened.get(key)
        if data is None:
            data = self._load(name, words=words)
        if paths and not data.has_paths:
            from blockhole.paths.builder import build_paths

            data = _in_order(DataSet(data.name, data.split, splits=build_paths(data.split, seed=PATH_SEED)))
        self._opened[key] = data
        return data

    def _load(self, name: str, *, words: bool) -> DataSet:
        if self._encoded is not None:
            return read_encoded(self._encoded, name, words=words)
        from blockhole.data.load import load

        data = load(name)
        if words:
            return DataSet(data.name, with_words(data.split))
        return _in_order(data) if data.has_paths else data


def _in_order(data: DataSet) -> DataSet:
    """The train paths in the order of the encoded file, since shuffles start from it."""
    parts = {part: data.paths(part) for part in PATH_PARTS}
    return DataSet(data.name, data.split, splits=PathSplits(**(parts | {"train": by_source(parts["train"])})))
