"""Adagrad's step on a GPU, against the plain one, in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_PROGRAM = """
import torch
from torch import nn
from blockhole.runs.config import OptimizerConfig
from blockhole.training.kernels.triton_kernels import adagrad_step
from blockhole.training.optimizers import build_optimizer

generator = torch.Generator().manual_seed(1)
for rows in (None, torch.tensor([6, 0, 3])):
    start = torch.randn(7, 300, generator=generator)
    plain, fused = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimizer = build_optimizer(OptimizerConfig(learning_rate=0.3, initial_accumulator=0.1), {"entity": plain})
    total = torch.full_like(start, 0.1)
    for _ in range(3):
        gradient = torch.randn(7 if rows is None else 3, 300, generator=generator)
        optimizer.update("entity", rows, gradient)
        adagrad_step(fused, total, gradient, rows, 0.3, 1e-10)
    torch.testing.assert_close(fused, plain, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(total, optimizer.state["entity.sum_of_squares"], rtol=1e-6, atol=1e-6)
print("agree")
"""


@pytest.mark.slow
def test_the_step_agrees_in_the_interpreter(interpreted: Callable[[str], None]) -> None:
    interpreted(_PROGRAM)
