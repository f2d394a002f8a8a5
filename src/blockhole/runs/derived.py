"""Files made from a run's weights: each names the weights it was made from, so that none outlives them unnoticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from blockhole.errors import DamagedRun
from blockhole.runs.checkpoint import BEST, WEIGHTS, read_record

_Record = TypeVar("_Record", bound=BaseModel)


def weights_id(folder: Path) -> str:
    """What tells the weights that answer questions from all others of the run in `folder`."""
    record = read_record(folder)
    if record.shards is not None:
        return record.shards
    return record.files[BEST if BEST in record.files else WEIGHTS]


def read_derived(path: Path, kind: type[_Record], remedy: str) -> _Record | None:
    """The contents of a JSON file beside the weights; None where there is no such file."""
    try:
        return kind.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as failure:
        reason = str(failure).splitlines()[0]
        raise DamagedRun(f"{path} cannot be read ({reason}); {remedy}") from None
