"""One trained run for all tests of the answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.answering.toys import train_clockwork


@pytest.fixture(scope="session")
def clockwork(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained and calibrated run; read it only."""
    folder = tmp_path_factory.mktemp("clockwork")
    train_clockwork(folder)
    return folder / "run"


@pytest.fixture
def own_clockwork(clockwork: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    shutil.copytree(clockwork, tmp_path / "run")
    return tmp_path / "run"
