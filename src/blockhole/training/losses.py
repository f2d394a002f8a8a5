"""The losses of a batch: what each contrasts a positive with, and its formula. A new loss is declared here.

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

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final

import torch
from torch import Tensor
from torch.nn import functional

from blockhole.compiled import triton_installed
from blockhole.runs.config import LossConfig, LossKind

# What a loss is computed from.


@final
@dataclass(frozen=True, slots=True)
class Pairs:
    """Cells of a score matrix, by ascending row: which rivals do not count for which query; [count] each."""

    row: Tensor
    column: Tensor

    def strike(self, scores: Tensor, first: int) -> None:
        """Set the cells to -inf in `scores`, the rows of the matrix from `first` on; asks the host which these are."""
        bounds = torch.tensor([first, first + len(scores)], device=self.row.device, dtype=self.row.dtype)
        begin, end = torch.searchsorted(self.row, bounds).tolist()
        scores[self.row[begin:end] - first, self.column[begin:end]] = -torch.inf

    def pairs(self) -> Pairs:
        """The cells themselves."""
        return self


@final
@dataclass(frozen=True, slots=True)
class Places:
    """At most one cell a row: its column [batch], where there `is_cell` [batch]; nothing of it asks the host."""

    column: Tensor
    is_cell: Tensor

    @classmethod
    def of(cls, wanted: Tensor, among: Tensor) -> Places:
        """Where each of `wanted` [batch] stands in `among`, distinct numbers [count]."""
        ascending, order = among.sort()
        place = torch.searchsorted(ascending, wanted).clamp_(max=len(among) - 1)
        return cls(order[place], ascending[place] == wanted)

    def strike(self, scores: Tensor, first: int) -> None:
        """Set the cells to -inf in `scores`, the rows of the matrix from `first` on."""
        part = slice(first, first + len(scores))
        column = self.column[part, None]
        scores.scatter_(1, column, scores.gather(1, column).masked_fill_(self.is_cell[part, None], -torch.inf))

    def pairs(self) -> Pairs:
        """The same cells, counted by the host."""
        (row,) = self.is_cell.nonzero(as_tuple=True)
        return Pairs(row, self.column[row])


class Across(Protocol):
    """Puts the figures of all processes that hold rivals together, element by element; each gets the result."""

    def highest(self, values: Tensor) -> Tensor:
        """The highest of each."""

    def total(self, values: Tensor) -> Tensor:
        """The sum of each."""


@final
@dataclass(frozen=True, slots=True)
class Rivals:
    """Candidates that every query of a batch is contrasted with: all entities, a sample, or a process' part of either.

    Shapes: vectors [count, width], log_weight [count] (absent: 0), answers [batch]. `excluded` are the pairs that do
    not count, the true answers among them; where nothing else is left out, `answers` says instead where these stand,
    and `asked` [batch] by which query vector each is asked for, where several share one (absent: by its own). With
    `across`, each process holds some of the rivals, and takes as many queries at once, `rows`, as the others.
    """

    vectors: Tensor
    excluded: Pairs | Places
    log_weight: Tensor | None = None
    answers: Tensor | None = None
    asked: Tensor | None = None
    across: Across | None = None
    rows: int | None = None


@final
@dataclass(frozen=True, slots=True)
class ScoreLoss:
    """A loss of scores: that of the true answer, and those of objects drawn for each positive and of corrupted paths.

    `formula` takes positive [batch], negative [batch, count], and which negatives count, bool [batch, count] (absent:
    all) → [].
    """

    formula: Callable[[Tensor, Tensor, Tensor | None, LossConfig], Tensor]
    objects: Literal["each"] = "each"


@final
@dataclass(frozen=True, slots=True)
class RivalLoss:
    """A loss of query vectors and the candidates they share: `all` entities, or a sample of them drawn for the batch.

    `formula` takes own [batch, 1 + x], the score of the true answer and then of what rivals it in its row alone
    (corrupted paths), query [batch, width], the rivals, and the weight of each row [batch] (absent: 1) → [].
    """

    formula: Callable[[Tensor, Tensor, Rivals, Tensor | None], Tensor]
    objects: Literal["shared", "all"]


# The losses.


def logistic(positive: Tensor, negative: Tensor, counted: Tensor | None, settings: LossConfig) -> Tensor:
    """`logistic_loss` of balanced scores, with negatives weighted by their scores, where `settings` ask for these."""
    weight = None
    if settings.self_adversarial:
        everyone = torch.ones_like(negative, dtype=torch.bool) if counted is None else counted
        weight = self_adversarial_weights(negative, everyone, settings.self_adversarial)
    elif counted is not None:
        weight = counted.to(negative.dtype)
    return logistic_loss(positive - settings.shift, negative - settings.shift, weight)


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


def softmax(own: Tensor, query: Tensor, rivals: Rivals, weight: Tensor | None) -> Tensor:
    """The mean of  v (log(Σ_x exp own_x + Σ_c w_c exp⟨q, rival_c⟩) - own_0), with v the `weight` of a row."""
    if rivals.answers is not None:
        return full_softmax(query, rivals.vectors, rivals.answers, weight, rivals.asked)
    return shared_softmax(own, query, rivals, weight)


LOSSES: Mapping[LossKind, ScoreLoss | RivalLoss] = {
    "logistic": ScoreLoss(logistic),
    "softmax": RivalLoss(softmax, objects="all"),
    "sampled_softmax": RivalLoss(softmax, objects="shared"),
}
"""Every loss there is, by its name in the settings."""


# The softmax in torch, in bounded memory, twice: where the true answers stand among the candidates and nothing is left
# out, no cell has to be looked up; nothing is read back to the host, and a GPU can record the step or leave it to a
# kernel.


CHUNK_LOGITS = 2**22
"""How many logits are held at once: 16 MB in float32, small enough for the caches near a core. More than 32 MB would
also be fetched from the system anew for every chunk, page by page: all entities of WN11 then took a tenth longer."""

CUDA_CHUNK_LOGITS = 2**28
"""The same on a GPU: 1 GB; launching the kernels of small chunks would take longer than they run."""

CUDA_CHUNK_ALL = 2**26
"""The same over all entities: products of fewer rows would leave most of a GPU idle."""


def shared_softmax(own: Tensor, query: Tensor, rivals: Rivals, weight: Tensor | None = None) -> Tensor:
    """`softmax` with the true answers scored apart, in `own`, and excluded from the rivals."""
    vectors, log_weight = rivals.vectors, rivals.log_weight
    log_weight = query.new_zeros(len(vectors)) if log_weight is None else log_weight.to(query)
    rows = rivals.rows or max(1, (CUDA_CHUNK_LOGITS if query.is_cuda else CHUNK_LOGITS) // max(1, len(vectors)))
    loss: Tensor = _SharedSoftmax.apply(  # type: ignore[no-untyped-call]
        own, query, vectors, log_weight, rivals.excluded, weight, rivals.across, min(rows, len(query))
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
        excluded: Pairs | Places,
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
            excluded.strike(share, start)
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


def full_softmax(
    query: Tensor, candidates: Tensor, target: Tensor, weight: Tensor | None = None, asked: Tensor | None = None
) -> Tensor:
    """The mean over the batch of  w (logsumexp_e⟨q, c_e⟩ - ⟨q, c_t⟩), with 0 < w ≤ 1 (absent: 1).

    Shapes: query [batch, width], candidates [E, width], target [batch], weight [batch] → []. With `asked` [batch] the
    queries [count, width] are fewer, and answer i is one of query asked_i. On a CUDA device with Triton, float32
    vectors with a query each go through kernels, which up to width 512 never write a logit out; all others through
    chunked matrix products.
    """
    loss: Tensor = _FullSoftmax.apply(query, candidates, target, weight, asked)  # type: ignore[no-untyped-call]
    return loss


class _FullSoftmax(torch.autograd.Function):
    """Both gradients are by-products of the loss, so they are computed with it and wait for the chain rule."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, candidates: Tensor, target: Tensor, weight: Tensor | None, asked: Tensor | None
    ) -> Tensor:
        loss, query_gradient, candidate_gradient = softmax_gradients(query, candidates, target, weight, asked)
        ctx.save_for_backward(query_gradient, candidate_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        query_gradient, candidate_gradient = ctx.saved_tensors
        return query_gradient * upstream, candidate_gradient * upstream, None, None, None


def softmax_gradients(
    query: Tensor,
    candidates: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    asked: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss [], its gradient for the queries [count, width] and for the candidates [E, width]."""
    if not query.is_cuda or query.dtype != torch.float32:
        return chunked_softmax(query, candidates, target, weight, asked)
    if triton_installed() and asked is None:
        from blockhole.training.kernels.triton_kernels import WIDE, WIDEST, fused_softmax, wide_softmax

        if query.shape[1] <= WIDEST:
            return fused_softmax(query, candidates, target, weight)
        if WIDE:
            return wide_softmax(query, candidates, target, weight, at_once=CUDA_CHUNK_LOGITS)
    with _tensor_cores():
        return chunked_softmax(query, candidates, target, weight, asked)


def chunked_softmax(
    query: Tensor,
    candidates: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    asked: Tensor | None = None,
    chunk_logits: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by matrix products over blocks of queries; on every device, in every precision.

    With p the exponentials of a query's logits, z their sum and v the sum of its answers' weights, the gradients are
    v p C / z - Σ w c_t for the query, and Σ v p q / z, less w q at each target, for the candidates: dividing vectors by
    z, not p, saves a pass over all logits.
    """
    batch = len(target)
    chunk_logits = chunk_logits or (CUDA_CHUNK_ALL if query.is_cuda else CHUNK_LOGITS)
    rows = max(1, chunk_logits // len(candidates))
    own = query if asked is None else query.index_select(0, asked)  # the query of each answer
    answers = candidates.index_select(0, target)
    if weight is not None:
        own, answers = own * weight[:, None], answers * weight[:, None]
    share = _shares(weight, asked, query)
    loss = -(own * candidates.index_select(0, target)).sum()
    query_gradient = torch.empty_like(query)
    candidate_gradient = torch.zeros_like(candidates)
    for start in range(0, len(query), rows):
        part = slice(start, start + rows)
        logits = query[part] @ candidates.T
        highest = logits.amax(dim=1, keepdim=True)
        exponentials = logits.sub_(highest).exp_()
        total = exponentials.sum(dim=1, keepdim=True)
        loss += (share[part] * (highest + total.log())).sum()
        scale = share[part] / total
        query_gradient[part] = (exponentials @ candidates).mul_(scale)
        candidate_gradient.addmm_(exponentials.T, query[part] * scale)
    if asked is None:
        query_gradient.sub_(answers)
    else:
        query_gradient.index_add_(0, asked, answers, alpha=-1)
    candidate_gradient.index_add_(0, target, own, alpha=-1)
    return loss / batch, query_gradient.div_(batch), candidate_gradient.div_(batch)


def _shares(weight: Tensor | None, asked: Tensor | None, query: Tensor) -> Tensor:
    """What the answers of each query weigh together: [count, 1]."""
    if asked is None:
        return query.new_ones(len(query), 1) if weight is None else weight[:, None]
    each = query.new_ones(len(asked)) if weight is None else weight.to(query)
    return query.new_zeros(len(query)).index_add_(0, asked, each)[:, None]


@contextmanager
def _tensor_cores() -> Iterator[None]:
    """Let products of float32 take TF32 where the device has it: its mantissa is that of the fused kernels."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
