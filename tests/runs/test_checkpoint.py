"""Checkpoints: a crash at any step of saving, damaged files, a full disk, folders that hold something else."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from blockhole import fitting
from blockhole.errors import NOTES, BlockholeWarning, DamagedRun, NotARun, RunError
from blockhole.fitting import train
from blockhole.runs.checkpoint import (
    Checkpoint,
    TrainingState,
    load_best_weights,
    load_checkpoint,
    read_record,
    recover,
    save_checkpoint,
    weights_id,
)
from blockhole.runs.run import Run, check_free, is_run
from blockhole.runs.tracking import MetricsFile
from blockhole.runs.verification import verify
from blockhole.runs.writer import sole_writer
from blockhole.saving import read_sealed, sha256_of
from tests.training.worlds import random_data

SMALL: dict[str, Any] = {
    "model.blocks": 2,
    "model.block_size": 3,
    "training.threads": 1,
    "training.device": "cpu",
    "training.epochs": 1,
    "training.on": "base",
}


def numbered(number: int, *, best: bool = False) -> Checkpoint:
    """A checkpoint whose every part holds `number`."""
    tensors = {"entity": torch.full((3, 2), float(number))}
    return Checkpoint(
        state=TrainingState(epoch=number),
        weights=tensors,
        optimizer=dict(tensors),
        best=dict(tensors) if best else None,
        metrics_bytes=number,
    )


def number_of(checkpoint: Checkpoint) -> int:
    """The number all parts hold; an error if they are of different checkpoints."""
    numbers = {checkpoint.state.epoch, checkpoint.metrics_bytes}
    numbers |= {int(part["entity"][0, 0]) for part in (checkpoint.weights, checkpoint.optimizer)}
    (number,) = numbers
    return number


class Crash(BaseException):
    """Ends a save as a kill would: nothing catches it."""


@pytest.mark.parametrize("best", [False, True])
def test_a_crash_at_any_step_leaves_one_whole_checkpoint(
    best: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        save_checkpoint(folder, numbered(1, best=best), best_changed=True)
        if not save_and_crash(folder, numbered(2, best=best), step, monkeypatch):
            break
        seen = number_of(load_checkpoint(folder))
        outcomes.append(seen)
        recover(folder)
        assert number_of(load_checkpoint(folder)) == seen
        assert not list(folder.glob("*.next"))
        save_checkpoint(folder, numbered(3, best=best), best_changed=best)
        assert number_of(load_checkpoint(folder)) == 3
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {1, 2}
    assert len(outcomes) >= 8  # every write, sync and rename was a place to crash


def save_and_crash(folder: Path, checkpoint: Checkpoint, step: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Save, but die before the file operation number `step`; whether there were so many."""
    done = 0
    fsync, replace = os.fsync, os.replace

    def count() -> None:
        nonlocal done
        if done == step:
            raise Crash
        done += 1

    def counted_fsync(descriptor: int) -> None:
        count()
        fsync(descriptor)

    def counted_replace(source: Path, target: Path) -> None:
        count()
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("blockhole.saving.os.fsync", counted_fsync)
        patch.setattr("blockhole.runs.checkpoint.os.replace", counted_replace)
        try:
            save_checkpoint(folder, checkpoint, best_changed=True)
        except Crash:
            return True
    return False


def test_a_commit_record_cut_short_does_not_count(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, numbered(1), best_changed=False)
    whole = (tmp_path / "state.json").read_text(encoding="utf-8").replace('"epoch":1', '"epoch":2')
    for length in range(0, len(whole) - 2, 7):
        (tmp_path / "state.json.next").write_text(whole[:length], encoding="utf-8")
        assert load_checkpoint(tmp_path).state.epoch == 1
    recover(tmp_path)
    assert load_checkpoint(tmp_path).state.epoch == 1


def test_best_weights_stay_until_there_are_better_ones(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, numbered(1, best=True), best_changed=True)
    save_checkpoint(tmp_path, numbered(2, best=True), best_changed=False)
    assert load_best_weights(tmp_path)["entity"][0, 0] == 1
    assert load_checkpoint(tmp_path).weights["entity"][0, 0] == 2


def test_without_validation_the_last_weights_are_the_best(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, numbered(4), best_changed=False)
    assert load_best_weights(tmp_path)["entity"][0, 0] == 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch; read it only."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(random_data(), settings=SMALL, out=folder)
    return folder


@pytest.fixture
def run_folder(trained: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def _no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training of one epoch ends with its checkpoint: fitting probabilities would take most of its time."""
    monkeypatch.setattr(fitting, "_calibrate", lambda run, data: None)


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json", "config.json"])
def test_a_file_cut_short_is_named_and_nothing_is_written(name: str, run_folder: Path) -> None:
    content = (run_folder / name).read_bytes()
    (run_folder / name).write_bytes(content[: len(content) // 2])
    before = {path.name: path.read_bytes() for path in run_folder.iterdir()}
    with pytest.raises(DamagedRun, match=name):
        train(random_data(), settings=SMALL | {"training.epochs": 2}, out=run_folder, resume=True)
    assert {path.name: path.read_bytes() for path in run_folder.iterdir()} == before


@pytest.mark.parametrize(
    ("summed", "message"), [(True, "is damaged: its bytes are not those that were saved"), (False, "cannot be read")]
)
def test_a_vocabulary_cut_short(summed: bool, message: str, run_folder: Path) -> None:
    (run_folder / "vocabulary.parquet").write_bytes(b"PAR1")
    if not summed:  # as in version 0.1.0
        forget_sums(run_folder)
    with pytest.raises(DamagedRun, match=rf"vocabulary\.parquet {message}"):
        Run.open(run_folder)


def forget_sums(folder: Path) -> None:
    state = read_sealed(folder / "state.json")
    del state["sha256"]
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")


def test_best_weights_keep_their_sum_when_only_the_others_are_saved(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, numbered(1, best=True), best_changed=True)
    save_checkpoint(tmp_path, numbered(2, best=True), best_changed=False)
    sums = read_record(tmp_path).sha256
    assert sums == {name: sha256_of(tmp_path / name) for name in sums}
    assert set(sums) == {"weights.safetensors", "optimizer.safetensors", "best.safetensors"}


@pytest.mark.parametrize("length", [0, 1, 40, 200])
@pytest.mark.usefixtures("_no_calibration")
def test_a_first_checkpoint_cut_short_is_no_run_yet(length: int, trained: Path, tmp_path: Path) -> None:
    whole, folder = Run.open(trained), tmp_path / "torn"
    shutil.copytree(trained, folder, ignore=shutil.ignore_patterns("calibration.json", "normalisers.safetensors"))
    for name in ("weights.safetensors", "optimizer.safetensors", "state.json"):
        (folder / name).rename(folder / f"{name}.next")
    torn = (folder / "state.json.next").read_bytes()[:length]
    (folder / "state.json.next").write_bytes(torn)
    assert not is_run(folder)
    for use in (Run.open, read_record, load_checkpoint, weights_id, verify):
        with pytest.raises(NotARun):
            use(folder)
    check_free(folder)
    again = train(random_data(), settings=SMALL, out=folder, resume=True)
    assert again.state.epoch == whole.state.epoch
    assert torch.equal(again.model.entity, whole.model.entity)


@pytest.mark.usefixtures("_no_calibration")
def test_files_of_different_checkpoints(run_folder: Path, tmp_path: Path) -> None:
    train(random_data(), settings=SMALL | {"training.seed": 1}, out=tmp_path / "other")
    (run_folder / "weights.safetensors").write_bytes((tmp_path / "other" / "weights.safetensors").read_bytes())
    with pytest.raises(DamagedRun, match=r"weights\.safetensors is not of the same checkpoint as state\.json"):
        _ = Run.open(run_folder).model


def test_a_missing_file(run_folder: Path) -> None:
    (run_folder / "weights.safetensors").unlink()
    with pytest.raises(DamagedRun, match=r"weights\.safetensors is missing"):
        _ = Run.open(run_folder).model


def test_weights_of_other_shapes(run_folder: Path) -> None:
    config = read_sealed(run_folder / "config.json")
    config["model"]["block_size"] = 4
    (run_folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(DamagedRun) as caught:
        _ = Run.open(run_folder).model
    assert str(caught.value) == (
        f"{run_folder}: the saved entity has shape [20, 12], but config.json and vocabulary.parquet ask for [20, 16]; "
        "these files do not belong to one run."
    )


def test_an_optimizer_of_another_kind(run_folder: Path) -> None:
    config = read_sealed(run_folder / "config.json")
    config["optimizer"]["kind"] = "adam"
    (run_folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(DamagedRun, match=r"optimizer\.safetensors does not fit the optimizer that config\.json names"):
        train(random_data(), out=run_folder, resume=True)


def test_a_folder_with_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.docx").write_text("years of work", encoding="utf-8")
    with pytest.raises(NotARun) as caught:
        train(random_data(), settings=SMALL, out=tmp_path)
    assert str(caught.value) == f"{tmp_path} holds something other than a run (thesis.docx); choose another folder."
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.docx"]


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("", encoding="utf-8")
    with pytest.raises(NotARun, match="is a file; choose a folder for the run"):
        train(random_data(), settings=SMALL, out=tmp_path / "run")


def test_opening_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match=r"holds no run: config\.json or state\.json is missing"):
        Run.open(tmp_path)
    with pytest.raises(NotARun, match=r"there is no run .*; train one with: blockhole train --data NAME --out"):
        Run.open(tmp_path / "none")


@pytest.mark.usefixtures("_no_calibration")
def test_a_run_that_never_began_may_begin_again(tmp_path: Path) -> None:
    for name in ("config.json", "vocabulary.parquet", "weights.safetensors.next", "metrics.jsonl"):
        (tmp_path / name).write_text("{", encoding="utf-8")
    (tmp_path / "tensorboard").mkdir()
    check_free(tmp_path)
    assert train(random_data(), settings=SMALL, out=tmp_path).complete


@pytest.mark.usefixtures("_no_calibration")
def test_epochs_that_a_run_has_are_told(run_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(random_data(), settings={"training.epochs": 4}, out=run_folder, resume=True)
    with pytest.warns(BlockholeWarning) as told:
        same = train(random_data(), settings={"training.epochs": 2}, out=run_folder, resume=True)
    assert [str(each.message) for each in told] == [
        f"{run_folder} has 4 epochs already, more than the 2 asked for, so nothing is trained; "
        "ask for more than 4 to go on."
    ]
    assert (same.state.epoch, same.complete) == (4, True)
    assert Run.open(run_folder).config.training.epochs == 4
    caplog.set_level("INFO", NOTES)
    train(random_data(), out=run_folder, resume=True)  # a script may say so twice, so it is told without a warning
    assert caplog.messages == [f"{run_folder} has its 4 epochs already; ask for more than 4 to go on."]


def test_two_processes_do_not_train_into_one_folder(tmp_path: Path) -> None:
    with sole_writer(tmp_path / "run"), pytest.raises(RunError, match="another process is training into"):
        train(random_data(), settings=SMALL, out=tmp_path / "run")


@pytest.mark.slow
def test_a_file_too_large_loses_nothing(run_folder: Path) -> None:
    """The limit makes the kernel refuse the write half-way, as a full disk does."""
    before = load_checkpoint(run_folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(RunError) as caught:
            train(random_data(), settings=SMALL | {"training.epochs": 2}, out=run_folder, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(caught.value) == (
        f"cannot save the run in {run_folder}: File too large; the checkpoint of epoch 1 is intact. "
        f"Make room and continue with `blockhole train --out {run_folder} --resume`."
    )
    after = load_checkpoint(run_folder)
    assert after.state == before.state
    assert torch.equal(after.weights["entity"], before.weights["entity"])
    assert not list(run_folder.glob("*.next"))
    assert train(random_data(), settings={"training.epochs": 2}, out=run_folder, resume=True).state.epoch == 2


@pytest.mark.usefixtures("_no_calibration")
def test_a_run_that_cannot_begin_says_why(tmp_path: Path) -> None:
    """Names and facts are written by another library, with failures of its own."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(RunError) as caught:
            train(random_data(), settings=SMALL, out=tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(caught.value).startswith(f"cannot save the run in {tmp_path / 'run'}: ")
    assert "File too large" in str(caught.value)
    assert str(caught.value).endswith("; nothing was saved. Make room and begin again.")
    assert train(random_data(), settings=SMALL, out=tmp_path / "run").complete


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of its own with 64 kB; only root may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield place
    # Lazily: what failed there holds its files for as long as its traceback lives.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_one_error_also_for_what_is_written_line_by_line(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize))
    with (
        pytest.raises(RunError, match=r"metrics\.jsonl: No space left on device; make room and continue with `.*`"),
        closing(MetricsFile(small_disk / "metrics.jsonl")) as metrics,
    ):
        metrics.log("epoch", {"loss": 1.0})


@pytest.mark.slow
def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    train(random_data(), settings=SMALL, out=small_disk / "run")
    (small_disk / "ballast").write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize))
    with pytest.raises(RunError, match=r"No space left on device; the checkpoint of epoch 1 is intact"):
        train(random_data(), settings=SMALL | {"training.epochs": 2}, out=small_disk / "run", resume=True)
    assert load_checkpoint(small_disk / "run").state.epoch == 1
    (small_disk / "ballast").unlink()
    resumed = train(random_data(), settings={"training.epochs": 2}, out=small_disk / "run", resume=True)
    assert resumed.state.epoch == 2
