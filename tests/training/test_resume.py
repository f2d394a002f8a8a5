"""A resumed run equals an undisturbed one, bit for bit, whatever trains it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from blockhole.errors import ConfigError, NotARun, RunError
from blockhole.fitting import train
from blockhole.machine import choose_device
from blockhole.runs.checkpoint import load_checkpoint
from blockhole.runs.run import Run
from blockhole.training.kernels.fused import FusedStepper
from blockhole.training.steppers import AutogradStepper, build_stepper
from tests.sweep import first_quick

from .worlds import SMALL_BATCHES, config, random_data, tiny_model

ENGINES: dict[str, dict[str, Any]] = {
    "fused": {"loss.kind": "logistic", "loss.negatives": 3, "penalty.l2": 0.01},
    "fused, row-wise": {"loss.kind": "logistic", "loss.negatives": 3, "optimizer.kind": "rowwise_adagrad"},
    "autograd logistic": {"loss.kind": "logistic", "loss.negatives": 3, "model.inverses": "tied"},
    "self-adversarial, corrupted paths, adam": {
        "loss.kind": "logistic",
        "loss.negatives": 3,
        "loss.self_adversarial": 1.0,
        "loss.corrupted_paths": 1,
        "optimizer.kind": "adam",
        "optimizer.learning_rate": 0.01,
    },
    "softmax": {"loss.kind": "softmax", "penalty.n3": 0.01},
    "softmax, rare targets": {"loss.kind": "softmax", "loss.rare_weight": 0.1, "penalty.dura_back": 0.01},
    "sampled softmax": {"loss.kind": "sampled_softmax", "loss.negatives": 8, "penalty.dura": 0.01},
    "sampled softmax, typed, row-wise": {
        "loss.kind": "sampled_softmax",
        "loss.negatives": 8,
        "loss.typed_share": 0.5,
        "optimizer.kind": "rowwise_adagrad",
    },
    "averaged": {"loss.kind": "sampled_softmax", "loss.negatives": 8, "training.average_epochs": 3},
    "averaged, fused": {"loss.kind": "logistic", "loss.negatives": 3, "training.average_epochs": 2},
    "added walks, corrupted": {
        "loss.kind": "logistic",
        "loss.negatives": 3,
        "loss.corrupted_paths": 1,
        "loss.corrupt": "once",
        "training.walks": "added",
    },
    "fresh walks": {"loss.kind": "sampled_softmax", "loss.negatives": 8, "training.walks": "fresh"},
}


def run_for(epochs: int, settings: Mapping[str, Any], out: Path | None = None, *, resume: bool = False) -> Run:
    return train(
        random_data(), settings={**SMALL_BATCHES, **settings, "training.epochs": epochs}, out=out, resume=resume
    )


def assert_equal(run: Run, other: Run) -> None:
    for name, value in run.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name]), name
    assert run.state.last_loss == other.state.last_loss
    assert run.state.paths == other.state.paths


@pytest.mark.parametrize("engine", first_quick(ENGINES, 2))
def test_two_epochs_and_three_equal_five(engine: str, tmp_path: Path) -> None:
    straight = run_for(5, ENGINES[engine], tmp_path / "straight")
    run_for(2, ENGINES[engine], tmp_path / "halved")
    resumed = run_for(5, ENGINES[engine], tmp_path / "halved", resume=True)
    assert resumed.complete
    assert_equal(straight, resumed)
    ours, theirs = load_checkpoint(tmp_path / "straight"), load_checkpoint(tmp_path / "halved")
    assert ours.optimizer.keys() == theirs.optimizer.keys()
    assert all(torch.equal(value, theirs.optimizer[name]) for name, value in ours.optimizer.items())
    losses = [[line["loss"] for line in run.metrics()] for run in (straight, resumed)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 5


def test_both_logistic_engines_are_used() -> None:
    split = random_data().split
    single = tiny_model(split).float()
    fused = build_stepper(single, config(loss__kind="logistic"), split.graph("train"), threads=1)
    general = build_stepper(single, config(loss__kind="softmax"), split.graph("train"), threads=1)
    assert (type(fused), type(general)) == (FusedStepper, AutogradStepper)


@pytest.mark.parametrize("kind", ["logistic", "sampled_softmax"])
def test_the_same_seed_gives_the_same_weights_and_another_does_not(kind: str) -> None:
    settings = {"loss.kind": kind, "loss.negatives": 4}
    first, second = run_for(2, settings), run_for(2, settings)
    assert_equal(first, second)
    other = run_for(2, {**settings, "training.seed": 1})
    assert not torch.equal(first.model.entity, other.model.entity)


def test_a_run_in_memory_equals_one_on_disk(tmp_path: Path) -> None:
    saved = run_for(2, {}, tmp_path / "run")
    assert_equal(run_for(2, {}), saved)
    assert_equal(Run.open(tmp_path / "run"), saved)


def test_resuming_a_complete_run_changes_nothing(tmp_path: Path) -> None:
    saved = run_for(2, {}, tmp_path / "run")
    assert_equal(run_for(2, {}, tmp_path / "run", resume=True), saved)
    assert len(saved.metrics()) == 2


def test_settings_and_data_come_from_the_run(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"a{i}\tlikes\ta{(i * 7 + 1) % 20}\n" for i in range(20)), encoding="utf-8")
    settings = {**SMALL_BATCHES, "training.on": "base", "training.epochs": 2, "optimizer.learning_rate": 0.3}
    train(facts, settings=settings, out=tmp_path / "run")
    resumed = train(resume=True, settings={"training.epochs": 3}, out=tmp_path / "run")
    assert resumed.state.epoch == 3
    assert resumed.config.optimizer.learning_rate == 0.3
    assert resumed.config.data == str(facts)


def test_another_setting_is_refused_by_name(tmp_path: Path) -> None:
    run_for(1, {"optimizer.learning_rate": 0.1}, tmp_path / "run")
    with pytest.raises(ConfigError) as caught:
        run_for(2, {"optimizer.learning_rate": 0.2}, tmp_path / "run", resume=True)
    assert str(caught.value) == (
        f"{tmp_path / 'run'} was trained with optimizer.learning_rate = 0.1, not 0.2; "
        "leave that setting out to resume it, or train another run."
    )


def test_other_data_is_refused(tmp_path: Path) -> None:
    run_for(1, {}, tmp_path / "run")
    other = random_data().split.graph("train")
    renamed = type(other)(type(other.entities)([f"x{i}" for i in range(20)]), other.relations, other.triples)
    with pytest.raises(RunError, match="was trained on other data: its names differ"):
        train(renamed, settings={**SMALL_BATCHES, "training.epochs": 2}, out=tmp_path / "run", resume=True)


def test_a_run_is_not_overwritten_unasked(tmp_path: Path) -> None:
    run_for(2, {}, tmp_path / "run")
    with pytest.raises(NotARun) as caught:
        run_for(2, {}, tmp_path / "run")
    assert str(caught.value) == (
        f"{tmp_path / 'run'} already holds a run, at epoch 2; add --resume to continue it, or choose another folder."
    )


def test_resume_begins_a_run_that_is_not_there(tmp_path: Path) -> None:
    assert run_for(1, {}, tmp_path / "new", resume=True).complete


def test_there_must_be_data() -> None:
    with pytest.raises(ConfigError, match="there is no data to train on; name a data set or a file with --data"):
        train(settings=SMALL_BATCHES)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "tpu:0"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^'{name}' is not a device; use auto, cpu, cuda, cuda:N or mps\\.$"):
        choose_device(name)


def test_absent_devices() -> None:
    absent = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(ConfigError, match=f"^the device '{absent}' is not on this machine; use auto, or cpu"):
        choose_device(absent)
