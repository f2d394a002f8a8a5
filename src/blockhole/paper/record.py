"""The outcome of one experiment, as a JSON file: figures, and all that is needed to obtain them again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from pydantic import BaseModel, ConfigDict, ValidationError

from blockhole.errors import DataError
from blockhole.graph.replacing import replacing


@final
class Record(BaseModel):
    """Figures of one experiment. `settings` are as declared; `epochs` and `best_epoch` say what came of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    data: str
    column: str
    seed: int
    split: str
    truth: str | None
    settings: dict[str, Any]
    members: int = 1
    words: int = 0
    lean: float = 0.0
    parameters: int | None
    epochs: int | None
    best_epoch: int | None
    loss: float | None
    seconds: float
    training_seconds: float
    device: str
    torch: str
    commit: str | None
    dirty: bool | None
    figures: dict[str, Any]


def record_file(results: Path, name: str) -> Path:
    """Where the record of the experiment `name` is kept below the folder `results`."""
    return results / f"{name}.json"


def write_record(results: Path, name: str, record: Record) -> Path:
    """Keep a record; the file."""
    file = record_file(results, name)
    text = json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
    with replacing(file) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return file


def read_record(file: Path) -> Record:
    """The record in `file`."""
    try:
        return Record.model_validate_json(file.read_bytes())
    except OSError as failure:
        raise DataError(f"{file} cannot be read ({failure.strerror}).") from None
    except ValidationError as failure:
        first = failure.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(
            f"{file} is no whole record ({place + ': ' if place else ''}{first['msg']}); "
            "remove it and run the experiment again, or restore it from a copy."
        ) from None


def read_records(results: Path) -> Iterator[Record]:
    """All records below a folder, in the order of their names."""
    if not results.is_dir():
        raise DataError(f"there is no folder {results} of results; name one with --results, or make records first.")
    for file in sorted(results.glob("*/*/*.json")):
        yield read_record(file)
