"""Runs of several processes: checkpoints, other numbers of processes, and failures that all of them end with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blockhole.fitting import train
from blockhole.runs.checkpoint import read_record
from blockhole.runs.run import Run
from tests.distributed.run_worker import FAILURES
from tests.distributed.runs import PACKED, SETTINGS, assert_equal, data, figures, packed, tensors

pytestmark = pytest.mark.slow

NEARLY = 1e-4


@pytest.mark.parametrize("mesh", ["1x2", "2x1"])
def test_a_mesh_trains_the_run_of_one_process(folder: Path, statuses: dict[str, list[int]], mesh: str) -> None:
    assert statuses[mesh] == [0, 0]
    assert_equal(folder / "alone", folder / mesh, tolerance=NEARLY)
    alone, together = figures(folder / "alone"), figures(folder / mesh)
    assert [line["event"] for line in alone] == [line["event"] for line in together]  # written once, validation too
    assert together[-1]["mq"] == pytest.approx(alone[-1]["mq"], abs=0.5)


def test_a_complete_run_is_a_plain_folder(folder: Path) -> None:
    assert {path.name for path in (folder / "1x2").iterdir()} == {path.name for path in (folder / "alone").iterdir()}
    assert read_record(folder / "1x2").shards is None


def test_a_run_in_memory_is_whole_in_every_process(folder: Path, statuses: dict[str, list[int]]) -> None:
    assert statuses["memory"] == [0, 0]
    first, second = (np.load(folder / f"entity-{rank}.npy") for rank in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, Run.open(folder / "1x2").model.entity.detach().numpy())


def test_a_packed_graph_is_trained_on_as_by_one_process(folder: Path, statuses: dict[str, list[int]]) -> None:
    assert packed().packed
    assert statuses["packed"] == [0] * 4
    alone = train(packed(), settings=PACKED).model.entity.detach().numpy()
    for rank in range(4):
        np.testing.assert_allclose(np.load(folder / f"packed-{rank}.npy"), alone, rtol=0, atol=NEARLY)


def test_a_crash_leaves_shards_that_every_reader_takes(folder: Path, statuses: dict[str, list[int]]) -> None:
    assert all(status for status in statuses["crash to one"])
    record = read_record(folder / "to one")
    assert record.shards is not None
    assert (record.training.epoch, record.training.best_epoch) == (2, record.training.best_epoch)
    opened = Run.open(folder / "to one")
    assert opened.model.entity.isfinite().all()
    assert not opened.complete


def test_a_commit_leaves_the_folder_of_the_next_checkpoint_alone(statuses: dict[str, list[int]]) -> None:
    assert statuses["ahead"] == [0]


def test_the_same_number_of_processes_goes_on_bit_for_bit(folder: Path, statuses: dict[str, list[int]]) -> None:
    assert statuses["to 1x2"] == [0, 0]
    assert_equal(folder / "1x2", folder / "to 1x2")


def test_another_number_of_processes_goes_on(folder: Path, statuses: dict[str, list[int]]) -> None:
    assert statuses["to 2x2"] == [0] * 4
    assert_equal(folder / "1x2", folder / "to 2x2", tolerance=NEARLY)


def test_one_process_goes_on_from_shards(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "to one", tmp_path / "run")
    train(data(), settings=SETTINGS, out=tmp_path / "run", resume=True)
    assert_equal(folder / "alone", tmp_path / "run", tolerance=NEARLY)
    assert "optimizer.entity.sum_of_squares" in tensors(tmp_path / "run")


@pytest.mark.parametrize("name", ["averaged", "averaged to 2x2", "averaged to 1x2"])
def test_the_mean_of_each_shard_is_the_shard_of_the_mean(
    folder: Path, statuses: dict[str, list[int]], name: str
) -> None:
    assert not any(statuses[name])
    assert_equal(folder / "averaged alone", folder / name, tolerance=NEARLY)
    found = tensors(folder / name)
    assert not np.allclose(found["optimizer.entity.average"], found["weights.entity"], atol=NEARLY)


def failure(folder: Path, name: str) -> list[dict[str, Any] | None]:
    """What each process ended with."""
    paths = [folder / f"{name}-{rank}.json" for rank in range(3)]
    return [json.loads(path.read_text()) if path.exists() else None for path in paths]


SAME = "than process 0; give all processes the same data, settings and mesh."
TEXTS = {
    "too_many_shards": "3 shards are too many for 4 entities: one would hold none; start fewer processes, or split the "
    "batches instead with --mesh 3x1.",
    "other_facts": f"process 1 sees other train facts {SAME}",
    "other_settings": f"process 1 sees other settings {SAME}",
    "other_mesh": f"process 1 sees other mesh {SAME}",
    "one_packed": f"process 1 sees other kind of graph (packed, or not) {SAME}",
    "other_version": "process 2 has another version of BlockHolE than process 0; install the same one on all hosts.",
    "other_graph": "{folder}/1x2 was trained on other data: its names differ; resume it with the data it began with.",
    "missing_file": "process 1: ",
    "wrong_mesh": "the mesh 2x2 needs 4 processes, and there are 3; start it with torchrun --nproc-per-node 4 "
    "--no-python blockhole train …, or choose another mesh.",
    "no_validation": "early_stop.metric = 'mq' needs validation facts, and the graph has none; leave it out, or "
    "unset it with --set early_stop.metric=.",
    "other_optimizer": "{folder}/other-0/optimizer.safetensors does not fit the optimizer that config.json names; "
    "these files do not belong to one run.",
    "no_folder": "cannot save the run in {folder}/blocked: Not a directory; nothing was saved. "
    "Choose a path that does not lead through a file and begin again.",
}


@pytest.mark.parametrize("name", TEXTS)
def test_process_0_says_what_is_wrong_and_all_end_with_1(
    folder: Path, statuses: dict[str, list[int]], name: str
) -> None:
    assert statuses[name] == [1, 1, 1]
    first, *others = failure(folder, name)
    assert first is not None
    assert first["text"].startswith(TEXTS[name].format(folder=folder))
    assert first["error"] != "FailedElsewhere"
    assert [other and other["error"] for other in others] == ["FailedElsewhere"] * 2


def test_a_process_that_fails_alone_speaks_for_itself(folder: Path, statuses: dict[str, list[int]]) -> None:
    assert all(status == 1 for status in statuses["one_alone"])
    assert failure(folder, "one_alone")[1] == {"error": "DataError", "text": "process 1 alone."}


def test_all_failures_have_been_looked_at() -> None:
    assert {*TEXTS, "one_alone"} == set(FAILURES)
