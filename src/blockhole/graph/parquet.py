"""Parquet files as columns of names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from blockhole.errors import MalformedFile
from blockhole.graph.compressed import require_file
from blockhole.graph.fact_table import COLUMNS, HEADERS, LABEL_REMEDY, empty_name, with_positive, wrong_label

if TYPE_CHECKING:
    import polars as pl

ROWS = 1_000_000


def read_parquet(path: Path) -> Iterator[pl.DataFrame]:
    """The facts of a Parquet file: columns source, relation, target and, where there is a label, positive.

    Columns are found by name, or else are the first three; `label` holds 1 or -1.
    """
    import polars as pl

    require_file(path)
    try:
        rows = pl.scan_parquet(path, glob=False)
        names = _column_names(path, rows.collect_schema())
        table = rows.select(**{name: pl.col(found).cast(pl.String) for name, found in names.items()})
        count = rows.select(pl.len()).collect().item()
        for first in range(0, count, ROWS):
            yield _checked(path, table.slice(first, ROWS).collect(), first)
    except pl.exceptions.PolarsError as failure:
        reason = str(failure).splitlines()[0]
        raise MalformedFile(
            path,
            f"not a Parquet file of names ({reason})",
            "write it again, with text columns source, relation, target",
        ) from None


def _column_names(path: Path, schema: pl.Schema) -> dict[str, str]:
    """Which column of the file holds what."""
    names = schema.names()
    if len(names) < len(COLUMNS):
        raise MalformedFile(
            path,
            f"{len(names)} column{'s' * (len(names) != 1)} ({', '.join(names)}) instead of 3",
            "write columns source, relation and target",
        )
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
