"""A running mean of the weights over epochs, which is what a run is measured by and read out as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor

from blockhole.models.contract import Model
from blockhole.training.batch import Batch
from blockhole.training.engine import Engine


@final
class AveragedEngine:
    """An engine, and beside it a_t = a_{t-1} + (w_t - a_{t-1}) / min(t, K) of the weights w_t after epoch t.

    That is the plain mean of the first K epochs, and then one that forgets: what an epoch leaves behind by chance, by
    the batches it ended with, is averaged out. Training does not see the mean; checkpoints keep it with the optimizer.
    """

    def __init__(self, engine: Engine, model: Model, window: int) -> None:
        self._engine = engine
        self._model = model
        self._window = window
        self._mean = {name: torch.zeros_like(value.detach()) for name, value in model.named_parameters()}

    def step(self, batch: Batch) -> Tensor:
        """See Engine."""
        return self._engine.step(batch)

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Engine."""
        return self._engine.optimizer_state() | {f"{name}.average": mean for name, mean in self._mean.items()}

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """See Engine."""
        own = {f"{name}.average": mean for name, mean in self._mean.items()}
        self._engine.load_optimizer_state({name: value for name, value in state.items() if name not in own})
        for name, mean in own.items():
            mean.copy_(state[name])

    @torch.no_grad()
    def close_epoch(self, epoch: int) -> None:
        """Take the weights after epoch number `epoch`, from 1, into the mean."""
        for name, parameter in self._model.named_parameters():
            self._mean[name].lerp_(parameter, 1 / min(epoch, self._window))

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within the block the model has the mean as its weights."""
        last = {name: value.detach().clone() for name, value in self._model.named_parameters()}
        self._put(self._mean)
        try:
            yield
        finally:
            self._put(last)

    @torch.no_grad()
    def _put(self, weights: Mapping[str, Tensor]) -> None:
        # In place: compiled loops and recorded steps know the tables by their addresses.
        for name, parameter in self._model.named_parameters():
            parameter.copy_(weights[name])
