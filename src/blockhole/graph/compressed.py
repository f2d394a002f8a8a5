"""Files compressed with gzip or zstd."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from blockhole.errors import DataError, MalformedFile
from blockhole.graph.formats import Compression

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FAULTS = (EOFError, zlib.error, zstd.ZstdError, gzip.BadGzipFile)
"""What reading compressed data raises where it ends early or is damaged."""


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
                return cast(IO[bytes], zstd.open(path, "rb"))
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
                with zstd.open(file, "wb") as zstandard:
                    yield cast(IO[bytes], zstandard)
            case Compression.NONE:
                yield file


def compressed_size(data: bytes, compression: Compression) -> int:
    """How many bytes `data` takes in a compressed file."""
    match compression:
        case Compression.GZIP:
            return len(gzip.compress(data, compresslevel=6))
        case Compression.ZSTD:
            return len(zstd.compress(data))
        case Compression.NONE:
            return len(data)


def decompression_error(path: Path, fault: Exception, line: int | None) -> MalformedFile:
    """What to tell the user of one of `FAULTS`."""
    problem = "the compressed data ends early" if isinstance(fault, EOFError) else "the compressed data is damaged"
    return MalformedFile(path, problem, "fetch or compress the file again", line)
