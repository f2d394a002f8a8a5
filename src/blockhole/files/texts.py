"""Tables of texts about entities: the first column has their names, all others what is said about them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from blockhole.errors import MalformedFile, why
from blockhole.files.formats import require_file
from blockhole.graph.parquet import reading_parquet

_SEPARATORS = "\t,;|"


def read_texts(path: Path) -> dict[str, str]:
    """Name → texts, those of several columns and lines joined; a header is a line like any other, about no entity."""
    require_file(path)
    told: dict[str, list[str]] = {}
    for name, *texts in _parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _delimited(path):
        told.setdefault(name.strip(), []).extend(texts)
    return {name: " ".join(texts) for name, texts in told.items()}


def _parquet(path: Path) -> list[list[str]]:
    import polars as pl

    try:
        with reading_parquet(path):
            table = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as failure:
        raise MalformedFile(path, f"not a Parquet file of texts ({why(failure)})", "write it again") from None
    texts = [name for name, kind in table.schema.items() if kind in (pl.String, pl.Categorical)]
    if table.width < 2 or table.columns[0] not in texts:
        raise _without_texts(path)
    rows = table.select(pl.col(texts).cast(pl.String).fill_null("")).iter_rows()
    return [list(row) for row in rows]


def _delimited(path: Path) -> list[list[str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise MalformedFile(path, "it is not text in UTF-8", "save it as UTF-8") from None
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)  # the first of those that are equally frequent
    if separator not in first:
        raise _without_texts(path)
    try:
        return [row for row in csv.reader(io.StringIO(text), delimiter=separator) if row]
    except csv.Error as failure:
        raise MalformedFile(path, f"it is not a table: {failure}", "write it as CSV or TSV") from None


def _without_texts(path: Path) -> MalformedFile:
    return MalformedFile(
        path, "there is no column of texts", "put the names of entities into the first column and texts into others"
    )
