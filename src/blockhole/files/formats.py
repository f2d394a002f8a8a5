"""The files of graphs: formats by suffix, compression, text as blocks of lines, and the files of a folder."""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import IO, cast, final

from blockhole.errors import DataError, MalformedFile, quoted
from blockhole.graph.knowledge_graph import SplitName
from blockhole.saving import parse_json


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
    N3 = "n3"
    JSON_LD = "jsonld"


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
    ".n3": Layout.N3,
    ".jsonld": Layout.JSON_LD,
}
COMPRESSIONS = {".gz": Compression.GZIP, ".zst": Compression.ZSTD}
WRITABLE = (Layout.TSV, Layout.CSV, Layout.PARQUET, Layout.N_TRIPLES, Layout.TURTLE, Layout.JSON_LD)


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


# Files compressed with gzip or zstd.


def _zstd() -> ModuleType:
    """The library, imported when a file asks for it: a machine that is lent for its GPU does not have it."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def faults() -> tuple[type[Exception], ...]:
    """What reading compressed data raises where it ends early or is damaged."""
    return EOFError, zlib.error, gzip.BadGzipFile, _zstd().ZstdError


def require_file(path: Path) -> None:
    """Raise `DataError` unless there is a file of that name."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder, but a file is wanted; name one of the files in it.")
    if not path.exists():
        raise DataError(f"{path}: no such file; check the name.")


def open_decompressed(path: Path, compression: Compression) -> IO[bytes]:
    """The decompressed bytes of a file; raises `DataError` where it cannot be opened."""
    require_file(path)
    try:
        match compression:
            case Compression.GZIP:
                return cast(IO[bytes], gzip.open(path, "rb"))
            case Compression.ZSTD:
                return cast(IO[bytes], _zstd().open(path, "rb"))
            case Compression.NONE:
                return path.open("rb")
    except OSError as failure:
        raise DataError(f"{path}: cannot be opened ({failure.strerror}); check its permissions.") from None


@contextmanager
def open_compressed(path: Path, compression: Compression) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which are compressed on the way."""
    with path.open("wb") as file:
        match compression:
            case Compression.GZIP:
                # Neither name nor time go into the file, so that the same graph gives the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as gzipped:
                    yield cast(IO[bytes], gzipped)
            case Compression.ZSTD:
                with _zstd().open(file, "wb") as zstandard:
                    yield cast(IO[bytes], zstandard)
            case Compression.NONE:
                yield file


def compressed_size(data: bytes, compression: Compression) -> int:
    """How many bytes `data` takes in a compressed file."""
    match compression:
        case Compression.GZIP:
            return len(gzip.compress(data, compresslevel=6))
        case Compression.ZSTD:
            return len(_zstd().compress(data))
        case Compression.NONE:
            return len(data)


def decompression_error(path: Path, fault: Exception, line: int | None) -> MalformedFile:
    """What to tell the user of one of `faults`."""
    problem = "the compressed data ends early" if isinstance(fault, EOFError) else "the compressed data is damaged"
    return MalformedFile(path, problem, "fetch or compress the file again", line)


# Text files as blocks of whole lines: decompressed, checked to be UTF-8, with line numbers.


BLOCK_BYTES = 1 << 22  # enough for vectorised work; larger blocks cost more in fresh memory than they save
READ_BYTES = 1 << 20
LONGEST_ROW = 1 << 26  # more than this without an end is no text, or a quote that is never closed
_TOO_LONG = ("no row ends within 64 MB", "check that this is a text file, and that quotes are closed")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@final
@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file, each ended by a newline; `first_line` counts from 1."""

    data: bytes
    first_line: int

    def line_at(self, offset: int) -> int:
        """The line of the file that holds the byte at `offset` of this block."""
        return self.first_line + self.data.count(b"\n", 0, offset)


def whole_lines(data: bytes) -> int:
    """How many bytes of `data` are whole lines."""
    return data.rfind(b"\n") + 1


def text_blocks(
    path: Path, compression: Compression, complete: Callable[[bytes], int] = whole_lines
) -> Iterator[Block]:
    """The lines of a text file in blocks; `complete` says how many bytes of a piece of text are whole rows."""
    first_line = 1
    pending = b""
    for data in _as_utf8(path, _pieces(path, compression)):
        pending += data
        size = complete(pending)
        if size:
            yield _block(path, pending[:size], first_line)
            first_line += pending.count(b"\n", 0, size)
            pending = pending[size:]
        if len(pending) > LONGEST_ROW:
            raise MalformedFile(path, *_TOO_LONG, first_line)
    if pending:
        yield _block(path, pending if pending.endswith(b"\n") else pending + b"\n", first_line)


def _as_utf8(path: Path, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces as they are, or decoded where a byte order mark says that they are UTF-16."""
    head = b""
    while len(head) < len(codecs.BOM_UTF16) and (more := next(pieces, b"")):
        head += more
    if not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from chain([head], pieces)
        return
    decoder = codecs.getincrementaldecoder("utf-16")()
    line = 1
    try:
        for data in chain([head], pieces):
            yield (text := decoder.decode(data).encode())
            line += text.count(b"\n")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as failure:
        raise MalformedFile(path, f"not valid UTF-16 ({failure.reason})", "save the file as UTF-8", line) from None


def _pieces(path: Path, compression: Compression) -> Iterator[bytes]:
    """The decompressed bytes in pieces of about `BLOCK_BYTES`."""
    line = 1
    with open_decompressed(path, compression) as file:
        gathered: list[bytes] = []
        size = 0
        while data := _read(path, file, line):
            line += data.count(b"\n")
            gathered.append(data)
            size += len(data)
            if size >= BLOCK_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
        if gathered:
            yield b"".join(gathered)


def _read(path: Path, file: IO[bytes], line: int) -> bytes:
    # read1 hands over what is decompressed so far before it meets a fault, so the line number of the fault is exact.
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    try:
        return read(READ_BYTES)
    except faults() as fault:
        raise decompression_error(path, fault, line) from None


def _block(path: Path, data: bytes, first_line: int) -> Block:
    """A block that is known to be UTF-8; a byte order mark belongs to the file, not to the first name."""
    block = Block(data.removeprefix(BYTE_ORDER_MARK) if first_line == 1 else data, first_line)
    try:
        block.data.decode("utf-8")
    except UnicodeDecodeError as failure:
        byte = block.data[failure.start]
        line = block.line_at(failure.start)
        raise MalformedFile(path, f"byte 0x{byte:02x} is not UTF-8", "save the file as UTF-8", line) from None
    return block


# Which files of a folder hold its splits and its names.


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


PREFIXES = "prefixes.json"


def read_prefixes(folder: Path) -> dict[str, str]:
    """The prefixes of the IRIs in a folder that we wrote; none where it has no such file."""
    path = folder / PREFIXES
    if not path.is_file():
        return {}
    try:
        prefixes = parse_json(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        prefixes = None
    if not isinstance(prefixes, dict) or not all(isinstance(iri, str) for iri in prefixes.values()):
        raise MalformedFile(path, "not prefixes and what they stand for", "delete it, or write the folder again")
    return prefixes


def listed_names(path: Path) -> Sequence[str]:
    """The names of an `entities.txt` or `relations.txt`, one a line; none where there is no such file."""
    if not path.is_file():
        return ()
    names: dict[str, int] = {}
    for block in text_blocks(path, Compression.NONE):
        for line, text in enumerate(block.data.decode().split("\n")[:-1], block.first_line):
            name = text.removesuffix("\r")
            if "\t" in name:
                raise MalformedFile(path, "a tab in a list of names", "write one name per line", line)
            if name and names.setdefault(name, line) != line:
                raise MalformedFile(
                    path, f"{quoted(name)} is listed already, in line {names[name]}", "keep one of the lines", line
                )
    return tuple(names)
