"""The loop: early stopping, divergence, interruption, what it tells and logs."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from blockhole.errors import ConfigError, DataError, TrainingDiverged
from blockhole.fitting import train
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.models.contract import Model
from blockhole.queries.paths import PathQueries
from blockhole.runs.checkpoint import load_checkpoint
from blockhole.runs.config import TrainConfig, parse_assignment
from blockhole.runs.run import Run
from blockhole.training.batches import Batch, PathTensors
from blockhole.training.learner import Learner
from blockhole.training.positives import StoredPositives
from blockhole.training.trainer import Trainer, interruptible
from blockhole.training.workers import ALONE

from .worlds import SMALL_BATCHES, config, random_data, random_queries, random_split, tiny_model

SPLIT = random_split()


class ScriptedStepper:
    """Reports losses from a list, and counts its steps in the first weight of the model."""

    def __init__(self, model: Model, losses: list[float] | None = None) -> None:
        self.model = model
        self.losses = losses
        self.batches: list[tuple[int, int]] = []

    def step(self, batch: Batch) -> Tensor:
        self.batches.append((batch.epoch, batch.index))
        with torch.no_grad():
            self.model.entity[0, 0] = len(self.batches)
        return torch.tensor(1.0 if self.losses is None else self.losses[len(self.batches) - 1])

    def optimizer_state(self) -> dict[str, Tensor]:
        return {}

    def load_optimizer_state(self, state: dict[str, Tensor]) -> None:
        assert state == {}


class ScriptedValidation:
    """Reports figures from a list, and keeps the first weight of each model it is shown."""

    def __init__(self, metric: str, *figures: float) -> None:
        self.metric = metric
        self.figures = iter(figures)
        self.measured: list[float] = []

    def measure(self, model: Model) -> Mapping[str, float]:
        self.measured.append(model.entity[0, 0].item())
        return {self.metric: next(self.figures), "other": 1.0}


def queries(settings: TrainConfig) -> StoredPositives:
    paths = PathTensors.of(random_queries(SPLIT, 12, hops=2), torch.device("cpu"))
    return StoredPositives(paths, settings.training.seed, settings.training.batch_size)


def test_early_stopping_keeps_the_best_weights() -> None:
    model = tiny_model(SPLIT)
    learner = Learner(model, ScriptedStepper(model))
    settings = config(training__epochs=9, training__batch_size=4, early_stop__metric="mq", early_stop__patience=3)
    validation = ScriptedValidation("mq", 50.0, 70.0, 60.0, 70.0, 65.0, 99.0)
    trainer = Trainer(settings, ALONE, learner, queries(settings), validation=validation)
    assert trainer.run()
    assert trainer.state.epoch == 5  # three measurements after the best, an equal one among them
    assert trainer.state.stopped_early
    assert (trainer.state.best_figure, trainer.state.best_epoch) == (70.0, 2)
    assert learner.best is not None
    assert learner.best["entity"][0, 0].item() == 6  # the steps of two epochs


def test_validation_waits_its_turn() -> None:
    model, validation = tiny_model(SPLIT), ScriptedValidation("accuracy", 1.0, 1.0)
    settings = config(training__epochs=5, early_stop__metric="accuracy", early_stop__every=2)
    learner = Learner(model, ScriptedStepper(model))
    Trainer(settings, ALONE, learner, queries(settings), validation=validation).run()
    assert validation.measured == [2.0, 4.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_names_its_batch(bad: float) -> None:
    model = tiny_model(SPLIT)
    learner = Learner(model, ScriptedStepper(model, [1.0, 1.0, 1.0, 1.0, bad]))
    settings = config(training__epochs=5, training__batch_size=4, optimizer__learning_rate=3.5)
    with pytest.raises(TrainingDiverged) as caught:
        Trainer(settings, ALONE, learner, queries(settings)).run()
    assert str(caught.value) == (
        f"the loss became {bad} in epoch 2, batch 2; nothing was saved. "
        "Train again with a smaller optimizer.learning_rate than 3.5, or a larger penalty."
    )


def test_divergence_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    settings = {
        **SMALL_BATCHES,
        "loss.kind": "softmax",
        "training.checkpoint_seconds": 0,
        "optimizer.learning_rate": 1e30,
    }
    with pytest.raises(TrainingDiverged, match=r"in epoch \d+, batch \d+; the last checkpoint is kept\."):
        train(random_data(), settings=settings, out=tmp_path / "run")
    checkpoint = load_checkpoint(tmp_path / "run")
    assert all(bool(value.isfinite().all()) for value in checkpoint.weights.values())
    assert Run.open(tmp_path / "run").model.entity.isfinite().all()


def test_interruption_stops_after_the_batch_and_resumes_to_the_same_end(tmp_path: Path) -> None:
    class Impatient:
        """Sends Ctrl-C in the middle of the second epoch."""

        def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
            self.epoch = epoch

        def batches_done(self, paths: int, loss: float) -> None:
            if self.epoch == 2 and paths > 100:
                os.kill(os.getpid(), signal.SIGINT)

        def validated(self, figures: Mapping[str, float]) -> None:
            raise AssertionError("nothing is validated here")

    settings = {**SMALL_BATCHES, "loss.kind": "sampled_softmax", "loss.negatives": 8, "training.epochs": 3}
    straight = train(random_data(), settings=settings)
    stopped = train(random_data(), settings=settings, out=tmp_path / "run", progress=Impatient())
    assert not stopped.complete
    assert (stopped.state.epoch, stopped.state.batch) == (1, 2)
    assert Run.open(tmp_path / "run").state == stopped.state
    resumed = train(random_data(), out=tmp_path / "run", resume=True)
    assert resumed.complete
    assert torch.equal(resumed.model.entity, straight.model.entity)
    assert resumed.metrics()[-1]["loss"] == straight.state.last_loss


def test_a_second_interruption_stops_at_once() -> None:
    with interruptible() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as interruption:
        assert not interruption.requested
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_is_told_everything() -> None:
    told: list[Any] = []

    class Listener:
        def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
            told.append(("epoch", epoch, epochs, paths))

        def batches_done(self, paths: int, loss: float) -> None:
            told.append((paths, loss))

        def validated(self, figures: Mapping[str, float]) -> None:
            told.append(dict(figures))

    model = tiny_model(SPLIT)
    settings = config(training__epochs=1, training__batch_size=6, early_stop__metric="mq")
    learner, validation = Learner(model, ScriptedStepper(model, [1.0, 2.0])), ScriptedValidation("mq", 5.0)
    Trainer(settings, ALONE, learner, queries(settings), validation=validation, progress=Listener()).run()
    assert told == [("epoch", 1, 1, 12), (6, 1.0), (12, 1.5), {"mq": 5.0, "other": 1.0}]


@pytest.mark.parametrize("on", ["base", "paths"])
def test_early_stopping_on_real_figures(on: str) -> None:
    settings = {
        **SMALL_BATCHES,
        "training.on": on,
        "training.epochs": 3,
        "early_stop.metric": "mq",
        "early_stop.queries": 50,
    }
    run = train(random_data(), settings=settings)
    assert run.state.best_figure is not None
    assert 0 <= run.state.best_figure <= 100


def test_early_stopping_on_accuracy(tmp_path: Path) -> None:
    settings = {
        **SMALL_BATCHES,
        "loss.kind": "logistic",
        "loss.negatives": 3,
        "training.epochs": 2,
        "early_stop.metric": "accuracy",
    }
    run = train(random_data(), settings=settings, out=tmp_path / "run")
    measured = [line for line in run.metrics() if line["event"] == "validation"]
    assert [line["epoch"] for line in measured] == [1, 2]
    assert all(0 <= float(line["accuracy"] or 0) <= 100 for line in measured)
    best = Run.open(tmp_path / "run")
    assert best.state.best_figure == max(float(line["accuracy"] or 0) for line in measured)
    assert torch.equal(best.model.entity, run.model.entity)


@pytest.mark.parametrize("on", ["base", "paths"])
def test_early_stopping_needs_validation_facts(on: str, tmp_path: Path) -> None:
    settings = {**SMALL_BATCHES, "training.on": on, "training.epochs": 1}
    with pytest.raises(ConfigError) as caught:
        train(SPLIT.graph("train"), settings=settings, preset="best", out=tmp_path / "run")
    assert str(caught.value) == (
        "early_stop.metric = 'mq' needs validation facts, and the graph has none; "
        "leave it out, or unset it with --set early_stop.metric=."
    )
    assert not (tmp_path / "run").exists()
    unmeasured = settings | dict([parse_assignment("early_stop.metric=")])
    assert train(SPLIT.graph("train"), settings=unmeasured, preset="best").complete


@pytest.mark.slow
def test_more_patience_takes_a_stopped_run_further(tmp_path: Path) -> None:
    settings = {**SMALL_BATCHES, "training.epochs": 40, "early_stop.metric": "mq", "early_stop.patience": 1}
    stopped = train(random_data(), settings=settings, out=tmp_path / "run")
    assert stopped.state.stopped_early
    again = train(random_data(), out=tmp_path / "run", resume=True)
    assert (again.complete, again.state.epoch) == (True, stopped.state.epoch)
    further = train(random_data(), settings={"early_stop.patience": 3}, out=tmp_path / "run", resume=True)
    straight = train(random_data(), settings=settings | {"early_stop.patience": 3})
    assert further.state.epoch == straight.state.epoch > stopped.state.epoch
    assert torch.equal(further.model.entity, straight.model.entity)


def test_walks_are_trained_on_beside_the_stored_paths() -> None:
    data = random_data()
    settings = {**SMALL_BATCHES, "training.reverse": "none", "training.epochs": 1}
    stored, added = (train(data, settings=settings | {"training.walks": walks}) for walks in ("stored", "added"))
    assert added.state.paths == stored.state.paths + 20 * len(data.split.graph("train"))


@pytest.mark.parametrize("walks", ["stored", "added", "fresh"])
def test_a_run_that_names_no_epochs_takes_a_number_of_steps(walks: str, tmp_path: Path) -> None:
    settings = {**SMALL_BATCHES, "training.walks": walks, "training.steps": 40}
    run = train(random_data(), settings=settings, out=tmp_path / "run")
    per_epoch = -(-run.state.paths // run.state.epoch // 64)
    assert run.config.training.epochs == run.state.epoch == -(-40 // per_epoch)
    assert Run.open(tmp_path / "run").complete


def test_a_penalty_per_entity_is_spread_over_its_positives(tmp_path: Path) -> None:
    settings = {**SMALL_BATCHES, "training.epochs": 2, "penalty.dura_per_entity": 0.1}
    run = train(random_data(), settings=settings, out=tmp_path / "run")
    positives = run.state.paths // 2
    assert run.config.penalty.dura == pytest.approx(0.1 * 20 / positives)
    plain = train(
        random_data(), settings={**SMALL_BATCHES, "training.epochs": 2, "penalty.dura": run.config.penalty.dura}
    )
    assert torch.equal(run.model.entity, plain.model.entity)
    assert train(random_data(), out=tmp_path / "run", resume=True, settings={"training.epochs": 3}).state.epoch == 3


def test_accuracy_needs_paths() -> None:
    with pytest.raises(ConfigError, match="judges paths; train on them with"):
        train(random_data(), settings={**SMALL_BATCHES, "training.on": "base", "early_stop.metric": "accuracy"})


def test_a_graph_without_facts() -> None:
    with pytest.raises(DataError, match="the graph has no train facts, so there is nothing to train on"):
        train(SplitGraph(SPLIT.entities, SPLIT.relations, SPLIT.train[:0]), settings=SMALL_BATCHES)


def test_training_learns_the_facts() -> None:
    """After training, the facts of a small graph score above nearly all others."""
    settings = {
        **SMALL_BATCHES,
        "training.on": "base",
        "training.epochs": 150,
        "loss.kind": "softmax",
        "penalty.dura": 0,
    }
    run = train(SPLIT, settings=settings | {"model.block_size": 10})
    facts = PathQueries.from_triples(SPLIT.train)
    with torch.no_grad():
        query = run.model.embed_paths(torch.tensor(facts.source), torch.tensor(facts.path))
        scores = query @ run.model.candidates().T
    true = {(s, r, t) for s, r, t in SPLIT.train.tolist()}
    for row, (s, r, t) in enumerate(SPLIT.train.tolist()):
        rivals = [e for e in range(len(SPLIT.entities)) if (s, r, e) not in true]
        assert scores[row, t] > scores[row, rivals].max()
