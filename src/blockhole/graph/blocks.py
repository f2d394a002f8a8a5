"""Text files as blocks of whole lines: decompressed, checked to be UTF-8, with line numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, final

from blockhole.errors import MalformedFile
from blockhole.graph.compressed import FAULTS, decompression_error, open_decompressed
from blockhole.graph.formats import Compression

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
    for data in _pieces(path, compression):
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
    except FAULTS as fault:
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
