"""kill -9 at any moment leaves a run that loads and resumes to the same end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep import WHOLE

KILLS = 10 if WHOLE else 5


@pytest.mark.slow
def test_kills_lose_nothing() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.training.kill_many", str(KILLS)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr + finished.stdout
    report = json.loads(finished.stdout)
    assert report["killed"] == KILLS
    for run in report["runs"]:
        assert run["progress"] == sorted(run["progress"])  # none fell back behind a checkpoint
        assert run["same_weights"]
        assert run["same_metrics"]
        assert run["left_over"] == 0
    onwards = [run["progress"][-1] > run["progress"][0] for run in report["runs"] if run["progress"]]
    assert any(onwards)  # lives take a run onwards
