"""The trained run that answers are asked of, to be changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def own_clockwork(clockwork: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    shutil.copytree(clockwork, tmp_path / "run")
    return tmp_path / "run"
