"""Facts in tables: TSV, CSV, Parquet, and OpenKE's id files, as columns of names.

`entity2id.txt` and `relation2id.txt` hold a count, then lines `name⇥id`; `train2id.txt`, `valid2id.txt` and
`test2id.txt` a count, then lines `source target relation`: the relation comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import MalformedFile, counted, why
from blockhole.files.formats import (
    BYTE_ORDER_MARK,
    Block,
    Compression,
    FileFormat,
    Layout,
    require_file,
    text_blocks,
    whole_lines,
)
from blockhole.files.rdf import split_lines
from blockhole.graph.parquet import panics_as_errors, reading_parquet
from blockhole.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl


COLUMNS = ("source", "relation", "target")
HEADERS = (COLUMNS, ("head", "relation", "tail"), ("subject", "predicate", "object"))
"""The names that the three columns go by in files."""

LABEL_REMEDY = "write 1 for a fact and -1 for a false one"


def is_header(row: Sequence[str]) -> bool:
    """Whether a first row only names the columns."""
    return tuple(name.casefold() for name in row[:3]) in HEADERS


def empty_name(table: pl.DataFrame) -> tuple[int, str] | None:
    """Row and column of the first name that is empty or missing, if there is one."""
    found = []
    for column in COLUMNS:
        empty = table[column].is_null() | (table[column] == "")
        if empty.any():
            found.append((int(empty.to_numpy().argmax()), column))
    return min(found, key=lambda place: place[0], default=None)


def wrong_label(table: pl.DataFrame) -> tuple[int, str] | None:
    """Row and text of the first label that is neither 1 nor -1, if there is one."""
    known = table["label"].is_in(["1", "-1"]).fill_null(False)
    if known.all():
        return None
    row = int((~known).to_numpy().argmax())
    return row, table["label"][row] or ""


def with_positive(table: pl.DataFrame) -> pl.DataFrame:
    """The column of labels 1 and -1, where there is one, as the column `positive`."""
    import polars as pl

    return table.select(*COLUMNS, positive=pl.col("label") == "1") if "label" in table.columns else table


def name_facts(entities: Sequence[str], relations: Sequence[str], triples: NDArray[np.int32]) -> pl.DataFrame:
    """The names of triples [T, 3]: columns source, relation, target."""
    import polars as pl

    entity, relation = pl.Series(entities, dtype=pl.String), pl.Series(relations, dtype=pl.String)
    columns = (entity.gather(triples[:, 0]), relation.gather(triples[:, 1]), entity.gather(triples[:, 2]))
    return pl.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


# TSV and CSV files as columns of names.
#
# TSV has no quoting: a name is what stands between two tabs, quotes and spaces included. CSV quotes as RFC 4180 does.
# Lines may end in CRLF; blank lines are skipped. There are three columns, or four with a label 1 or -1. A first row
# that only names the columns (`source, relation, target` and the like) is not a fact.


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
    columns = f"{counted(found, 'column')} instead of {wanted}"
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


# Parquet files as columns of names.


ROWS = 1_000_000


def read_parquet(path: Path) -> Iterator[pl.DataFrame]:
    """The facts of a Parquet file: columns source, relation, target and, where there is a label, positive.

    Columns are found by name, or else are the first three; `label` holds 1 or -1.
    """
    import polars as pl

    require_file(path)
    rows = pl.scan_parquet(path, glob=False)
    with _parquet_of_names(path), reading_parquet(path):
        names = _column_names(path, rows.collect_schema())
        table = rows.select(**{name: pl.col(found).cast(pl.String) for name, found in names.items()})
        count = rows.select(pl.len()).collect().item()
    for first in range(0, count, ROWS):
        with _parquet_of_names(path), panics_as_errors():  # what it tells of itself is believed by now
            block = _checked(path, table.slice(first, ROWS).collect(), first)
        yield block


@contextmanager
def _parquet_of_names(path: Path) -> Iterator[None]:
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as failure:
        raise MalformedFile(
            path,
            f"not a Parquet file of names ({why(failure)})",
            "write it again, with text columns source, relation, target",
        ) from None


def _column_names(path: Path, schema: pl.Schema) -> dict[str, str]:
    """Which column of the file holds what."""
    names = schema.names()
    if len(names) < len(COLUMNS):
        raise MalformedFile(
            path,
            f"{counted(len(names), 'column')} ({', '.join(names)}) instead of 3",
            "write columns source, relation and target",
        )
    if {"split", "subject", "object"} <= set(names):
        raise MalformedFile(path, "facts by id, whose names are in the files beside it", "name the folder instead")
    found = next((header for header in HEADERS if set(header) <= set(names)), tuple(names[:3]))
    label = {"label": "label"} if "label" in names and "label" not in found else {}
    return dict(zip(COLUMNS, found, strict=True)) | label


def _checked(path: Path, table: pl.DataFrame, first: int) -> pl.DataFrame:
    if empty := empty_name(table):
        row, column = empty
        raise MalformedFile(path, f"the {column} of row {first + row + 1} is empty", "give it a name or delete the row")
    if "label" in table.columns and (wrong := wrong_label(table)):
        row, label = wrong
        raise MalformedFile(path, f"label {label!r} of row {first + row + 1} is neither 1 nor -1", LABEL_REMEDY)
    return with_positive(table)


# OpenKE's id files.


ENTITIES, RELATIONS = "entity2id.txt", "relation2id.txt"


def read_names(path: Path, kind: str) -> Vocabulary:
    """The names of an `entity2id.txt` or `relation2id.txt`, by id."""
    lines, rows = _body(path, r"^(.*\S)[ \t]+([0-9]{1,9})\s*$", "a name and an id")
    ids = rows["2"].to_numpy()
    order = np.argsort(ids, kind="stable")
    wrong = np.flatnonzero(ids[order] != np.arange(len(ids)))
    if len(wrong):
        at = int(order[wrong[0]])
        problem = f"id {ids[at]} where the ids should be 0 to {len(ids) - 1}, each once"
        raise MalformedFile(path, problem, "number the names from 0 without gaps", int(lines[at]))
    names = rows["1"].gather(order)
    if names.is_duplicated().any():
        at = int(rows["1"].is_first_distinct().not_().arg_max() or 0)
        raise MalformedFile(path, f"{rows['1'][at]!r} is listed twice", "keep one of the lines", int(lines[at]))
    return Vocabulary(names, kind)


def read_ids(path: Path, num_entities: int, num_relations: int) -> NDArray[np.int32]:
    """The facts of a `…2id.txt` file as source, relation, target; shape [T, 3]."""
    lines, rows = _body(path, r"^\s*([0-9]{1,9})[ \t]+([0-9]{1,9})[ \t]+([0-9]{1,9})\s*$", "three ids")
    triples = rows.select("1", "3", "2").to_numpy().astype(np.int32)
    wrong = np.flatnonzero((triples >= (num_entities, num_relations, num_entities)).any(axis=1))
    if len(wrong):
        raise MalformedFile(
            path,
            f"an id that {ENTITIES} or {RELATIONS} does not have",
            "write source, target, relation, in this order",
            int(lines[wrong[0]]),
        )
    return triples


def _body(path: Path, pattern: str, wanted: str) -> tuple[NDArray[np.int64], pl.DataFrame]:
    """Line numbers and groups of `pattern` of all lines after the count; digits become integers."""
    import polars as pl

    text = "".join(block.data.decode() for block in text_blocks(path, Compression.NONE))
    lines = split_lines(text)
    number = np.arange(1, len(lines) + 1)
    blank = lines.str.contains(r"^\s*$")
    lines, number = lines.filter(~blank), number[~blank.to_numpy()]
    if not len(lines):
        raise MalformedFile(path, "the file is empty", f"write the number of lines, then {wanted} per line")
    rows = lines[1:].str.extract_groups(pattern).struct.unnest()
    wrong = rows["1"].is_null()
    if wrong.any():
        at = int(wrong.arg_max() or 0) + 1
        raise MalformedFile(
            path, f"{lines[at]!r} is not {wanted}", f"write {wanted}, separated by a tab", int(number[at])
        )
    if lines[0].strip() != str(len(rows)):
        raise MalformedFile(
            path,
            f"the first line says {lines[0].strip()!r}, but the number of lines after it is {len(rows):,}",
            "write how many lines follow, or fetch the file again",
            int(number[0]),
        )
    digits = [name for name in rows.columns if name != "1" or len(rows.columns) == 3]
    return number[1:], rows.with_columns(pl.col(digits).cast(pl.Int32))
