"""The file formats of graphs, told by suffix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import final

from blockhole.errors import DataError


@final
class Layout(StrEnum):
    """How the facts of a file are written down."""

    TSV = "tsv"
    CSV = "csv"
    PARQUET = "parquet"
    N_TRIPLES = "nt"
    N_QUADS = "nq"
    TURTLE = "ttl"
    TRIG = "trig"
    RDF_XML = "rdf"


@final
class Compression(StrEnum):
    """How the bytes of a text file are compressed."""

    NONE = ""
    GZIP = "gz"
    ZSTD = "zst"


LAYOUTS = {
    ".tsv": Layout.TSV,
    ".txt": Layout.TSV,
    ".csv": Layout.CSV,
    ".parquet": Layout.PARQUET,
    ".nt": Layout.N_TRIPLES,
    ".nq": Layout.N_QUADS,
    ".ttl": Layout.TURTLE,
    ".trig": Layout.TRIG,
    ".rdf": Layout.RDF_XML,
    ".owl": Layout.RDF_XML,
    ".xml": Layout.RDF_XML,
}
COMPRESSIONS = {".gz": Compression.GZIP, ".zst": Compression.ZSTD}
WRITABLE = (Layout.TSV, Layout.CSV, Layout.PARQUET, Layout.N_TRIPLES)


@final
@dataclass(frozen=True, slots=True)
class FileFormat:
    """What the suffixes of a file name say: `facts.tsv.gz` is TSV, compressed with gzip."""

    layout: Layout
    compression: Compression


def format_of(path: Path) -> FileFormat:
    """The format of `path` by its suffixes; raises `DataError` that lists the known ones."""
    known = known_format(path)
    if known is None:
        raise DataError(
            f"{path}: the format cannot be told from the name; end it in one of {', '.join(LAYOUTS)}, "
            f"the text formats optionally followed by {' or '.join(COMPRESSIONS)}."
        )
    return known


def known_format(path: Path) -> FileFormat | None:
    """The format of `path`, or None where the suffixes name none."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = COMPRESSIONS.get(suffixes[-1], Compression.NONE) if suffixes else Compression.NONE
    if compression is not Compression.NONE:
        suffixes.pop()
    layout = LAYOUTS.get(suffixes[-1]) if suffixes else None
    if layout is None or (layout is Layout.PARQUET and compression is not Compression.NONE):
        return None
    return FileFormat(layout, compression)


def bare_name(path: Path) -> str:
    """The file name without the suffixes that tell the format: `train` for `train.tsv.gz`."""
    name = path.name
    for suffixes in (COMPRESSIONS, LAYOUTS):
        if Path(name).suffix.lower() in suffixes:
            name = Path(name).stem
    return name
