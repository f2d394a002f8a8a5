"""The hop of the bilinear models on a GPU, without a relation's matrix ever being copied per row.

q'[j, f] = Σ_i q[i, f] W_r[i, j, f]  has the gradients  dq[i, f] = Σ_j dq'[j, f] conj W_r[i, j, f],  the same sum over
the adjoint, and  dW_r[i, j, f] = Σ_{rows of r} conj q[i, f] dq'[j, f].  The few relations stay in the cache, where
every row reads its own; written out, the matrices of a batch are b times as large as its vectors. The sum over the rows
of a relation is a matrix product with its occurrences, so that no row is sorted and none waits for another. All is
float32: unasked ("ieee"), that product would round every number it sums to the 10 bits of TF32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from blockhole.models.blocks import BlockGeometry
from blockhole.models.circulant import adjoint

MOST_RELATIONS = 256
"""Beyond, the occurrences of every relation in every row would be more work than the matrices they spare."""

_ROWS, _LANES, _RELATIONS = 32, 128, 32
_PROGRAMS = 256


@triton.jit
def _apply(
    vector, matrix, relation, out, batch,
    B: tl.constexpr, M: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Some rows and some lanes (j, f) of q'[j, f] = Σ_i q[i, f] W[i, j, f]."""
    N: tl.constexpr = B * M
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    freq = lane % M
    mask = (row < batch)[:, None] & (lane < N)[None, :]
    each = tl.load(relation + row, mask=row < batch, other=0)[:, None] * (PARTS * B * N)
    start = row[:, None] * (PARTS * N)
    sum_re = tl.zeros((ROWS, LANES), tl.float32)
    sum_im = tl.zeros((ROWS, LANES), tl.float32)
    for i in range(B):
        place = (i * N + lane)[None, :]
        at = start + (i * M + freq)[None, :]
        re = tl.load(vector + at, mask=mask, other=0.0)
        w_re = tl.load(matrix + each + place, mask=mask, other=0.0)
        sum_re += re * w_re
        if PARTS == 2:
            im = tl.load(vector + at + N, mask=mask, other=0.0)
            w_im = tl.load(matrix + each + place + B * N, mask=mask, other=0.0)
            sum_re -= im * w_im
            sum_im += re * w_im + im * w_re
    tl.store(out + start + lane[None, :], sum_re, mask=mask)
    if PARTS == 2:
        tl.store(out + start + N + lane[None, :], sum_im, mask=mask)


@triton.jit
def _collect(
    vector, upstream, relation, shares, batch, rows_per_share, num_relations,
    B: tl.constexpr, M: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
    RELATIONS: tl.constexpr,
):  # fmt: skip
    """A share of the rows' dW_r[i, j, f] = Σ conj q[i, f] dq'[j, f], for one i, some lanes (j, f), some relations r."""
    N: tl.constexpr = B * M
    LANE_BLOCKS: tl.constexpr = (N + LANES - 1) // LANES
    i = tl.program_id(0) // LANE_BLOCKS
    lane = (tl.program_id(0) % LANE_BLOCKS) * LANES + tl.arange(0, LANES)
    share = tl.program_id(1)
    which = tl.program_id(2) * RELATIONS + tl.arange(0, RELATIONS)
    freq = lane % M
    sum_re = tl.zeros((RELATIONS, LANES), tl.float32)
    sum_im = tl.zeros((RELATIONS, LANES), tl.float32)
    last = tl.minimum((share + 1) * rows_per_share, batch)
    for first in range(share * rows_per_share, last, ROWS):
        row = (first + tl.arange(0, ROWS)).to(tl.int64)
        mask = (row < last)[:, None] & (lane < N)[None, :]
        each = tl.load(relation + row, mask=row < last, other=0)
        occurs = (which[:, None] == each[None, :]).to(tl.float32)
        start = row[:, None] * (PARTS * N)
        at = start + (i * M + freq)[None, :]
        re = tl.load(vector + at, mask=mask, other=0.0)
        up_re = tl.load(upstream + start + lane[None, :], mask=mask, other=0.0)
        product_re = re * up_re
        if PARTS == 2:
            im = tl.load(vector + at + N, mask=mask, other=0.0)
            up_im = tl.load(upstream + start + N + lane[None, :], mask=mask, other=0.0)
            product_re += im * up_im
            sum_im = tl.dot(occurs, re * up_im - im * up_re, sum_im, input_precision="ieee")
        sum_re = tl.dot(occurs, product_re, sum_re, input_precision="ieee")
    at = (share * num_relations + which)[:, None] * (PARTS * B * N) + (i * N + lane)[None, :]
    mask = (which < num_relations)[:, None] & (lane < N)[None, :]
    tl.store(shares + at, sum_re, mask=mask)
    if PARTS == 2:
        tl.store(shares + at + B * N, sum_im, mask=mask)


def _lanes(geometry: BlockGeometry) -> int:
    return min(_LANES, max(16, int(triton.next_power_of_2(geometry.dimension))))


def _run(vector: Tensor, matrix: Tensor, relation: Tensor, geometry: BlockGeometry) -> Tensor:
    out = torch.empty_like(vector)
    lanes = _lanes(geometry)
    grid = (triton.cdiv(len(vector), _ROWS), triton.cdiv(geometry.dimension, lanes))
    _apply[grid](
        vector, matrix, relation, out, len(vector), B=geometry.blocks, M=geometry.freqs, PARTS=geometry.parts,
        ROWS=_ROWS, LANES=lanes,
    )  # fmt: skip
    return out


def _relation_gradient(
    vector: Tensor, upstream: Tensor, relation: Tensor, count: int, geometry: BlockGeometry
) -> Tensor:
    batch, lanes = len(vector), _lanes(geometry)
    tiles = geometry.blocks * triton.cdiv(geometry.dimension, lanes)
    rows = triton.cdiv(triton.cdiv(batch, max(1, _PROGRAMS // tiles)), _ROWS) * _ROWS
    shares = vector.new_empty(triton.cdiv(batch, rows), count, geometry.relation_width)
    _collect[(tiles, len(shares), triton.cdiv(count, _RELATIONS))](
        vector, upstream, relation, shares, batch, rows, count, B=geometry.blocks, M=geometry.freqs,
        PARTS=geometry.parts, ROWS=_ROWS, LANES=lanes, RELATIONS=_RELATIONS,
    )  # fmt: skip
    return shares.sum(dim=0)


class _Hop(torch.autograd.Function):
    """The hop and its two gradients, each one kernel."""

    @staticmethod
    def forward(ctx: Any, vector: Tensor, matrix: Tensor, relation: Tensor, geometry: BlockGeometry) -> Tensor:
        ctx.save_for_backward(vector, matrix, relation)
        ctx.geometry = geometry
        return _run(vector, matrix, relation, geometry)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        vector, matrix, relation = ctx.saved_tensors
        upstream = upstream.contiguous()
        before, moved = None, None
        if ctx.needs_input_grad[0]:
            # Written out for the few relations: read across, RESCAL's would cost a cache line a number.
            turned = adjoint(matrix.view(len(matrix), *ctx.geometry.relation_shape)).flatten(1).contiguous()
            before = _run(upstream, turned, relation, ctx.geometry)
        if ctx.needs_input_grad[1]:
            moved = _relation_gradient(vector, upstream, relation, len(matrix), ctx.geometry)
        return before, moved, None, None


def fused_hop(vector: Tensor, matrix: Tensor, relation: Tensor, geometry: BlockGeometry) -> Tensor:
    """e'ᵀ W'_r of each row: vector [batch, width], matrix [count, relation width], relation [batch] → [batch, width].

    All float32 and contiguous; ids count in `matrix`.
    """
    hopped: Tensor = _Hop.apply(vector.contiguous(), matrix, relation.contiguous(), geometry)  # type: ignore[no-untyped-call]
    return hopped
