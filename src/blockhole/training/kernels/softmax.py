"""Full softmax over all entities as one differentiable function of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

CHUNK_LOGITS = 2**26
"""How many logits the chunked products hold at once: 256 MB in float32."""


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
    if query.is_cuda and query.dtype == torch.float32:
        from blockhole.training.kernels.softmax_triton import WIDEST, fused_softmax

        if query.shape[1] <= WIDEST:
            return fused_softmax(query, candidates, target, weight)
        with _tensor_cores():
            return chunked_softmax(query, candidates, target, weight)
    return chunked_softmax(query, candidates, target, weight)


def chunked_softmax(
    query: Tensor,
    candidates: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    chunk_logits: int = CHUNK_LOGITS,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by matrix products over blocks of queries; on every device, in every precision."""
    batch = len(query)
    rows = max(1, chunk_logits // len(candidates))
    loss = query.new_zeros(())
    query_gradient = torch.empty_like(query)
    candidate_gradient = torch.zeros_like(candidates)
    for start in range(0, batch, rows):
        part = slice(start, start + rows)
        logits = query[part] @ candidates.T
        true = target[part, None]
        normaliser = torch.logsumexp(logits, dim=1, keepdim=True)
        cross_entropy = normaliser - logits.gather(1, true)
        softmax = logits.sub_(normaliser).exp_()
        softmax.scatter_add_(1, true, -torch.ones_like(true, dtype=softmax.dtype))
        if weight is not None:
            cross_entropy = cross_entropy * weight[part, None]
            softmax.mul_(weight[part, None])
        loss += cross_entropy.sum()
        query_gradient[part] = softmax @ candidates
        candidate_gradient.addmm_(softmax.T, query[part])
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
