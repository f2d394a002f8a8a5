"""A folder of path queries: one file for each part, `train.parquet` and four `.tsv`."""

from __future__ import annotations

from pathlib import Path

from blockhole.errors import DataError
from blockhole.graph.formats import bare_name, known_format
from blockhole.graph.replacing import replacing_folder
from blockhole.graph.vocabulary import Vocabulary
from blockhole.paths.guu import write_paths
from blockhole.paths.splits import PATH_PARTS, PathSplits


def find_part_files(folder: Path) -> dict[str, Path]:
    """The file of each part that `folder` holds, in any format; none where there is no such folder."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        part = bare_name(path)
        if part not in PATH_PARTS or known_format(path) is None:
            continue
        if part in found:
            raise DataError(f"{folder} holds {part} twice, as {found[part].name} and {path.name}; keep one of them.")
        found[part] = path
    return found


def write_path_splits(splits: PathSplits, folder: Path, entities: Vocabulary, relations: Vocabulary) -> None:
    """Write the five parts into a new or empty folder, which appears when all are written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder.resolve()} exists already; name a new or an empty folder.")
    with replacing_folder(folder) as fresh:
        for part in PATH_PARTS:
            # Train is many times larger than the rest together; the rest stays readable at a glance.
            suffix = "parquet" if part == "train" else "tsv"
            write_paths(getattr(splits, part), fresh / f"{part}.{suffix}", entities, relations)
