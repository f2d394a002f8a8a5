"""Parquet files that are damaged, or that lie about themselves, refused before and while polars reads them.

Polars believes the counts in a file: where one says 2⁶⁰ values it asks for as much memory, and the process ends without
an exception. So the description of a file, which takes a few microseconds a megabyte, is read here first: numbers that
cannot be are an error. What is wrong inside the data is noticed by polars, with an error or with a panic.

The format (https://github.com/apache/parquet-format): pages, each behind a header; then a footer that says where the
pages of each column begin; then the length of the footer, and PAR1. Headers and footer are structures of numbered
fields in Thrift's compact protocol.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, final

MAGIC: Final = b"PAR1"
_LARGE_PAGE = 1 << 28
_MOST_PACKED = 5_000
"""Bytes that a page may have unpacked, or if that is more, how many times as large as packed it may be."""
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DEEPEST = 32


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Read a Parquet file within this: whatever is wrong with it is one of polars' errors."""
    import polars as pl

    try:
        check_parquet(path)
    except (ValueError, OverflowError) as failure:
        raise pl.exceptions.ComputeError(f"damaged: {failure}") from None
    with panics_as_errors():
        yield


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of polars, as over some damaged files, into one of its errors, and drop what it prints then.

    A panic prints pages about itself before Python hears of it, so standard error goes to a file meanwhile; what
    else was written there is passed on.
    """
    import polars as pl

    panicked = False
    with tempfile.TemporaryFile() as said:
        screen = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except pl.exceptions.PanicException:
            panicked = True
        finally:
            os.dup2(screen, 2)
            os.close(screen)
        if panicked:
            raise pl.exceptions.ComputeError("damaged: what it holds cannot be unpacked")
        said.seek(0)
        sys.stderr.write(said.read().decode(errors="replace"))


def check_parquet(path: Path) -> None:
    """Raise `ValueError` where the counts, sizes and places that a Parquet file states cannot be true.

    A file that is not there, or no Parquet file at all, is left to polars.
    """
    try:
        size = path.stat().st_size
    except OSError:
        return
    if size < 12 or not path.is_file():
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != MAGIC or data[-4:] != MAGIC:
            return
        length = int.from_bytes(data[-8:-4], "little")
        if length > size - 12:
            raise ValueError("its footer is longer than the file")
        footer = _Thrift(data, size - 8 - length, size - 8).structure()
        schema, groups = _list(footer, 2), _list(footer, 4)
        for element in schema:
            _number(element, 5, "columns in a column", len(schema), default=0)
            _number(element, 2, "bytes of a value", 1 << 20, default=0)
        rows = [_check_group(data, size - 8 - length, group) for group in groups]
        if sum(rows) != _number(footer, 3, "rows", 1 << 62):
            raise ValueError("its parts have other numbers of rows than the whole")


def _check_group(data: mmap.mmap, end: int, group: Fields) -> int:
    """Check the columns of a row group; how many rows it has."""
    rows = _number(group, 3, "rows", 1 << 62)
    for column in _list(group, 1):
        about = column.get(3)
        if not isinstance(about, dict):
            raise ValueError("a column is not described")
        values = _number(about, 5, "values", 1 << 62)
        if len(_names(about)) == 1 and values != rows:
            raise ValueError("a column has another number of values than rows")
        size = _number(about, 7, "bytes", end)
        places = [_number(about, field, "bytes", end) for field in (9, 11) if field in about]
        if not places or min(places) + size > end:
            raise ValueError("a column lies behind the end of the file")
        _check_pages(data, min(places), min(places) + size, values)
    return rows


def _check_pages(data: mmap.mmap, at: int, end: int, values: int) -> None:
    """Check the headers of the pages of one column, which has so many values."""
    seen = 0
    while at < end and seen < values:
        thrift = _Thrift(data, at, end)
        page = thrift.structure()
        packed = _number(page, 3, "bytes", end - thrift.at)
        unpacked = _number(page, 2, "bytes", 1 << 31)
        if unpacked > max(_LARGE_PAGE, _MOST_PACKED * packed):
            raise ValueError("a page is larger than it can be")
        kind = page.get(1)
        about = page.get({_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind, 0)) if isinstance(kind, int) else None
        if isinstance(about, dict):
            most = unpacked if kind == _DICTIONARY else values - seen
            count = _number(about, 1, "values", most)
            seen += 0 if kind == _DICTIONARY else count
            if kind == _DATA_V2:
                for field in (2, 3):
                    _number(about, field, "values", values)
                for field in (5, 6):
                    _number(about, field, "bytes", unpacked)
        at = thrift.at + packed
    if seen != values:
        raise ValueError("the pages of a column have another number of values than the column")


Fields = dict[int, Any]
"""A structure: its values by the numbers of their fields."""


def _number(fields: Fields, field: int, what: str, most: int, default: int | None = None) -> int:
    number = fields.get(field, default)
    if not isinstance(number, int) or not 0 <= number <= most:
        raise ValueError(f"it tells of {number if number is not None else 'no'} {what}")
    return number


def _list(fields: Fields, field: int) -> list[Fields]:
    found = fields.get(field)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("its description is not complete")
    return found


def _names(column: Fields) -> list[Any]:
    """The names on the way to a column: more than one where it is within another."""
    names = column.get(3)
    return names if isinstance(names, list) else []


@final
class _Thrift:
    """Reads values in Thrift's compact protocol from the bytes `at` to `end`; nothing is as long as it says unseen."""

    def __init__(self, data: mmap.mmap, at: int, end: int) -> None:
        self._data = data
        self.at = at
        self._end = end

    def structure(self, depth: int = 0) -> Fields:
        """Fields up to the one that says that there are no more."""
        fields: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15, depth, within=False)
        return fields

    def _value(self, kind: int, depth: int, *, within: bool) -> Any:
        if depth > _DEEPEST:
            raise ValueError("its description is nested too deeply")
        match kind:
            case 1 | 2:  # a field's kind is its truth; in a list there is a byte for it
                return self._byte() == 1 if within else kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return self._bytes(8)
            case 8:
                return self._bytes(self._unsigned())
            case 9 | 10:
                head = self._byte()
                count = head >> 4 if head >> 4 != 15 else self._unsigned()
                self._require(count)
                return [self._value(head & 15, depth + 1, within=True) for _ in range(count)]
            case 11:
                count = self._unsigned()
                self._require(2 * count)
                kinds = self._byte() if count else 0
                for _ in range(count):
                    self._value(kinds >> 4, depth + 1, within=True)
                    self._value(kinds & 15, depth + 1, within=True)
                return None
            case 12:
                return self.structure(depth + 1)
        raise ValueError("its description cannot be read")

    def _require(self, count: int) -> None:
        if count > self._end - self.at:
            raise ValueError("its description ends early")

    def _byte(self) -> int:
        self._require(1)
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self._require(count)
        self.at += count
        return self._data[self.at - count : self.at]

    def _unsigned(self) -> int:
        """Seven bits a byte, the lowest first; the last byte is below 128."""
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("its description cannot be read")

    def _signed(self) -> int:
        number = self._unsigned()
        return number >> 1 ^ -(number & 1)
