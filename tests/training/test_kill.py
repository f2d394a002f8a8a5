"""kill -9 at any moment leaves a run that loads and resumes to the same end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 20


@pytest.mark.slow
def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill_many.py")
    finished = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(KILLS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert report["killed"] == KILLS  # every life ended in the middle
    assert report["progress"] == sorted(report["progress"])  # none fell back behind a checkpoint
    assert report["progress"][-1] > report["progress"][0]  # and the lives took it onwards
    assert report["epochs"] == 60
    assert report["same"]
    assert report["same_metrics"]
    assert report["left_over"] == 0
