"""What the examples of the documentation find when they run: one core, and a family run that is trained once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from blockhole.cli.main import main

FAMILY = "blockhole train --data family --out runs/family --epochs 10"
"""The training that many guides begin with, word for word."""


@contextmanager
def _pinned() -> Iterator[None]:
    """Two threads that wait for each other take minutes for what one does in seconds where others use the machine."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@pytest.fixture
def one_core() -> Iterator[None]:
    """This process, and those that it starts, on one core while a test runs."""
    with _pinned():
        yield


@pytest.fixture(scope="session")
def family_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that `FAMILY` makes, trained once for all workers."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "family" / "run"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.parent / "lock"), _pinned():
        if not folder.exists():
            with pytest.raises(SystemExit) as ended:
                main([*FAMILY.replace("runs/family", str(folder)).split()[1:]])
            assert not ended.value.code
    return folder
