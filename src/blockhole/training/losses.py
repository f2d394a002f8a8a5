"""The losses of a batch, as differentiable functions of scores and vectors.

Logistic (the paper's): Σ log(1 + exp(-y φ)) over a positive and its negatives. It is least where φ is the log odds of
the truth among one positive and its n negatives. Balanced, it takes φ - log n for φ, and is least where φ is the log
odds among as many positives as negatives: then φ ≥ 0 is the best answer to a yes or no that is asked of both alike.
Softmax: -log of the share that the true answer has in Σ_e exp φ(s, p, e). The sum runs over all entities, or is
estimated from a sample in which entity e is included with probability π_e: each sampled exp φ is weighted by 1/π_e
(Horvitz and Thompson), so the estimated sum is unbiased, and exact when all entities are sampled. Without the weights
the true answer is contrasted with the sample alone, which pushes far-off rivals less.

All are means over the positives of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, final

import torch
from torch import Tensor
from torch.nn import functional

CHUNK_LOGITS = 2**22
"""How many logits are held at once: 16 MB in float32, small enough for the caches near a core. More than 32 MB would
also be fetched from the system anew for every chunk, page by page: all entities of WN11 then took a tenth longer."""

CUDA_CHUNK_LOGITS = 2**28
"""The same on a GPU: 1 GB; launching the kernels of small chunks would take longer than they run."""


@final
@dataclass(frozen=True, slots=True)
class Pairs:
    """Cells of a score matrix, by ascending row: which rivals do not count for which query; [count] each."""

    row: Tensor
    column: Tensor


def logistic_loss(positive: Tensor, negative: Tensor, weight: Tensor | None = None) -> Tensor:
    """The mean over positives of log(1 + exp(-φ⁺)) + Σ_j w_j log(1 + exp(φ⁻_j)).

    Shapes: positive [batch], negative [batch, count], weight the same as negative (absent: 1) → [].
    """
    pushed_down = functional.softplus(negative)
    if weight is not None:
        # A plain product would turn the weight 0 of an excluded negative with an infinite score into NaN.
        pushed_down = torch.where(weight > 0, pushed_down * weight, 0.0)
    return (functional.softplus(-positive) + pushed_down.sum(dim=1)).mean()


def self_adversarial_weights(negative: Tensor, counted: Tensor, temperature: float) -> Tensor:
    """w_j = n · softmax_j(α φ⁻_j) over the n negatives that count; they sum to n, and α = 0 gives the plain loss.

    Sun et al. 2019 let them sum to 1; the factor keeps the balance of the paper's loss. No gradient flows through.
    Shapes: negative [batch, count], counted bool [batch, count] → [batch, count].
    """
    scaled = (temperature * negative.detach()).masked_fill(~counted, -torch.inf)
    share = torch.softmax(scaled, dim=1)
    return torch.where(counted, share, 0.0) * counted.sum(dim=1, keepdim=True)


class Across(Protocol):
    """Puts the figures of all processes that hold rivals together, element by element; each gets the result."""

    def highest(self, values: Tensor) -> Tensor:
        """The highest of each."""

    def total(self, values: Tensor) -> Tensor:
        """The sum of each."""


def softmax_loss(
    own: Tensor,
    query: Tensor,
    rivals: Tensor,
    log_weight: Tensor,
    excluded: Pairs,
    *,
    weight: Tensor | None = None,
    across: Across | None = None,
    rows: int | None = None,
) -> Tensor:
    """The mean of  v (log(Σ_x exp own_x + Σ_c w_c exp⟨q, rival_c⟩) - own_0), with v the `weight` of a row (absent: 1).

    `own` holds the score of the true answer first, then scores that rival it in its row alone (corrupted paths);
    `rivals` are shared by the batch, `excluded` the pairs that do not count, such as the true answer itself.
    Shapes: own [batch, 1 + x], query [batch, width], rivals [count, width], log_weight [count], weight [batch] → [].

    With `across`, each process holds some of the rivals, and the loss and its gradients for `own` and `query` are those
    of all rivals; `rows`, the queries taken at once (by default as many as keep the logits few), must then be equal.
    """
    rows = rows or max(1, (CUDA_CHUNK_LOGITS if query.is_cuda else CHUNK_LOGITS) // max(1, len(rivals)))
    loss: Tensor = _SharedSoftmax.apply(  # type: ignore[no-untyped-call]
        own, query, rivals, log_weight, excluded, weight, across, min(rows, len(query))
    )
    return loss


class _SharedSoftmax(torch.autograd.Function):
    """The gradients are by-products of the loss: one pass computes all, and the logits of a chunk are never kept."""

    @staticmethod
    def forward(
        ctx: Any,
        own: Tensor,
        query: Tensor,
        rivals: Tensor,
        log_weight: Tensor,
        excluded: Pairs,
        weight: Tensor | None,
        across: Across | None,
        rows: int,
    ) -> Tensor:
        batch = len(query)
        loss = query.new_zeros(())
        own_gradient, query_gradient = torch.empty_like(own), torch.empty_like(query)
        rival_gradient = torch.zeros_like(rivals)
        for start in range(0, batch, rows):
            part = slice(start, min(start + rows, batch))
            chunk_own = own[part]
            share = torch.addmm(log_weight, query[part], rivals.T)  # logits, then their exponentials, in place
            share[_cells(excluded, part)] = -torch.inf
            highest = chunk_own.amax(dim=1, keepdim=True)
            if len(rivals):
                highest = torch.maximum(share.amax(dim=1, keepdim=True), highest)
            if across:
                highest = across.highest(highest)
            own_share = (chunk_own - highest).exp_()
            total = share.sub_(highest).exp_().sum(dim=1, keepdim=True)
            total = (across.total(total) if across else total) + own_share.sum(dim=1, keepdim=True)
            cross_entropy = total.log() + highest - chunk_own[:, :1]
            own_share.div_(total)[:, 0] -= 1
            scale = total.reciprocal_()
            if weight is not None:
                for each in (cross_entropy, own_share, scale):
                    each.mul_(weight[part, None])
            loss += cross_entropy.sum()
            own_gradient[part] = own_share
            # Vectors are scaled, not the shares, of which there are many more.
            query_gradient[part] = (share @ rivals).mul_(scale)
            rival_gradient.addmm_(share.T, query[part] * scale)
        if across:
            query_gradient = across.total(query_gradient)
        ctx.save_for_backward(own_gradient, query_gradient, rival_gradient)
        return loss / batch

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None, None]:
        own, query, rivals = ctx.saved_tensors
        scale = upstream / len(query)
        return own * scale, query * scale, rivals * scale, None, None, None, None, None


def _cells(pairs: Pairs, part: slice) -> tuple[Tensor, Tensor]:
    bounds = torch.tensor([part.start, part.stop], device=pairs.row.device, dtype=pairs.row.dtype)
    first, last = torch.searchsorted(pairs.row, bounds).tolist()
    return pairs.row[first:last] - part.start, pairs.column[first:last]
