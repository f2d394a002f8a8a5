"""The hop of the bilinear models on a CPU, with its gradients: compiled loops instead of torch's passes over a batch.

q'[j, f] = Σ_i q[i, f] W_r[i, j, f]  has the gradients  dq[i, f] = Σ_j dq'[j, f] conj W_r[i, j, f]  and
dW_r[i, j, f] = Σ_{rows of r} conj q[i, f] dq'[j, f].  In torch each of these writes products the size of the batch's
matrices, b times as large as its vectors, and reads them again to sum them; here a row's numbers stay in the nearest
cache. The geometry is known at run time only, so that one compilation serves all models.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.compiled import FAST, njit
from blockhole.models.blocks import BlockGeometry

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

ZERO = np.float32(0)


@njit(fastmath=FAST)
def hop_rows(vector: Floats, table: Floats, relation: Ids, out: Floats, parts: int, blocks: int, freqs: int) -> None:
    """q'[j, f] = Σ_i q[i, f] · W_r[i, j, f] of each row: vector and out [row, part·b·m], table [id, part·b·b·m]."""
    n = blocks * freqs
    imaginary = blocks * n
    for x in range(len(vector)):
        q, w, o = vector[x], table[relation[x]], out[x]
        for c in range(parts * n):
            o[c] = ZERO
        for i in range(blocks):
            if freqs == 1:  # a number times a row of a dense matrix
                re, at = q[i], i * blocks
                im = q[n + i] if parts == 2 else ZERO
                if parts == 1:
                    for j in range(blocks):
                        o[j] += re * w[at + j]
                else:
                    for j in range(blocks):
                        w_re, w_im = w[at + j], w[imaginary + at + j]
                        o[j] += re * w_re - im * w_im
                        o[n + j] += re * w_im + im * w_re
                continue
            for j in range(blocks):
                to, of, at = j * freqs, i * freqs, (i * blocks + j) * freqs
                if parts == 1:
                    for f in range(freqs):
                        o[to + f] += q[of + f] * w[at + f]
                else:
                    for f in range(freqs):
                        q_re, q_im, w_re, w_im = q[of + f], q[n + of + f], w[at + f], w[imaginary + at + f]
                        o[to + f] += q_re * w_re - q_im * w_im
                        o[n + to + f] += q_re * w_im + q_im * w_re


@njit(fastmath=FAST)
def hop_rows_back(
    vector: Floats,
    table: Floats,
    relation: Ids,
    upstream: Floats,
    vector_gradient: Floats,
    table_gradient: Floats,
    parts: int,
    blocks: int,
    freqs: int,
) -> None:
    """Both gradients of `hop_rows`, from that of its result; that of the table is added to what is there."""
    n = blocks * freqs
    imaginary = blocks * n
    for x in range(len(vector)):
        q, w, d = vector[x], table[relation[x]], upstream[x]
        g, h = vector_gradient[x], table_gradient[relation[x]]
        for i in range(blocks):
            if freqs == 1:
                q_re, at = q[i], i * blocks
                q_im = q[n + i] if parts == 2 else ZERO
                re, im = ZERO, ZERO
                if parts == 1:
                    for j in range(blocks):
                        re += d[j] * w[at + j]
                    for j in range(blocks):
                        h[at + j] += q_re * d[j]
                else:
                    for j in range(blocks):
                        re += d[j] * w[at + j] + d[n + j] * w[imaginary + at + j]
                        im += d[n + j] * w[at + j] - d[j] * w[imaginary + at + j]
                    for j in range(blocks):
                        h[at + j] += q_re * d[j] + q_im * d[n + j]
                        h[imaginary + at + j] += q_re * d[n + j] - q_im * d[j]
                    g[n + i] = im
                g[i] = re
                continue
            of = i * freqs
            for f in range(freqs):
                g[of + f] = ZERO
            if parts == 2:
                for f in range(freqs):
                    g[n + of + f] = ZERO
            for j in range(blocks):
                to, at = j * freqs, (i * blocks + j) * freqs
                if parts == 1:
                    for f in range(freqs):
                        g[of + f] += d[to + f] * w[at + f]
                    for f in range(freqs):
                        h[at + f] += q[of + f] * d[to + f]
                else:
                    for f in range(freqs):
                        d_re, d_im, w_re, w_im = d[to + f], d[n + to + f], w[at + f], w[imaginary + at + f]
                        g[of + f] += d_re * w_re + d_im * w_im
                        g[n + of + f] += d_im * w_re - d_re * w_im
                    for f in range(freqs):
                        d_re, d_im, q_re, q_im = d[to + f], d[n + to + f], q[of + f], q[n + of + f]
                        h[at + f] += q_re * d_re + q_im * d_im
                        h[imaginary + at + f] += q_re * d_im - q_im * d_re


def compiled_hop(vector: Tensor, table: Tensor, relation: Tensor, geometry: BlockGeometry) -> Tensor:
    """The hop of each row: vector [batch, width], table [id, part·b²·m], relation [batch] → [batch, width]."""
    if len(relation) and not 0 <= int(relation.min()) <= int(relation.max()) < len(table):
        raise IndexError(f"relation ids must be in 0 … {len(table) - 1}")  # the loops would read past the table
    hopped: Tensor = _Hop.apply(vector, table, relation, geometry)  # type: ignore[no-untyped-call]
    return hopped


class _Hop(torch.autograd.Function):
    """`hop_rows` for autograd."""

    @staticmethod
    def forward(ctx: Any, vector: Tensor, table: Tensor, relation: Tensor, geometry: BlockGeometry) -> Tensor:
        vector, table, relation = vector.contiguous(), table.contiguous(), relation.contiguous()
        out = torch.empty_like(vector)
        hop_rows(_array(vector), _array(table), _array(relation), _array(out), *geometry.entity_shape)
        ctx.save_for_backward(vector, table, relation)
        ctx.geometry = geometry
        return out

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None, None]:
        vector, table, relation = ctx.saved_tensors
        vector_gradient, table_gradient = torch.empty_like(vector), torch.zeros_like(table)
        hop_rows_back(
            _array(vector),
            _array(table),
            _array(relation),
            _array(upstream.contiguous()),
            _array(vector_gradient),
            _array(table_gradient),
            *ctx.geometry.entity_shape,
        )
        return vector_gradient, table_gradient, None, None


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().numpy()
    return array
