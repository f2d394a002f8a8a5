"""Adagrad's step on a GPU in one pass over the rows it moves."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ELEMENTS = 1024


@triton.jit
def _move(
    parameter, total, gradient, rows, count, rate, epsilon,
    WIDTH: tl.constexpr, ALL: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """s ← s + g², x ← x - η g / (√s + ε), element by element; row i of `gradient` belongs to row rows[i]."""
    element = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    mask = element < count
    place = element
    if not ALL:
        place = tl.load(rows + element // WIDTH, mask=mask, other=0) * WIDTH + element % WIDTH
    g = tl.load(gradient + element, mask=mask, other=0.0)
    summed = tl.load(total + place, mask=mask, other=1.0) + g * g
    x = tl.load(parameter + place, mask=mask, other=0.0)
    tl.store(total + place, summed, mask=mask)
    tl.store(parameter + place, x - rate * (g / (tl.sqrt(summed) + epsilon)), mask=mask)


def adagrad_step(
    parameter: Tensor, total: Tensor, gradient: Tensor, rows: Tensor | None, rate: float, epsilon: float
) -> None:
    """Move `rows` (distinct; absent: all) of `parameter` and `total`, both [E, width], by `gradient` [count, width]."""
    gradient = gradient.contiguous()
    count = gradient.numel()
    with torch.no_grad():
        _move[(triton.cdiv(count, _ELEMENTS),)](
            parameter, total, gradient, gradient if rows is None else rows, count, rate, epsilon,
            WIDTH=parameter.shape[1], ALL=rows is None, ELEMENTS=_ELEMENTS,
        )  # fmt: skip
