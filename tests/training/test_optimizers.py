"""Optimizers against torch's own, on all rows and on some."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from blockhole.training.optimizers import build_optimizer

from .worlds import config

ROWS = torch.tensor([4, 0, 3])


def gradients(steps: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(5, 3, generator=generator, dtype=torch.float64) for _ in range(steps)]


def start() -> nn.Parameter:
    return nn.Parameter(torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3))


def ours(kind: str, some_rows: bool) -> Tensor:
    parameter = start()
    settings = config(optimizer__kind=kind, optimizer__learning_rate=0.1, optimizer__initial_accumulator=0.2)
    optimizer = build_optimizer(settings.optimizer, {"x": parameter})
    for gradient in gradients(4):
        optimizer.begin_step()
        optimizer.update("x", ROWS if some_rows else None, gradient[ROWS] if some_rows else gradient)
    return parameter.detach()


def theirs(optimizer_type: str, some_rows: bool) -> Tensor:
    parameter = start()
    optimizer: torch.optim.Optimizer
    if optimizer_type == "adagrad":
        optimizer = torch.optim.Adagrad([parameter], lr=0.1, eps=1e-10, initial_accumulator_value=0.2)
    elif some_rows:
        optimizer = torch.optim.SparseAdam([parameter], lr=0.1, eps=1e-10)
    else:
        optimizer = torch.optim.Adam([parameter], lr=0.1, eps=1e-10)
    for gradient in gradients(4):
        if some_rows and optimizer_type == "adam":
            parameter.grad = torch.sparse_coo_tensor(ROWS[None], gradient[ROWS], (5, 3), check_invariants=True)
        elif some_rows:
            parameter.grad = torch.zeros_like(gradient).index_copy_(0, ROWS, gradient[ROWS])
        else:
            parameter.grad = gradient
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("some_rows", [False, True])
@pytest.mark.parametrize("kind", ["adagrad", "adam"])
def test_steps_equal_those_of_torch(kind: str, some_rows: bool) -> None:
    torch.testing.assert_close(ours(kind, some_rows), theirs(kind, some_rows))


@pytest.mark.parametrize("some_rows", [False, True])
def test_rowwise_adagrad_by_its_definition(some_rows: bool) -> None:
    expected, total = start().detach().clone(), [0.2] * 5
    for gradient in gradients(4):
        for row in ROWS.tolist() if some_rows else range(5):
            total[row] += float(gradient[row].square().mean())
            expected[row] -= 0.1 * gradient[row] / (total[row] ** 0.5 + 1e-10)
    torch.testing.assert_close(ours("rowwise_adagrad", some_rows), expected)


@pytest.mark.parametrize("kind", ["adagrad", "rowwise_adagrad", "adam"])
def test_state_is_named_tensors(kind: str) -> None:
    optimizer = build_optimizer(config(optimizer__kind=kind).optimizer, {"x": start()})
    assert all(isinstance(value, Tensor) and not value.requires_grad for value in optimizer.state.values())
    assert all(name == "steps" or name.startswith("x.") for name in optimizer.state)


@pytest.mark.parametrize("kind", ["adagrad", "rowwise_adagrad"])
def test_compiled_steps_over_some_rows_equal_exact_ones(kind: str) -> None:
    """In float32 a compiled loop moves the rows, in float64 torch does."""
    settings = config(optimizer__kind=kind, optimizer__learning_rate=0.1, optimizer__initial_accumulator=0.2)
    found = []
    for dtype in (torch.float32, torch.float64):
        parameter = nn.Parameter(start().detach().to(dtype))
        optimizer = build_optimizer(settings.optimizer, {"x": parameter})
        for gradient in gradients(4):
            optimizer.update("x", ROWS, gradient[ROWS].to(dtype))
        found.append((parameter.detach().double(), optimizer.state["x.sum_of_squares"].double()))
    for ours, exact in zip(*found, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-5, atol=1e-6)
    assert torch.equal(found[0][0][[1, 2]], start().detach().float().double()[[1, 2]])


@pytest.mark.parametrize("row", [-1, 5])
def test_rows_outside_the_table_are_refused(row: int) -> None:
    parameter = nn.Parameter(torch.zeros(5, 3))
    optimizer = build_optimizer(config(optimizer__kind="adagrad").optimizer, {"x": parameter})
    with pytest.raises(IndexError, match="rows must be in 0 … 4"):
        optimizer.update("x", torch.tensor([row]), torch.ones(1, 3))
