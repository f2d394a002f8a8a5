"""What a process sends in a step is what the formula counts, and headers: 2 % and 6 kB at most."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's count of what a socket has sent")
def test_two_processes_send_what_is_counted(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-m", "tests.distributed.volume_worker", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for mesh in ("1x2", "2x1"):
        steps = json.loads((tmp_path / f"{mesh}.json").read_text())
        assert len(steps) == 18
        for step in steps:
            assert step["counted"] > 100_000, step
            assert 0 <= step["sent"] - step["counted"] <= 0.02 * step["counted"] + 6000, (mesh, step)
