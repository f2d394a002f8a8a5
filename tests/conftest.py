"""What all tests share: where the real data is, and laws that are tested without a clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A deadline would make a law fail on a busy machine: the first call of a compiled loop alone takes seconds.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets; tests that need it skip only where it is missing."""
    named = os.environ.get("BLOCKHOLE_DATA")
    if not named or not Path(named).is_dir():
        pytest.skip("BLOCKHOLE_DATA names no folder of data sets")
    return Path(named).resolve()
