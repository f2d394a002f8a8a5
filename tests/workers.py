"""What workers that run the tests side by side share, and what each must have for itself."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

MADE = "BLOCKHOLE_MADE"
"""The variable that names a folder of what was made before."""


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """An empty folder that `make` has filled, in whichever worker came first; or a copy of what was made before."""
    own = tmp_path_factory.getbasetemp()
    root = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, made = root / name, root / f"{name} is made"
    with FileLock(root / f"{name}.lock"):
        if not made.exists():
            if before := made_before(name):
                shutil.copytree(before, folder)
            else:
                folder.mkdir()
                make(folder)
            made.touch()
    return folder


def made_before(name: str) -> Path | None:
    """What `MADE` has under a name: scripts/mutation.py would train the same again for every mutant."""
    folder = Path(os.environ.get(MADE, os.devnull)) / name
    return folder if folder.is_dir() else None


def quiet_port() -> int:
    """A free port that stays free: below those that the system itself gives to whoever connects to something."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise AssertionError("all ports are taken")
