"""Data sets written to a folder, so that the folder can be given wherever a data set is wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from blockhole.errors import DataError
from blockhole.graph.replacing import replacing_folder
from blockhole.graph.split import SplitGraph
from blockhole.graph.writers import write_split
from blockhole.paths.part_files import write_path_splits
from blockhole.paths.splits import PathSplits

ORIGIN = "origin.json"
"""How a folder was made; its presence says that we wrote the folder, so that we may write it again."""


def check_destination(folder: Path, source: Path | None = None, *, overwrite: bool) -> None:
    """Refuse to replace a folder that we did not write, or one that holds the `source` being read."""
    if source is not None and source.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{folder} holds the data set that is read; name another folder.")
    if overwrite or not folder.exists():
        return
    if not folder.is_dir():
        raise DataError(f"{folder} is a file; name a new folder, or give --overwrite to replace it.")
    if any(folder.iterdir()) and not (folder / ORIGIN).is_file():
        raise DataError(
            f"{folder} is a folder that holds other things; name a new folder, or give --overwrite to replace it."
        )


def store(split: SplitGraph, folder: Path, *, origin: Mapping[str, object], paths: PathSplits | None = None) -> None:
    """Write facts, names and path queries in the layout of the published data; all of it appears at once, or nothing.

    `origin` says in plain values how they were made, and `paths/` holds the five parts of path queries.
    """
    with replacing_folder(folder) as fresh:
        write_split(split, fresh)
        if paths is not None:
            write_path_splits(paths, fresh / "paths", split.entities, split.relations)
        (fresh / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
