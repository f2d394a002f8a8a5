"""The fused and the chunked full softmax against torch's own cross entropy in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from blockhole.training.losses import chunked_softmax, full_softmax

Problem = tuple[Tensor, Tensor, Tensor, Tensor | None]


def _problem(batch: int, entities: int, width: int, seed: int = 0, *, weighted: bool = False) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(batch, width, generator=generator, dtype=torch.float64)
    candidates = torch.randn(entities, width, generator=generator, dtype=torch.float64) * 0.5
    target = torch.randint(entities, (batch,), generator=generator)
    weight = 1 - 0.9 * torch.rand(batch, generator=generator, dtype=torch.float64)
    return query, candidates, target, weight if weighted else None


def _oracle(query: Tensor, candidates: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    query, candidates = query.clone().requires_grad_(), candidates.clone().requires_grad_()
    each = torch.nn.functional.cross_entropy(query @ candidates.T, target, reduction="none")
    loss = (each if weight is None else weight * each).mean()
    query_gradient, candidate_gradient = torch.autograd.grad(loss, (query, candidates))
    return loss.detach(), query_gradient, candidate_gradient


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("chunk_logits", [1, 100, 10_000])
def test_chunked_softmax_equals_cross_entropy(chunk_logits: int, weighted: bool) -> None:
    problem = _problem(batch=23, entities=41, width=10, weighted=weighted)
    for ours, theirs in zip(chunked_softmax(*problem, chunk_logits=chunk_logits), _oracle(*problem), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_follows_the_chain_rule(weighted: bool) -> None:
    query, candidates, target, weight = _problem(batch=4, entities=7, width=3, weighted=weighted)
    query.requires_grad_()
    candidates.requires_grad_()
    assert torch.autograd.gradcheck(lambda q, c: 3 * full_softmax(q * 2, c, target, weight), (query, candidates))


_PROGRAM = """
import torch
from functools import partial
from blockhole.training.kernels.triton_kernels import fused_softmax, wide_softmax

generator = torch.Generator().manual_seed(1)
shapes = [(5, 37, 12), (130, 333, 100), (257, 500, 64), (128, 64, 128), (1, 3, 2), (70, 90, 400)]
for (batch, entities, width), weighted in zip(shapes * 2, [False] * 6 + [True] * 6):
    query = torch.randn(batch, width, generator=generator, dtype=torch.float64).requires_grad_()
    candidates = (0.3 * torch.randn(entities, width, generator=generator, dtype=torch.float64)).requires_grad_()
    target = torch.randint(entities, (batch,), generator=generator)
    weight = 1 - 0.9 * torch.rand(batch, generator=generator) if weighted else None
    each = torch.nn.functional.cross_entropy(query @ candidates.T, target, reduction="none")
    true = (each if weight is None else weight * each).mean()
    true.backward()
    for softmax in fused_softmax, partial(wide_softmax, at_once=2**20), partial(wide_softmax, at_once=64 * entities):
        loss, dq, dc = softmax(query.detach().float(), candidates.detach().float(), target, weight)
        assert abs(loss - true) < 1e-3 * true, (loss, true)
        for ours, theirs in ((dq, query.grad), (dc, candidates.grad)):
            assert torch.linalg.norm(ours - theirs) < 2e-3 * torch.linalg.norm(theirs), (batch, entities, width)

# Vectors as training begins with them: most products of theirs are below what float16 can tell from 0.
query, candidates = (1e-6 * torch.randn(count, 24, generator=generator) for count in (9, 5_000))
target = torch.arange(9)
exact = query.double().requires_grad_(), candidates.double().requires_grad_()
torch.nn.functional.cross_entropy(exact[0] @ exact[1].T, target).backward()
_, *ours = wide_softmax(query, candidates, target, at_once=2**20)
for gradient, theirs in zip(ours, exact):
    assert torch.linalg.norm(gradient - theirs.grad) < 2e-3 * torch.linalg.norm(theirs.grad)
print("agree")
"""


@pytest.mark.slow
def test_the_gpu_kernels_agree_in_the_interpreter(interpreted: Callable[[str], None]) -> None:
    interpreted(_PROGRAM)
