"""Starts the scripts of these tests, which fork processes: in a process of their own, that has started no thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_script(name: str, folder: Path, within: float = 300) -> str:
    """Let tests/distributed/NAME.py do its work in `folder`; what it wrote to standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-m", f"tests.distributed.{name}", str(folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=within,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr
