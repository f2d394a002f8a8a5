"""Facts as a table of names: columns source, relation, target and, where facts are labelled, positive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
