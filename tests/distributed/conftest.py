"""The runs that processes of run_worker.py train, once for all tests that look at them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from blockhole.fitting import train
from tests.distributed.runs import AVERAGED, SETTINGS, data
from tests.distributed.scripts import run_script
from tests.workers import made_once


def _train(folder: Path) -> None:
    (folder / "stderr").write_text(run_script("run_worker", folder, within=600))
    train(data(), settings=SETTINGS, out=folder / "alone")
    train(data(), settings=AVERAGED, out=folder / "averaged alone")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where run_worker.py has done all it does."""
    return made_once(tmp_path_factory, "runs of processes", _train)


@pytest.fixture
def statuses(folder: Path) -> dict[str, list[int]]:
    """The exit statuses of each group's processes."""
    sys.stderr.write((folder / "stderr").read_text())  # pytest shows it where a group ended with another status
    found: dict[str, list[int]] = json.loads((folder / "statuses.json").read_text())
    return found
