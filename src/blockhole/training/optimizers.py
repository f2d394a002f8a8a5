"""Adagrad, row-wise Adagrad and Adam that touch only the rows a batch touched.

State is kept as named tensors, so that a checkpoint is a safetensors file and a resumed run goes on bit for bit.
A row without gradient does not move: for Adagrad that is what the dense rule says; for Adam it is the lazy variant
(as torch.optim.SparseAdam), where the moments of an untouched row wait instead of decaying.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, final

import numpy as np
import torch
from torch import Tensor, nn

from blockhole.compiled import numba_installed, triton_installed
from blockhole.runs.config import OptimizerConfig


class Optimizer(Protocol):
    """A rule that turns gradients into steps; `state` is all it remembers."""

    state: dict[str, Tensor]

    def begin_step(self) -> None:
        """Called once per batch, before the updates of its parameters."""

    def update(self, name: str, rows: Tensor | None, gradient: Tensor) -> None:
        """Move the rows `rows` [count] (absent: all) of parameter `name` against `gradient` [count, width]."""


def build_optimizer(config: OptimizerConfig, parameters: Mapping[str, nn.Parameter]) -> Optimizer:
    """The optimizer that `config` names, over the named parameters of a model."""
    match config.kind:
        case "adagrad":
            return Adagrad(config, parameters, rowwise=False)
        case "rowwise_adagrad":
            return Adagrad(config, parameters, rowwise=True)
        case "adam":
            return Adam(config, parameters)


@final
class Adagrad:
    """x ← x - η g / (√s + ε) with s the sum of squared gradients (Duchi et al. 2011).

    Row-wise, s is one number a row, the sum of the mean squares of its gradients: half the memory and traffic.
    """

    def __init__(self, config: OptimizerConfig, parameters: Mapping[str, nn.Parameter], *, rowwise: bool) -> None:
        self._config = config
        self._parameters = parameters
        self._rowwise = rowwise
        self.state = {
            f"{name}.sum_of_squares": torch.full_like(
                parameter[:, :1] if rowwise else parameter, config.initial_accumulator, requires_grad=False
            )
            for name, parameter in parameters.items()
        }

    def begin_step(self) -> None:
        """Adagrad counts no steps."""

    @torch.no_grad()
    def update(self, name: str, rows: Tensor | None, gradient: Tensor) -> None:
        """See Optimizer."""
        parameter, total = self._parameters[name], self.state[f"{name}.sum_of_squares"]
        if parameter.is_cuda and not self._rowwise and triton_installed():
            from blockhole.training.kernels.triton_kernels import adagrad_step

            adagrad_step(parameter, total, gradient, rows, self._config.learning_rate, self._config.epsilon)
            return
        if rows is not None and _compiles(parameter):
            _move_rows(parameter, total, gradient, rows, self._config)
            return
        # Every device, precision and shape, and what the loops and kernels are held against.
        square = gradient.square()
        if self._rowwise:
            square = square.mean(dim=1, keepdim=True)
        summed = total.add_(square) if rows is None else total.index_select(0, rows).add_(square)
        step = gradient / summed.sqrt().add_(self._config.epsilon)
        if rows is None:
            parameter.sub_(step, alpha=self._config.learning_rate)
            return
        total.index_copy_(0, rows, summed)
        parameter.index_add_(0, rows, step, alpha=-self._config.learning_rate)


def _compiles(parameter: Tensor) -> bool:
    """Whether compiled loops can move the rows of a parameter."""
    plain = parameter.device.type == "cpu" and parameter.dtype == torch.float32 and parameter.is_contiguous()
    return plain and numba_installed()


def _move_rows(parameter: Tensor, total: Tensor, gradient: Tensor, rows: Tensor, config: OptimizerConfig) -> None:
    """Adagrad's step of `rows` (distinct) in one pass: parameter and total [E, width], gradient [count, width]."""
    from blockhole.training.kernels.loops import Rule, move_rows

    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(parameter):
        raise IndexError(f"rows must be in 0 … {len(parameter) - 1}")  # the loop would write past the table
    rule = Rule(np.float32(config.learning_rate), np.float32(config.epsilon), penalty=np.float32(0))
    moved = gradient.contiguous().numpy(), rows.contiguous().numpy()
    move_rows(parameter.detach().numpy(), total.numpy(), *moved, rule)


@final
class Adam:
    """x ← x - η m̂ / (√v̂ + ε) with decaying means m of g and v of g², corrected for their start (Kingma and Ba 2015)."""

    def __init__(self, config: OptimizerConfig, parameters: Mapping[str, nn.Parameter]) -> None:
        self._config = config
        self._parameters = parameters
        self.state: dict[str, Tensor] = {"steps": torch.zeros((), dtype=torch.float64)}
        for name, parameter in parameters.items():
            self.state[f"{name}.mean"] = torch.zeros_like(parameter, requires_grad=False)
            self.state[f"{name}.mean_square"] = torch.zeros_like(parameter, requires_grad=False)

    def begin_step(self) -> None:
        """Count one step for the corrections."""
        self.state["steps"] += 1

    @torch.no_grad()
    def update(self, name: str, rows: Tensor | None, gradient: Tensor) -> None:
        """See Optimizer."""
        config, steps = self._config, self.state["steps"].item()
        mean, mean_square = self.state[f"{name}.mean"], self.state[f"{name}.mean_square"]
        if rows is not None:
            mean, mean_square = mean.index_select(0, rows), mean_square.index_select(0, rows)
        mean.mul_(config.beta1).add_(gradient, alpha=1 - config.beta1)
        mean_square.mul_(config.beta2).addcmul_(gradient, gradient, value=1 - config.beta2)
        denominator = (mean_square / (1 - config.beta2**steps)).sqrt_().add_(config.epsilon)
        step = mean / denominator
        rate = config.learning_rate / (1 - config.beta1**steps)
        if rows is None:
            self._parameters[name].sub_(step, alpha=rate)
            return
        self.state[f"{name}.mean"].index_copy_(0, rows, mean)
        self.state[f"{name}.mean_square"].index_copy_(0, rows, mean_square)
        self._parameters[name].index_add_(0, rows, step, alpha=-rate)
