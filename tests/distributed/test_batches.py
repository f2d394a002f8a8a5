"""Processes make the batches of a packed graph together: the same batches, and as many bytes as are counted."""

from __future__ import annotations

import json
import sys

import pytest

from blockhole.training.distributed.mesh import MeshShape, batch_bytes
from tests.distributed.batch_worker import MESHES
from tests.distributed.scripts import run_script


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """What batch_worker.py found on each mesh."""
    folder = tmp_path_factory.mktemp("batches")
    run_script("batch_worker", folder)
    return {mesh: json.loads((folder / f"{mesh}.json").read_text()) for mesh in MESHES}


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


def test_the_volume_of_making_a_batch_by_hand() -> None:
    assert batch_bytes(MeshShape(1, 1), 100, hops=1) == 0
    assert batch_bytes(MeshShape(1, 2), 100, hops=1) == 50 * 3 * 4
    assert batch_bytes(MeshShape(2, 2), 101, hops=5) == 3 * 26 * 7 * 4
