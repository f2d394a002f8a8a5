"""Files made from a run's weights: each names the weights it was made from, so that none outlives them unnoticed."""

from __future__ import annotations

from pathlib import Path

from blockhole.training.checkpoint import BEST, WEIGHTS, read_record


def weights_id(folder: Path) -> str:
    """What tells the weights that answer questions from all others of the run in `folder`."""
    files = read_record(folder).files
    return files.get(BEST, files[WEIGHTS])
