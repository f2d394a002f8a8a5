"""Runs, exports and a packed graph that version 0.1.0 wrote; `test_kept.py` says what is there."""

from __future__ import annotations

import shutil
from pathlib import Path

KEPT = Path(__file__).parent / "kept-0.1.0"


def copy_kept(folder: Path) -> Path:
    """A copy to work on; the runs name their data from there."""
    shutil.copytree(KEPT, folder)
    return folder
