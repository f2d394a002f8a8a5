"""Runs as training leaves them."""

from __future__ import annotations

import pytest

from blockhole import fitting


@pytest.fixture(autouse=True)
def _no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is calibrated: that takes ten times as long as so small a training, and has tests of its own."""
    monkeypatch.setattr(fitting, "_calibrate", lambda run, data: None)
