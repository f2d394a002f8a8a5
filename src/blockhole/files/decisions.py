"""Lists of facts that people review: a column `decision` says accept or reject, or is still empty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from blockhole.errors import DataError, MalformedFile
from blockhole.files.columns import COLUMNS
from blockhole.files.readers import read_facts
from blockhole.files.tables import check_table
from blockhole.saving import parse_json

if TYPE_CHECKING:
    import polars as pl

_JSON_LINES = (".jsonl", ".ndjson")
_ROW = '{"source": …, "relation": …, "target": …, "decision": "accept"}'


def read_decisions(path: Path) -> pl.DataFrame:
    """The rows of a list that were decided on: columns source, relation, target, and positive where accepted."""
    import polars as pl

    if not path.is_file():
        raise DataError(f"{path}: no such file; name a list that `blockhole predict` or `blockhole audit` wrote.")
    blocks = [_json_lines(path)] if path.suffix in _JSON_LINES else list(read_facts(path))
    if any("positive" not in block.columns for block in blocks):
        problem, remedy = "there is no column decision", "name a list with one, as `blockhole predict` writes it"
        raise MalformedFile(path, problem, remedy)
    none = pl.DataFrame(schema={**dict.fromkeys(COLUMNS, pl.String), "positive": pl.Boolean})
    return pl.concat([none, *blocks])


def _json_lines(path: Path) -> pl.DataFrame:
    import polars as pl

    names = (*COLUMNS, "decision")
    rows: list[tuple[str, ...]] = []
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise MalformedFile(path, "it is not text in UTF-8", "save it as UTF-8") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError:
            raise MalformedFile(path, "this is not JSON", f"write {_ROW}", number) from None
        values = [row.get(name) for name in names] if isinstance(row, dict) else []
        if not values or not all(isinstance(value, str) for value in values[:3]) or "decision" not in row:
            raise MalformedFile(path, "source, relation, target or decision is missing", f"write {_ROW}", number)
        rows.append(tuple("" if value is None else str(value) for value in values))
    return check_table(path, pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row"))
