"""What the training loop asks of an engine."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from blockhole.training.batch import Batch


class Engine(Protocol):
    """Loss, gradient and optimizer step of one batch, on the parameters of a model it was given.

    Four engines exist: `training/autograd.py` (any model, loss and device), `training/distributed/engine.py` (the same
    on several processes), `training/kernels/fused_cpu.py` (the bilinear family with the logistic loss, compiled loops)
    and `training/kernels/captured.py` (steps of the first, replayed on CUDA). `training/averaging.py` adds a mean over
    epochs to any of them, which the loop asks for; else it does not know which one it runs.
    """

    def step(self, batch: Batch) -> Tensor:
        """Take one optimizer step; the mean loss per positive before it, penalty included, as a 0-d tensor."""

    def optimizer_state(self) -> dict[str, Tensor]:
        """Everything beyond the model's parameters that the next step depends on; saved in checkpoints."""

    def load_optimizer_state(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state."""
