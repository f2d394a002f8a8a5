"""What a process sends in a step is what the formula counts, and headers: 2 % and 6 kB at most."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.distributed.scripts import run_script


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's count of what a socket has sent")
def test_two_processes_send_what_is_counted(tmp_path: Path) -> None:
    run_script("volume_worker", tmp_path)
    for mesh in ("1x2", "2x1"):
        steps = json.loads((tmp_path / f"{mesh}.json").read_text())
        assert len(steps) == 18
        for step in steps:
            assert step["counted"] > 100_000, step
            assert 0 <= step["sent"] - step["counted"] <= 0.02 * step["counted"] + 6000, (mesh, step)
