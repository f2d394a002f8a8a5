"""The family run that guides begin with, trained once for all workers that run the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from blockhole.cli.main import main

FAMILY = "blockhole train --data family --out runs/family --epochs 10"
"""The training that many guides begin with, word for word."""

SETTINGS = {"training.epochs": 10}
"""The same in Python, beyond the defaults."""


@contextmanager
def pinned() -> Iterator[None]:
    """Two threads that wait for each other take minutes for what one does in seconds where others use the machine.

    Each worker has a core in turn: all on one would leave the others idle.
    """
    cores = os.sched_getaffinity(0)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    os.sched_setaffinity(0, {sorted(cores)[worker % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def train_family(folder: Path) -> None:
    """Make the run of `FAMILY` in a folder."""
    with pinned(), redirect_stdout(StringIO()), pytest.raises(SystemExit) as ended:
        main(FAMILY.replace("runs/family", str(folder / "run")).split()[1:])
    assert not ended.value.code
