"""What all tests share: where the real data is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets; tests that need it skip only where it is missing."""
    named = os.environ.get("BLOCKHOLE_DATA")
    if named is None or not Path(named).is_dir():
        pytest.skip("BLOCKHOLE_DATA names no folder of data sets")
    return Path(named).resolve()
