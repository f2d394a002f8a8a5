"""TSV and CSV files as columns of names.

TSV has no quoting: a name is what stands between two tabs, quotes and spaces included. CSV quotes as RFC 4180 does.
Lines may end in CRLF; blank lines are skipped. There are three columns, or four with a label 1 or -1. A first row that
only names the columns (`source, relation, target` and the like) is not a fact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import MalformedFile
from blockhole.graph.blocks import BYTE_ORDER_MARK, Block, text_blocks, whole_lines
from blockhole.graph.fact_table import COLUMNS, LABEL_REMEDY, empty_name, is_header, with_positive, wrong_label
from blockhole.graph.formats import FileFormat, Layout

if TYPE_CHECKING:
    import polars as pl

NEWLINE, RETURN, QUOTE = b"\n"[0], b"\r"[0], b'"'[0]


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows of a block are: offsets of their first bytes, blank rows left out; and the block without those."""

    block: Block
    start: NDArray[np.int64]
    data: bytes

    def line(self, row: int) -> int:
        """The line of the file in which a row starts."""
        return self.block.line_at(int(self.start[row]))


def read_delimited(path: Path, file_format: FileFormat) -> Iterator[pl.DataFrame]:
    """The facts of a TSV or CSV file, block by block: columns source, relation, target and, with labels, positive."""
    quoting = file_format.layout is Layout.CSV
    separator = "," if quoting else "\t"
    width: int | None = None
    for block in text_blocks(path, file_format.compression, _whole_rows if quoting else whole_lines):
        rows, width_here = _find_rows(path, block, separator, quoting, width)
        if not len(rows.start):
            continue
        table = _parse(rows.data, separator, quoting, width_here)
        if width is None and is_header([name or "" for name in table.row(0)]):
            table, rows = table.slice(1), Rows(block, rows.start[1:], rows.data)
        width = width_here
        _refuse_bad_cells(path, rows, table)
        yield with_positive(table)


def _whole_rows(data: bytes) -> int:
    """How many bytes of CSV text are whole rows: up to the last newline outside quotes."""
    end = data.rfind(b"\n") + 1
    while data.count(b'"', 0, end) % 2:
        end = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
    return end


def _find_rows(path: Path, block: Block, separator: str, quoting: bool, width: int | None) -> tuple[Rows, int]:
    """Check that every row has `width` columns (3 or 4 as in the first row, when None)."""
    text = np.frombuffer(block.data, dtype=np.uint8)
    ends_field = (text == ord(separator)) | (text == NEWLINE)
    if quoting and b'"' in block.data:
        _refuse_stray_quotes(path, block, text, ord(separator))
        ends_field &= ~np.bitwise_xor.accumulate(text == QUOTE)
    field_end = np.flatnonzero(ends_field)
    last_field = np.flatnonzero(text[field_end] == NEWLINE)
    fields = np.diff(last_field, prepend=-1)
    end = field_end[last_field]
    start = np.concatenate([[0], end[:-1] + 1])
    size = end - start
    blank = (size == 0) | ((size == 1) & (text[start] == RETURN))
    if width is None:
        width = next((int(count) for count in fields[~blank][:1] if count in (3, 4)), 3)
    wrong = np.flatnonzero((fields != width) & ~blank)
    if len(wrong):
        raise _wrong_width(path, block.line_at(int(start[wrong[0]])), int(fields[wrong[0]]), width, quoting)
    stray = field_end[(text[field_end - 1] == RETURN) & (text[field_end] != NEWLINE)]
    if len(stray):
        problem, remedy = "a carriage return at the end of a name", "delete it; only whole lines may end in one"
        raise MalformedFile(path, problem, remedy, block.line_at(int(stray[0])))
    data = text[np.repeat(~blank, size + 1)].tobytes() if blank.any() else block.data
    return Rows(block, start[~blank], data), width


def _wrong_width(path: Path, line: int, found: int, wanted: int, quoting: bool) -> MalformedFile:
    columns = f"{found} column{'s' * (found != 1)} instead of {wanted}"
    mark = "commas" if quoting else "tabs"
    labels = ", and the label 1 or -1" if wanted == 4 else ""
    return MalformedFile(path, columns, f"write source, relation and target{labels}, separated by {mark}", line)


def _refuse_stray_quotes(path: Path, block: Block, text: NDArray[np.uint8], separator: int) -> None:
    """Quotes must enclose a whole field, so that counting them tells what is inside."""
    quote = np.flatnonzero(text == QUOTE)
    padded = np.pad(text, (1, 2), constant_values=NEWLINE)  # padded[i + 1] is text[i]
    opening, closing = quote[0::2], quote[1::2]
    stray_opening = opening[~np.isin(padded[opening], (separator, NEWLINE, QUOTE))]
    after = padded[closing + 2]
    ends = np.isin(after, (separator, NEWLINE, QUOTE)) | ((after == RETURN) & (padded[closing + 3] == NEWLINE))
    stray = np.concatenate([stray_opening, closing[~ends], quote[-1:] if len(quote) % 2 else quote[:0]])
    if len(stray):
        raise MalformedFile(
            path,
            "a quote that does not enclose a whole field",
            'enclose the field in quotes and write a quote inside it twice ("")',
            block.line_at(int(stray.min())),
        )


def _parse(data: bytes, separator: str, quoting: bool, width: int) -> pl.DataFrame:
    import polars as pl

    if data.startswith(BYTE_ORDER_MARK):
        data = BYTE_ORDER_MARK + data  # polars drops one at the start; here it belongs to a name
    return pl.read_csv(
        data,
        separator=separator,
        quote_char='"' if quoting else None,
        has_header=False,
        infer_schema=False,
        schema=dict.fromkeys((*COLUMNS, "label")[:width], pl.String),
    )


def _refuse_bad_cells(path: Path, rows: Rows, table: pl.DataFrame) -> None:
    if empty := empty_name(table):
        row, column = empty
        raise MalformedFile(path, f"the {column} is empty", "give it a name or delete the line", rows.line(row))
    if "label" in table.columns and (wrong := wrong_label(table)):
        row, label = wrong
        raise MalformedFile(path, f"label {label!r} is neither 1 nor -1", LABEL_REMEDY, rows.line(row))
