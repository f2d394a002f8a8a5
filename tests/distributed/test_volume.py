"""Processes make the batches of a packed graph together, and send what the formulas count, in a step too.

Beyond what is counted they send headers: 2 % and 6 kB at most.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.volume import batch_bytes
from blockhole.training.distributed.mesh import MeshShape
from tests.distributed.scripts import run_script
from tests.distributed.volume_worker import MESHES, STEP_MESHES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where volume_worker.py has written what it found."""
    folder = tmp_path_factory.mktemp("volume")
    run_script("volume_worker", folder)
    return folder


@pytest.fixture(scope="module")
def reports(folder: Path) -> dict[str, dict[str, object]]:
    """What it found of batches on each mesh."""
    return {mesh: json.loads((folder / f"batches-{mesh}.json").read_text()) for mesh in MESHES}


@pytest.mark.parametrize("mesh", MESHES)
def test_a_batch_is_the_same_whoever_makes_it(reports: dict[str, dict[str, int]], mesh: str) -> None:
    assert reports[mesh]["compared"] > 100


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's count of what a socket has sent")
@pytest.mark.parametrize("mesh", MESHES)
def test_processes_send_what_is_counted(reports: dict[str, dict[str, list[dict[str, float]]]], mesh: str) -> None:
    steps = reports[mesh]["volume"]
    assert len(steps) >= 2
    for step in steps:
        assert step["counted"] > 90_000
        assert 0 <= step["sent"] - step["counted"] <= 0.02 * step["counted"] + 6000, step


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's count of what a socket has sent")
@pytest.mark.parametrize("mesh", STEP_MESHES)
def test_two_processes_send_in_a_step_what_is_counted(folder: Path, mesh: str) -> None:
    steps = json.loads((folder / f"steps-{mesh}.json").read_text())
    assert len(steps) == 18
    for step in steps:
        assert step["counted"] > 100_000, step
        assert 0 <= step["sent"] - step["counted"] <= 0.02 * step["counted"] + 6000, step


def test_the_volume_of_making_a_batch_by_hand() -> None:
    assert batch_bytes(MeshShape(1, 1), 100, hops=1) == 0
    assert batch_bytes(MeshShape(1, 2), 100, hops=1) == 50 * 3 * 4
    assert batch_bytes(MeshShape(2, 2), 101, hops=5) == 3 * 26 * 7 * 4
