"""Any number of processes trains the same model: every loss to 1e-5 and every weight to 1e-4, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.distributed.combinations import COMBINATIONS, batches
from tests.distributed.equality_worker import ALONE, MESHES, initial_model
from tests.distributed.scripts import run_script
from tests.sweep import WHOLE

pytestmark = pytest.mark.slow


Found = dict[str, dict[str, NDArray[np.float64]]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Losses, weights and optimizer states of every mesh, by combination and name."""
    folder = tmp_path_factory.mktemp("equality")
    run_script("equality_worker", folder, within=3600 if WHOLE else 600)
    return {name: dict(np.load(folder / f"{name}.npz")) for name in (ALONE, *MESHES)}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_mesh_trains_what_one_process_does(found: Found, combination: str, mesh: str) -> None:
    expected, got = found[ALONE], found[mesh]
    names = [name for name in expected if name.startswith(f"{combination}/")]
    assert len(expected[f"{combination}/losses"]) == len(batches(COMBINATIONS[combination]))
    assert {name for name in got if name.startswith(f"{combination}/")} == set(names)
    for name in names:
        tolerance = 1e-5 if name.endswith("/losses") else 1e-4
        np.testing.assert_allclose(got[name], expected[name], rtol=0, atol=tolerance, err_msg=name)


def test_training_moved_the_weights(found: Found) -> None:
    for combination in COMBINATIONS.values():
        for name, first in initial_model(combination).named_parameters():
            moved = np.abs(found[ALONE][f"{combination.name}/{name}"] - first.detach().numpy())
            assert moved.max() > 1e-3, combination.name
