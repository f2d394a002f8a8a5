"""Adagrad's step on a CPU in one pass over the rows it moves."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from blockhole.compiled import FAST, njit
from blockhole.training.kernels.fused_arrays import Floats, Ids


@njit(fastmath=FAST)
def move_rows(
    parameter: Floats, total: Floats, gradient: Floats, rows: Ids, rate: np.float32, epsilon: np.float32
) -> None:
    """s ← s + g², x ← x - η g / (√s + ε) of row rows[i] by row i of `gradient`; one s a row takes the mean of g²."""
    width = gradient.shape[1]
    for i in range(len(rows)):
        x, s, g = parameter[rows[i]], total[rows[i]], gradient[i]
        if len(s) == 1:
            square = np.float32(0)
            for c in range(width):
                square += g[c] * g[c]
            s[0] += square / np.float32(width)
            scale = rate / (np.sqrt(s[0]) + epsilon)
            for c in range(width):
                x[c] -= scale * g[c]
        else:
            for c in range(width):
                s[c] += g[c] * g[c]
                x[c] -= rate * g[c] / (np.sqrt(s[c]) + epsilon)


def adagrad_rows(parameter: Tensor, total: Tensor, gradient: Tensor, rows: Tensor, rate: float, epsilon: float) -> None:
    """Move `rows` (distinct) of `parameter` [E, width] and `total` [E, width or 1] by `gradient` [count, width]."""
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(parameter):
        raise IndexError(f"rows must be in 0 … {len(parameter) - 1}")  # the loop would write past the table
    tables = parameter.detach().numpy(), total.numpy()
    moved = gradient.contiguous().numpy(), rows.contiguous().numpy()
    move_rows(*tables, *moved, np.float32(rate), np.float32(epsilon))
