"""Runs as training leaves them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _as_training_leaves_them(uncalibrated: None) -> None:
    """No run is calibrated."""
