"""The calibration in a run's folder, kept for the weights it was fitted for."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import final

from pydantic import BaseModel, ConfigDict

from blockhole.answering.calibration import Calibration
from blockhole.answering.derived import read_derived, weights_id
from blockhole.graph.replacing import replacing

CALIBRATION = "calibration.json"


@final
class _File(BaseModel):
    """The contents of calibration.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: str
    calibration: Calibration


def save_calibration(calibration: Calibration, folder: Path) -> Path:
    """Keep a calibration beside the weights it was fitted for."""
    path = folder / CALIBRATION
    text = _File(weights=weights_id(folder), calibration=calibration).model_dump_json(indent=1)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def load_calibration(folder: Path) -> Calibration | None:
    """The calibration of the run in `folder`; None where there is none, or one of other weights."""
    remedy = f"make it again with: blockhole calibrate {quote(str(folder))}"
    stored = read_derived(folder / CALIBRATION, _File, remedy)
    return stored.calibration if stored is not None and stored.weights == weights_id(folder) else None
