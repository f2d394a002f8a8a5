"""A data set: a split graph, and the path queries over it where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import final

from blockhole.errors import DataError
from blockhole.graph.split import SplitGraph
from blockhole.paths.queries import PathQueries
from blockhole.paths.splits import PATH_PARTS, PathSplits


@final
class DataSet:
    """A named `split` graph with five parts of path queries, each read when first asked for.

    The parts come from `part_files`, or are already in memory as `splits`; a data set may have neither.
    """

    def __init__(
        self,
        name: str,
        split: SplitGraph,
        *,
        part_files: Mapping[str, Path] | None = None,
        splits: PathSplits | None = None,
    ) -> None:
        self.name = name
        self.split = split
        self.part_files = dict(part_files or {})
        self._parts: dict[str, PathQueries] = {}
        if splits is not None:
            self._parts = {part: getattr(splits, part) for part in PATH_PARTS}

    @property
    def has_paths(self) -> bool:
        """Whether all five parts of path queries are there."""
        return all(part in self._parts or part in self.part_files for part in PATH_PARTS)

    def paths(self, part: str) -> PathQueries:
        """The path queries of one part: train, dev_deduction, dev_induction, test_deduction or test_induction."""
        if part not in PATH_PARTS:
            raise DataError(f"there is no part {part!r} of path queries; the parts are {', '.join(PATH_PARTS)}.")
        if part not in self._parts:
            if part not in self.part_files:
                raise DataError(
                    f"{self.name} has no {part} path queries; build them with "
                    f"`blockhole data build {quote(self.name)} --seed 0 --out FOLDER` and use FOLDER as the data set."
                )
            from blockhole.paths.guu import read_paths

            self._parts[part] = read_paths(self.part_files[part], self.split.entities, self.split.relations)
        return self._parts[part]

    def __repr__(self) -> str:
        paths = "with" if self.has_paths else "without"
        return f"DataSet({self.name!r}, {len(self.split.train)} train facts, {paths} path queries)"
