"""One way in: a name of the catalogue, a folder, or a file becomes a `DataSet`."""

from __future__ import annotations

from pathlib import Path

from blockhole.data.bare_paths import split_of_parts
from blockhole.data.catalogue import NamedDataSet, catalogue
from blockhole.data.dataset import DataSet
from blockhole.data.fetch import locate
from blockhole.errors import UnknownDataSet, nearest_or_all
from blockhole.graph.folders import split_files
from blockhole.graph.readers import read_split
from blockhole.paths.part_files import find_part_files
from blockhole.paths.splits import PATH_PARTS


def load(source: str | Path) -> DataSet:
    """Load a data set by name, from a folder, or from one file, whose facts then are all train.

    A name of the catalogue means that data set even where a file or folder has the same name: write `./wn11` for
    the folder. A folder holds train, valid (or dev) and test files of any supported format, and in its folder
    `paths` the five parts of path queries, where there are any; or it holds these five parts and nothing else.
    """
    place = find_source(source)
    beside = find_part_files(place)
    if len(beside) == len(PATH_PARTS) and split_files(place).keys() == {"train"}:
        return DataSet(str(source), split_of_parts(beside), part_files=beside)
    return DataSet(str(source), read_split(place), part_files=find_part_files(place / "paths"))


def find_source(source: str | Path) -> Path:
    """The file or folder behind a name or path; a named data set is fetched when it is nowhere on this machine."""
    is_path = isinstance(source, Path) or source not in catalogue()
    if is_path and Path(source).exists():
        return Path(source)
    return locate(find_entry(str(source)))


def find_entry(name: str) -> NamedDataSet:
    """The entry of a name in the catalogue; raises `UnknownDataSet` with the nearest names."""
    entries = catalogue()
    if name in entries:
        return entries[name]
    hint = nearest_or_all(name, entries, "the data sets are", count=2)
    raise UnknownDataSet(
        f"there is no data set, file or folder {name!r}; {hint} A file or a folder of facts can be given too."
    )
