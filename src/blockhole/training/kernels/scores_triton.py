"""Scores of the objects drawn for each positive on a GPU, without a copy of their rows.

φ_nc = ⟨q_n, e_{o(n, c)}⟩ has the gradients  dq_n = Σ_c dφ_nc e_{o(n, c)}  and  de_x = Σ_{o(n, c) = x} dφ_nc q_n.  Every
row is read where it lies; gathered first, the rows of five negatives are written and read three times each.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_ELEMENTS = 1024


@triton.jit
def _score(
    query, table, objects, out, batch,
    WIDTH: tl.constexpr, COUNT: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """φ of some rows with each of their objects."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    inside = row < batch
    mask = inside[:, None] & (column < WIDTH)[None, :]
    q = tl.load(query + row[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
    for c in range(COUNT):
        entity = tl.load(objects + row * COUNT + c, mask=inside, other=0)
        e = tl.load(table + entity[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
        tl.store(out + row * COUNT + c, tl.sum(q * e, axis=1), mask=inside)


@triton.jit
def _spread(
    query, table, objects, upstream, query_gradient, table_gradient, batch,
    WIDTH: tl.constexpr, COUNT: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Both gradients of the scores of some rows; those of the table are added up where rows meet."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    inside = row < batch
    mask = inside[:, None] & (column < WIDTH)[None, :]
    q = tl.load(query + row[:, None] * WIDTH + column[None, :], mask=mask, other=0.0)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for c in range(COUNT):
        entity = tl.load(objects + row * COUNT + c, mask=inside, other=0)
        g = tl.load(upstream + row * COUNT + c, mask=inside, other=0.0)
        place = entity[:, None] * WIDTH + column[None, :]
        total += g[:, None] * tl.load(table + place, mask=mask, other=0.0)
        tl.atomic_add(table_gradient + place, g[:, None] * q, mask=mask, sem="relaxed")
    tl.store(query_gradient + row[:, None] * WIDTH + column[None, :], total, mask=mask)


class _Scores(torch.autograd.Function):
    """The scores and their two gradients, one kernel each way."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, table: Tensor, objects: Tensor) -> Tensor:
        ctx.save_for_backward(query, table, objects)
        scores = query.new_empty(objects.shape)
        columns, rows, grid = _tiling(query)
        _score[grid](
            query, table, objects, scores, len(query), WIDTH=query.shape[1], COUNT=objects.shape[1], COLUMNS=columns,
            ROWS=rows,
        )  # fmt: skip
        return scores

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        query, table, objects = ctx.saved_tensors
        query_gradient, table_gradient = torch.empty_like(query), torch.zeros_like(table)
        columns, rows, grid = _tiling(query)
        _spread[grid](
            query, table, objects, upstream.contiguous(), query_gradient, table_gradient, len(query),
            WIDTH=query.shape[1], COUNT=objects.shape[1], COLUMNS=columns, ROWS=rows,
        )  # fmt: skip
        return query_gradient, table_gradient, None


def _tiling(query: Tensor) -> tuple[int, int, tuple[int]]:
    """Columns and rows of a program's tile, and how many programs there are."""
    columns = int(triton.next_power_of_2(query.shape[1]))
    rows = max(1, _ELEMENTS // columns)
    return columns, rows, (triton.cdiv(len(query), rows),)


def object_scores(query: Tensor, table: Tensor, objects: Tensor) -> Tensor:
    """⟨q_n, table[objects_nc]⟩: query [batch, width], table [E, width], objects [batch, count] → [batch, count].

    Float32 and int64, the table contiguous.
    """
    scores: Tensor = _Scores.apply(query.contiguous(), table, objects.contiguous())  # type: ignore[no-untyped-call]
    return scores
