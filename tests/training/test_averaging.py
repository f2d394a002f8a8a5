"""The running mean of weights over epochs: by hand, in a run, and unseen by training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from blockhole.fitting import train
from blockhole.runs.checkpoint import load_checkpoint
from blockhole.runs.run import Run
from blockhole.training.learner import Learner
from blockhole.training.steppers import AutogradStepper

from .worlds import SMALL_BATCHES, config, random_data, random_split, tiny_model

SPLIT = random_split()


def trained(epochs: int, out: Path | None = None, **settings: Any) -> Run:
    chosen = (
        SMALL_BATCHES | {"training.epochs": epochs} | {key.replace("__", "."): value for key, value in settings.items()}
    )
    return train(random_data(), settings=chosen, out=out)


def by_hand(snapshots: list[Tensor], window: int) -> Tensor:
    mean = torch.zeros_like(snapshots[0])
    for t, weights in enumerate(snapshots, start=1):
        mean = mean + (weights - mean) / min(t, window)
    return mean


def test_the_mean_of_the_first_epochs_then_one_that_forgets() -> None:
    model = tiny_model(SPLIT)
    learner = Learner(model, AutogradStepper(model, config(), SPLIT.graph("train")), average_epochs=3)
    snapshots = []
    for epoch in range(1, 7):
        with torch.no_grad():
            model.entity.normal_(generator=torch.Generator().manual_seed(epoch))
        snapshots.append(model.entity.detach().clone())
        learner.close_epoch(epoch)
        with learner.averaged():
            torch.testing.assert_close(model.entity.detach(), by_hand(snapshots, 3))
            if epoch <= 3:
                torch.testing.assert_close(model.entity.detach(), torch.stack(snapshots).mean(dim=0))
        assert torch.equal(model.entity, snapshots[-1])


@pytest.mark.parametrize("kind", ["logistic", "sampled_softmax"])
@pytest.mark.slow
def test_a_run_is_read_out_as_the_average(kind: str, tmp_path: Path) -> None:
    epochs = [trained(count, loss__kind=kind, loss__negatives=4) for count in (1, 2, 3, 4)]
    run = trained(4, tmp_path / "run", loss__kind=kind, loss__negatives=4, training__average_epochs=2)
    for name, value in run.model.state_dict().items():
        expected = by_hand([each.model.state_dict()[name] for each in epochs], 2)
        torch.testing.assert_close(value, expected)
        assert torch.equal(value, Run.open(tmp_path / "run").model.state_dict()[name])
        # Training went on from the weights themselves.
        assert torch.equal(load_checkpoint(tmp_path / "run").weights[name], epochs[-1].model.state_dict()[name])
    assert [line["loss"] for line in run.metrics()][-1] == epochs[-1].state.last_loss


@pytest.mark.slow
def test_the_average_is_what_is_measured(tmp_path: Path) -> None:
    stop = {"early_stop__metric": "mq", "early_stop__patience": 9, "loss__kind": "softmax"}
    plain = trained(5, tmp_path / "plain", **stop)
    averaged = trained(5, tmp_path / "averaged", training__average_epochs=3, **stop)
    figures = [[line["mq"] for line in run.metrics() if line["event"] == "validation"] for run in (plain, averaged)]
    assert figures[0][0] == figures[1][0]  # one epoch is its own mean
    assert figures[0] != figures[1]
    best = figures[1].index(max(figures[1], key=lambda figure: float(figure or 0))) + 1
    assert averaged.state.best_epoch == best
    snapshots = [trained(count, loss__kind="softmax").model.entity.detach() for count in range(1, best + 1)]
    torch.testing.assert_close(averaged.model.entity.detach(), by_hand(snapshots, 3))
