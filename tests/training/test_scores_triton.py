"""The GPU kernels of object scores against autograd in float64, in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_PROGRAM = """
import torch
from blockhole.training.kernels.triton_kernels import object_scores

generator = torch.Generator().manual_seed(1)
for batch, entities, width, count in [(1, 3, 2, 1), (37, 11, 12, 5), (130, 40, 100, 6), (9, 5, 1025, 2)]:
    query = torch.randn(batch, width, generator=generator).requires_grad_()
    table = torch.randn(entities, width, generator=generator).requires_grad_()
    objects = torch.randint(entities, (batch, count), generator=generator)
    weight = torch.randn(batch, count, generator=generator)
    ours = object_scores(query, table, objects)
    ours_gradients = torch.autograd.grad((ours * weight).sum(), (query, table))
    theirs = torch.einsum("bw,bcw->bc", query.double(), table.double()[objects])
    gradients = torch.autograd.grad((theirs * weight).sum(), (query, table))
    for mine, expected in zip((ours, *ours_gradients), (theirs, *gradients), strict=True):
        torch.testing.assert_close(mine.double(), expected.double(), rtol=1e-4, atol=1e-4)
print("agree")
"""


@pytest.mark.slow
def test_object_scores_agree_in_the_interpreter(interpreted: Callable[[str], None]) -> None:
    interpreted(_PROGRAM)
