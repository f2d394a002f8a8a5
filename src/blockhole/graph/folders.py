"""Which files of a folder hold its splits and its names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blockhole.errors import DataError, MalformedFile
from blockhole.graph.blocks import text_blocks
from blockhole.graph.formats import Compression, bare_name, known_format
from blockhole.graph.split import SplitName

STEMS: dict[SplitName, tuple[str, ...]] = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",)}


def split_files(folder: Path) -> dict[SplitName, Path]:
    """The file of each split; raises `DataError` where train is missing or a split is there twice."""
    found: dict[SplitName, Path] = {}
    for split, stems in STEMS.items():
        paths = sorted(path for path in folder.iterdir() if bare_name(path) in stems and known_format(path) is not None)
        if len(paths) > 1:
            raise DataError(f"{folder}: both {paths[0].name} and {paths[1].name} hold {split} facts; keep one of them.")
        if paths:
            found[split] = paths[0]
    if "train" not in found:
        raise DataError(
            f"{folder}: no file of train facts in this folder; "
            "it should hold train, valid and test, such as train.tsv, valid.tsv and test.tsv."
        )
    return found


def openke_files(folder: Path) -> dict[SplitName, Path]:
    """The `…2id.txt` file of each split; empty where there is no `train2id.txt`."""
    found = {split: folder / f"{split}2id.txt" for split in STEMS}
    return {split: path for split, path in found.items() if path.is_file()} if found["train"].is_file() else {}


def listed_names(path: Path) -> Sequence[str]:
    """The names of an `entities.txt` or `relations.txt`, one a line; none where there is no such file."""
    if not path.is_file():
        return ()
    names: dict[str, int] = {}
    for block in text_blocks(path, Compression.NONE):
        for line, text in enumerate(block.data.decode().split("\n")[:-1], block.first_line):
            name = text.removesuffix("\r")
            if "\t" in name:
                raise MalformedFile(path, "a tab in a list of names", "write one name a line", line)
            if name and names.setdefault(name, line) != line:
                raise MalformedFile(
                    path, f"{name!r} is listed already, in line {names[name]}", "keep one of the lines", line
                )
    return tuple(names)
