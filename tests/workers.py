"""What workers that run the tests side by side share, and what each must have for itself."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """An empty folder that `make` has filled, in whichever worker came first."""
    own = tmp_path_factory.getbasetemp()
    root = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, made = root / name, root / f"{name} is made"
    with FileLock(root / f"{name}.lock"):
        if not made.exists():
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


def quiet_port() -> int:
    """A free port that stays free: below those that the system itself gives to whoever connects to something."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise AssertionError("all ports are taken")
