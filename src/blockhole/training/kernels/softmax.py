"""Full softmax over all entities as one differentiable function of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from blockhole.compiled import triton_installed
from blockhole.training.losses import CHUNK_LOGITS

CUDA_CHUNK_LOGITS = 2**26
"""How many logits the chunked products hold at once on a GPU, where products of few rows leave most of it idle."""


def softmax_loss(query: Tensor, candidates: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """The mean over the batch of  w (logsumexp_e⟨q, c_e⟩ - ⟨q, c_t⟩), with 0 < w ≤ 1 (absent: 1).

    Shapes: query [batch, width], candidates [E, width], target [batch], weight [batch] → []. On a CUDA device, float32
    vectors up to width 512 go through kernels that never write a logit out; all others through chunked matrix products.
    """
    loss: Tensor = _SoftmaxLoss.apply(query, candidates, target, weight)  # type: ignore[no-untyped-call]
    return loss


class _SoftmaxLoss(torch.autograd.Function):
    """Both gradients are by-products of the loss, so they are computed with it and wait for the chain rule."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, candidates: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        loss, query_gradient, candidate_gradient = softmax_gradients(query, candidates, target, weight)
        ctx.save_for_backward(query_gradient, candidate_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None, None]:
        query_gradient, candidate_gradient = ctx.saved_tensors
        return query_gradient * upstream, candidate_gradient * upstream, None, None


def softmax_gradients(
    query: Tensor, candidates: Tensor, target: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss [], its gradient for the queries [batch, width] and for the candidates [E, width]."""
    if not query.is_cuda or query.dtype != torch.float32:
        return chunked_softmax(query, candidates, target, weight)
    if triton_installed():
        from blockhole.training.kernels.softmax_triton import WIDEST, fused_softmax

        if query.shape[1] <= WIDEST:
            return fused_softmax(query, candidates, target, weight)
    with _tensor_cores():
        return chunked_softmax(query, candidates, target, weight)


def chunked_softmax(
    query: Tensor,
    candidates: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    chunk_logits: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by matrix products over blocks of queries; on every device, in every precision.

    With p the exponentials of a query's logits and z their sum, the gradients are p C / z - c_t for the query, and
    Σ p q / z, less q at the target, for the candidates: dividing vectors by z, not p, saves a pass over all logits.
    """
    batch = len(query)
    chunk_logits = chunk_logits or (CUDA_CHUNK_LOGITS if query.is_cuda else CHUNK_LOGITS)
    rows = max(1, chunk_logits // len(candidates))
    loss = query.new_zeros(())
    query_gradient = torch.empty_like(query)
    candidate_gradient = torch.zeros_like(candidates)
    for start in range(0, batch, rows):
        part = slice(start, start + rows)
        share = 1 if weight is None else weight[part, None]
        logits = query[part] @ candidates.T
        true = logits.gather(1, target[part, None])
        highest = logits.amax(dim=1, keepdim=True)
        exponentials = logits.sub_(highest).exp_()
        total = exponentials.sum(dim=1, keepdim=True)
        loss += (share * (highest + total.log() - true)).sum()
        scale = share / total
        query_gradient[part] = (exponentials @ candidates).mul_(scale).sub_(share * candidates[target[part]])
        candidate_gradient.addmm_(exponentials.T, query[part] * scale)
    candidate_gradient.index_add_(0, target, query if weight is None else query * weight[:, None], alpha=-1)
    return loss / batch, query_gradient / batch, candidate_gradient / batch


@contextmanager
def _tensor_cores() -> Iterator[None]:
    """Let products of float32 take TF32 where the device has it: its mantissa is that of the fused kernels."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
