"""Facts in tables: TSV, CSV, Parquet, and OpenKE's id files, as columns of names.

`entity2id.txt` and `relation2id.txt` hold a count, then lines `name⇥id`; `train2id.txt`, `valid2id.txt` and
`test2id.txt` a count, then lines `source target relation`: the relation comes last.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self, TypeVar, final, overload

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import BlockholeWarning, MalformedFile, counted, quoted, why
from blockhole.files.columns import COLUMNS, Choice, Reading, check_values, choose, choose_in_text, named_roles
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


class OddNames(BlockholeWarning):
    """Names that may stand for missing values, that encode accents in two ways, or that are a header; they are kept."""


LABEL_REMEDY = (
    "write 1 for a fact and -1 for a false one, or name the other columns with --columns if it is not a label"
)


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


_ACCEPTED, _REJECTED = ("accept", "accepted", "yes", "y", "1", "true"), ("reject", "rejected", "no", "n", "0", "false")
DECISION_REMEDY = (
    "write accept or reject, or nothing where it is open; if the column means something else, name the others with "
    "--columns"
)


def _decision() -> pl.Expr:
    import polars as pl

    return pl.col("decision").fill_null("").str.strip_chars().str.to_lowercase()


def wrong_decision(table: pl.DataFrame) -> tuple[int, str] | None:
    """Row and text of the first decision that is none, if there is one."""
    wrong = table.select(~_decision().is_in(["", *_ACCEPTED, *_REJECTED])).to_series()
    if not wrong.any():
        return None
    row = int(wrong.to_numpy().argmax())
    return row, table["decision"][row]


def with_positive(table: pl.DataFrame) -> pl.DataFrame:
    """The column of labels 1 and -1, or of decisions, where there is one, as the column `positive`.

    Rows that nobody has decided on are left out: they are not known to be facts, nor to be none.
    """
    import polars as pl

    if "decision" in table.columns:
        decided = table.filter(_decision() != "")
        return decided.select(*COLUMNS, positive=_decision().is_in(_ACCEPTED))
    return table.select(*COLUMNS, positive=pl.col("label") == "1") if "label" in table.columns else table


def name_facts(entities: Sequence[str], relations: Sequence[str], triples: NDArray[np.int32]) -> pl.DataFrame:
    """The names of triples [T, 3]: columns source, relation, target."""
    import polars as pl

    entity, relation = pl.Series(entities, dtype=pl.String), pl.Series(relations, dtype=pl.String)
    columns = (entity.gather(triples[:, 0]), relation.gather(triples[:, 1]), entity.gather(triples[:, 2]))
    return pl.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


# TSV and CSV files as columns of names.
#
# TSV has no quoting: a name is what stands between two tabs, quotes and spaces included, unless a header is in quotes.
# CSV quotes as RFC 4180 does; spaces around its fields, and around those of any file with a header, do not count.
# Fields may also be separated by semicolons, bars or, where each line has three words, by spaces: the first lines tell.
# Lines may end in CRLF; rows of nothing but separators are skipped, and so are remarks before the first row. Without a
# header there are three columns, or a label as fourth.


NEWLINE, RETURN, QUOTE, TAB = b'\n\r"\t'
SAMPLE = 1 << 16
"""Bytes at the beginning of a file that tell how it is written."""
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}


@final
@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text file is written: what separates fields, whether quotes enclose them, and which is which."""

    separator: str
    quoting: bool
    trimmed: bool
    width: int
    choice: Choice
    remarks: int = 0

    def prepared(self, block: Block) -> bytes:
        """Rows without the spaces around fields, and with a tab where spaces separate them; remarks are blank lines."""
        data = block.data
        if (remarks := min(self.remarks - block.first_line + 1, data.count(b"\n"))) > 0:
            data = b"\n" * remarks + data.split(b"\n", remarks)[-1]
        if self.separator == " ":
            return re.sub(rb" +", b"\t", re.sub(rb"(?m)^ +| +(?=\r?$)", b"", data))
        return _trim(data, ord(self.separator), self.quoting) if self.trimmed else data

    def in_words(self, usual: str) -> str:
        """What separates the fields, where it is not the `usual` mark, and what is no row."""
        separated = "" if self.separator == usual else f"fields are separated by {_SEPARATORS[self.separator]}"
        remarks = f"{counted(self.remarks, 'line')} before the first row left out" if self.remarks else ""
        return "; ".join(filter(None, (separated, remarks)))

    @property
    def mark(self) -> str:
        """What separates the fields of prepared rows."""
        return "\t" if self.separator == " " else self.separator


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


def read_delimited(path: Path, file_format: FileFormat, reading: Reading) -> Iterator[pl.DataFrame]:
    """The facts of a TSV or CSV file, block by block: columns source, relation, target and, with labels, positive."""
    usual = "," if file_format.layout is Layout.CSV else "\t"
    dialect = find_dialect(path, _sample(text_blocks(path, file_format.compression)), usual, reading)
    if dialect is None:
        return
    told = dialect.choice.in_words(guessed=reading.columns is None)
    reading.note(path, "; ".join(filter(None, (told, dialect.in_words(usual)))))
    names = dialect.choice.names
    header = names is not None
    for raw in text_blocks(path, file_format.compression, _whole_rows if dialect.quoting else whole_lines):
        block = Block(dialect.prepared(raw), raw.first_line)
        rows = _find_rows(path, block, dialect)
        if not len(rows.start):
            continue
        table = _parse(rows.data, dialect)
        if header:
            table, rows, header = table.slice(1), Rows(block, rows.start[1:], rows.data), False
        _refuse_bad_cells(path, rows, table)
        if names is not None:
            _warn_of_headers(path, rows, table, [names[place] for place in dialect.choice.places])
        yield with_positive(table)


def find_dialect(path: Path, text: str, usual: str, reading: Reading) -> Dialect | None:
    """How a file is written that begins with `text`, or None without rows; its suffix tells the `usual` separator."""
    lines = [line for line in text.rstrip("\n").split("\r") if line.strip()]
    if len(lines) > 1 and not any("\n" in line for line in lines) and _alike(lines):
        remedy = "save the file with line ends of Windows or Unix"
        raise MalformedFile(path, "lines end in carriage returns only", remedy, 1)
    remarks = _remarks(text, usual)
    text = text.split("\n", remarks)[-1]
    separator = _separator(text, usual)
    quoting = usual == "," or separator not in "\t "
    rows = _split_sample(text, separator, quoting)
    if not rows:
        return None
    if not quoting and _quotes_enclose(rows, told=reading.columns is not None):
        quoting, rows = True, _split_sample(text, separator, quoting=True)
    choice = choose_in_text(path, rows, reading)
    if not quoting and all(map(_in_quotes, rows)):
        reading.note(path, "all names are in quotes and keep them; if they only enclose names, call the file .csv")
    width = len(rows[0]) if len(rows[0]) >= 3 else 3
    return Dialect(separator, quoting, quoting or choice.names is not None, width, choice, remarks)


def _alike(lines: Sequence[str]) -> bool:
    """Whether each line has three fields or more by the same mark."""
    return any(all(line.count(mark) > 1 for line in lines) for mark in "\t,;|")


def _remarks(text: str, usual: str) -> int:
    """How many lines at the beginning are no rows: `sep=;`, and lines with # that have not as many fields as a row."""
    lines = text.split("\n")
    count = 1 if re.fullmatch(r'"?sep=."?\r?', lines[0]) else 0
    first = next((i for i, line in enumerate(lines) if i >= count and line.strip() and line[0] != "#"), count)
    if not any(line.startswith("#") for line in lines[count:first]):
        return count
    body = "\n".join(lines[first:])
    separator = _separator(body, usual)
    width = len(_split_sample(body, separator, quoting=usual == ",")[0])
    split = (_split_sample(line, separator, quoting=False) for line in lines[count:first])
    return next((i for i, rows in enumerate(split, count) if rows and len(rows[0]) == width), first)


def _quotes_enclose(rows: Sequence[Sequence[str]], *, told: bool) -> bool:
    """Whether quotes of TSV only enclose names: those of its header, or those of all rows below one."""
    first, *others = rows
    if _in_quotes(first):
        return told or named_roles([field[1:-1] for field in first]) == 3
    return named_roles(first) == 3 and all(map(_in_quotes, others))


def _in_quotes(row: Sequence[str]) -> bool:
    return all(len(field) > 1 and field[0] == field[-1] == '"' for field in row)


def reads_as_facts(data: bytes) -> bool:
    """Whether the first line of TSV that begins with `data` is read as a fact and not as a header."""
    try:
        dialect = find_dialect(Path(), _beginning(data).decode(), "\t", Reading())
    except MalformedFile:
        return False
    return dialect is None or dialect.choice.names is None


def _sample(blocks: Iterator[Block]) -> str:
    """Whole lines at the beginning of a file; the same ones however it is cut into blocks."""
    data = b""
    for block in blocks:
        data += block.data
        if len(data) > SAMPLE:
            break
    return _beginning(data).decode()


def _beginning(data: bytes) -> bytes:
    """The lines that end within `SAMPLE` bytes, or else the first."""
    if len(data) <= SAMPLE:
        return data
    return data[: (data.rfind(b"\n", 0, SAMPLE) + 1) or (data.find(b"\n") + 1)]


def _separator(text: str, usual: str) -> str:
    """What separates the fields of a sample: what parts all lines alike, the `usual` mark where none does."""
    lines = [line for line in text.split("\n") if line.strip()]
    for mark in (usual, *(each for each in ",\t;|" if each != usual)):
        widths = {len(row) for row in _split_sample(text, mark, mark != "\t" or usual == ",")}
        if len(widths) == 1 and widths.pop() >= 3:
            return mark
    if lines and set(text).isdisjoint(",\t;|") and all(len(re.split(" +", line.strip())) == 3 for line in lines):
        return " "
    return usual


def _split_sample(text: str, separator: str, quoting: bool) -> list[list[str]]:
    """The rows of a sample, spaces around fields left out; the last one may end in the middle of a quoted field."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if separator == " ":
        return [re.split(" +", line.strip()) for line in lines if line.strip()]
    if not quoting or '"' not in text:
        blank = f" {separator}" if quoting else separator  # a name of TSV may be a space
        kept = (line for line in lines if line.strip(" ") and line.strip(blank))
        return [[field.strip(" ") for field in line.split(separator)] for line in kept]
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True))
    except csv.Error:
        return [[field.strip() for field in line.split(separator)] for line in lines if line.strip()]
    rows = [row for row in rows if any(map(str.strip, row))]
    cut_off = len(rows) > 1 and len(rows[-1]) != len(rows[0]) and len(text.encode()) > SAMPLE // 2
    return [[field.strip() for field in row] for row in (rows[:-1] if cut_off else rows)]


def _trim(data: bytes, separator: int, quoting: bool) -> bytes:
    """Rows without the spaces that begin or end a field outside quotes."""
    mark = bytes([separator])
    blanks = (b" ",) if separator == TAB else (b" ", b"\t")
    around = [
        pair for blank in blanks for pair in (mark + blank, blank + mark, b"\n" + blank, blank + b"\n", blank + b"\r")
    ]
    if not data.startswith(blanks) and not any(pair in data for pair in around):
        return data
    text = np.frombuffer(data, dtype=np.uint8)
    outside = np.ones(len(text), dtype=bool)
    if quoting and b'"' in data:
        outside = ~np.bitwise_xor.accumulate(text == QUOTE)
    blank = np.isin(text, [ord(each) for each in blanks]) & outside
    between = ((text == separator) | (text == NEWLINE)) & outside
    begins = np.concatenate([[True], between[:-1]])  # whether a field begins at a byte
    ends = np.concatenate([between[1:], [True]])  # whether one ends with it
    ends[:-2] |= (text[1:-1] == RETURN) & (text[2:] == NEWLINE)
    at = np.flatnonzero(blank)
    if not len(at):
        return data
    starts = np.diff(at, prepend=-2) > 1  # a run of blanks goes from one start to the next
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(at)) - 1
    outer = begins[at[first]] | ends[at[last]]
    keep = np.ones(len(text), dtype=bool)
    keep[at[outer[np.cumsum(starts) - 1]]] = False
    return text[keep].tobytes()


def _whole_rows(data: bytes) -> int:
    """How many bytes of CSV text are whole rows: up to the last newline outside quotes."""
    end = data.rfind(b"\n") + 1
    while data.count(b'"', 0, end) % 2:
        end = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
    return end


def _find_rows(path: Path, block: Block, dialect: Dialect) -> Rows:
    """Check that every row has as many columns as the first."""
    text = np.frombuffer(block.data, dtype=np.uint8)
    separator = ord(dialect.mark)
    ends_field = (text == separator) | (text == NEWLINE)
    if dialect.quoting and b'"' in block.data:
        _refuse_stray_quotes(path, block, text, separator)
        ends_field &= ~np.bitwise_xor.accumulate(text == QUOTE)
    field_end = np.flatnonzero(ends_field)
    last_field = np.flatnonzero(text[field_end] == NEWLINE)
    fields = np.diff(last_field, prepend=-1)
    end = field_end[last_field]
    start = np.concatenate([[0], end[:-1] + 1])
    size = end - start
    blank = size - ((size > 0) & (text[end - 1] == RETURN)) == fields - 1  # nothing but what separates fields
    wrong = np.flatnonzero((fields != dialect.width) & ~blank)
    if len(wrong):
        raise _wrong_width(path, block.line_at(int(start[wrong[0]])), int(fields[wrong[0]]), dialect)
    stray = field_end[(text[field_end - 1] == RETURN) & (text[field_end] != NEWLINE)]
    if len(stray):
        problem, remedy = "a carriage return at the end of a name", "delete it; only whole lines may end in one"
        raise MalformedFile(path, problem, remedy, block.line_at(int(stray[0])))
    data = text[np.repeat(~blank, size + 1)].tobytes() if blank.any() else block.data
    return Rows(block, start[~blank], data)


def _wrong_width(path: Path, line: int, found: int, dialect: Dialect) -> MalformedFile:
    columns = f"{counted(found, 'column')} instead of {dialect.width}"
    mark = _SEPARATORS[dialect.separator]
    if dialect.choice.names is not None and dialect.width > 3:
        return MalformedFile(path, columns, f"write as many fields as the header has, separated by {mark}", line)
    labels = ", and the label 1 or -1" if dialect.width == 4 else ""
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


def _parse(data: bytes, dialect: Dialect) -> pl.DataFrame:
    import polars as pl

    if data.startswith(BYTE_ORDER_MARK):
        data = BYTE_ORDER_MARK + data  # polars drops one at the start; here it belongs to a name
    table = pl.read_csv(
        data,
        separator=dialect.mark,
        quote_char='"' if dialect.quoting else None,
        has_header=False,
        infer_schema=False,
        schema=dict.fromkeys(map(str, range(dialect.width)), pl.String),
    )
    return table.select(**{role: pl.col(str(place)) for role, place in dialect.choice.roles().items()})


def _refuse_bad_cells(path: Path, rows: Rows, table: pl.DataFrame) -> None:
    if empty := empty_name(table):
        row, column = empty
        raise MalformedFile(path, f"the {column} is empty", "give it a name or delete the line", rows.line(row))
    if "label" in table.columns and (wrong := wrong_label(table)):
        row, label = wrong
        raise MalformedFile(path, f"label {quoted(label)} is neither 1 nor -1", LABEL_REMEDY, rows.line(row))
    if "decision" in table.columns and (wrong := wrong_decision(table)):
        row, text = wrong
        raise MalformedFile(path, f"the decision {quoted(text)} is not known", DECISION_REMEDY, rows.line(row))


def _warn_of_headers(path: Path, rows: Rows, table: pl.DataFrame, names: Sequence[str]) -> None:
    """Say that a header stands in the middle, as where files were put together."""
    import polars as pl

    again = table.select(pl.all_horizontal(pl.col(role) == name for role, name in zip(COLUMNS, names, strict=True)))
    if (places := again.to_series().arg_true()).len():
        warnings.warn(
            f"{path}, line {rows.line(places[0])}: the header stands here again and is read as a fact; delete the line "
            "if files were put together.",
            OddNames,
            stacklevel=5,
        )


# Parquet files as columns of names.


ROWS = 1_000_000


def read_parquet(path: Path, reading: Reading) -> Iterator[pl.DataFrame]:
    """The facts of a Parquet file: columns source, relation, target and, where there is a label, positive.

    Columns are found by name; `label` holds 1 or -1.
    """
    import polars as pl

    require_file(path)
    rows = pl.scan_parquet(path, glob=False)
    with _parquet_of_names(path), reading_parquet(path):
        schema = rows.collect_schema()
        names = _column_names(path, schema, reading, rows)
        table = rows.select(**{role: as_names(pl.col(name), schema[name]) for role, name in names.items()})
        count = rows.select(pl.len()).collect().item()
    for first in range(0, count, ROWS):
        with _parquet_of_names(path), panics_as_errors():  # what it tells of itself is believed by now
            block = check_table(path, table.slice(first, ROWS).collect(), first)
        yield block


def first_rows(table: pl.LazyFrame) -> list[tuple[str | None, ...]]:
    """The beginning of a table as text, without what is no text, number, date or truth value."""
    import polars as pl

    plain = (pl.String, pl.Boolean, pl.Categorical, pl.Enum, pl.Date, pl.Datetime)
    columns = [
        (as_names(pl.col(name), kind) if kind.is_numeric() or kind.base_type() in plain else pl.lit(None)).alias(name)
        for name, kind in table.collect_schema().items()
    ]
    return table.head(LOOKED_AT).select(columns).collect().rows()


LOOKED_AT = 1000
"""Rows that tell what the columns of a table hold."""


def as_names(column: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """A column as text; whole numbers that were stored as floats, as they are beside a hole, stay whole."""
    import polars as pl

    if not kind.is_float():
        return column.cast(pl.String)
    whole = column.is_finite() & (column == column.floor()) & (column.abs() < 2**53)
    text = pl.when(whole).then(column.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(column.cast(pl.String))
    return pl.when(column.is_nan()).then(None).otherwise(text)


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


def _column_names(path: Path, schema: pl.Schema, reading: Reading, rows: pl.LazyFrame) -> dict[str, str]:
    """Which column of the file holds what."""
    names = schema.names()
    if reading.columns is None and {"split", "subject", "object"} <= set(names):
        raise MalformedFile(path, "facts by id, whose names are in the files beside it", "name the folder instead")
    choice = choose(path, names, reading.columns)
    if reading.columns is None:
        check_values(path, choice, first_rows(rows))
    reading.note(path, choice.in_words(guessed=reading.columns is None))
    return {role: names[place] for role, place in choice.roles().items()}


def check_table(path: Path, table: pl.DataFrame, first: int = 0) -> pl.DataFrame:
    """The facts of a table from row `first` on, with labels and decisions as `positive`; bad cells are refused."""
    if empty := empty_name(table):
        row, column = empty
        raise MalformedFile(path, f"the {column} of row {first + row + 1} is empty", "give it a name or delete the row")
    if "label" in table.columns and (wrong := wrong_label(table)):
        row, label = wrong
        raise MalformedFile(path, f"label {quoted(label)} of row {first + row + 1} is neither 1 nor -1", LABEL_REMEDY)
    if "decision" in table.columns and (wrong := wrong_decision(table)):
        row, text = wrong
        problem = f"the decision {quoted(text)} of row {first + row + 1} is not known"
        raise MalformedFile(path, problem, DECISION_REMEDY)
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
        raise MalformedFile(path, f"{quoted(rows['1'][at])} is listed twice", "keep one of the lines", int(lines[at]))
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
            path, f"{quoted(lines[at])} is not {wanted}", f"write {wanted}, separated by a tab", int(number[at])
        )
    if lines[0].strip() != str(len(rows)):
        raise MalformedFile(
            path,
            f"the first line says {quoted(lines[0].strip())}, but the number of lines after it is {len(rows):,}",
            "write how many lines follow, or fetch the file again",
            int(number[0]),
        )
    digits = [name for name in rows.columns if name != "1" or len(rows.columns) == 3]
    return number[1:], rows.with_columns(pl.col(digits).cast(pl.Int32))


# Rows that are no facts: answers, and lists to review.

Row = TypeVar("Row")


class Listed(Sequence[Row]):
    """A data class that is the list of rows in its field `_rows`, and whose parts are such lists too."""

    __slots__ = ()
    _rows: ClassVar[str]

    def __len__(self) -> int:
        return len(getattr(self, self._rows))

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Row | Self:
        found: Row = getattr(self, self._rows)[index]
        if not isinstance(index, slice):
            return found
        whole: Any = self  # a data class, as all lists of rows are
        part: Self = replace(whole, **{self._rows: found})
        return part

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks; columns that say nothing are left out."""
        from html import escape

        first: Iterator[Any] = islice(self, _SHOWN_ROWS)
        rows = [{name: _cell(value) for name, value in asdict(row).items()} for row in first]
        names = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
        lines = [[f"<th>{escape(name)}</th>" for name in names]]
        lines += [[f"<td>{escape(row[name])}</td>" for name in names] for row in rows]
        if len(self) > len(rows):
            lines.append([f'<td colspan="{len(names)}">and {len(self) - len(rows):,} more</td>'])
        body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
        return f"<table><caption>{type(self).__name__}: {len(self):,}</caption>{body}</table>"


_SHOWN_ROWS = 20


def _cell(value: object) -> str:
    """A value as a notebook shows it."""
    match value:
        case None:
            return ""
        case float():
            return f"{value:.3f}" if value == 0 or abs(value) >= 0.1 else f"{value:.3g}"
        case tuple() | list():
            return ", ".join(map(_cell, value))
    return str(value)


ROW_FILES = (".parquet", ".csv", ".tsv", ".jsonl", ".arrow")
"""What rows are written as: the suffixes of files."""


def write_rows(rows: pl.DataFrame, to: Path | IO[bytes], suffix: str) -> None:
    """Write the rows of a frame as Parquet, CSV, TSV, JSON lines or an Arrow stream, whichever the suffix says."""
    match suffix:
        case ".parquet":
            rows.write_parquet(to)
        case ".arrow":
            rows.write_ipc_stream(to)
        case ".jsonl":
            rows.write_ndjson(to)
        case _:
            # Quoted throughout in both: names may hold what separates fields.
            rows.write_csv(to, separator="," if suffix == ".csv" else "\t", quote_style="non_numeric")
