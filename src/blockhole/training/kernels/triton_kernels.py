"""Kernels of a training step on a GPU, in Triton: the full softmax, the scores of drawn objects, and Adagrad.

Each is one pass over what torch would write to memory and read again. The hop's are in `models/hop_triton.py`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_ELEMENTS = 1024
"""Numbers a program of the kernels below takes at a time, but for the softmax's."""

# Full softmax over all entities on a GPU, without ever writing a logit to memory.
#
# For queries q_i, candidates c_e, true answers t_i and weights w_i ≤ 1 the loss is the mean of
# w_i (logsumexp_e⟨q_i, c_e⟩ - ⟨q_i, c_{t_i}⟩). Its gradients are  dq_i = w_i (Σ_e p_ie c_e - c_{t_i})  and
# dc_e = Σ_i w_i (p_ie - [e = t_i]) q_i  (both over the batch size), with p the softmax. The first sum is what attention
# computes when the candidates are both its keys and its values, so one pass over the entities yields the normaliser and
# dq together; a second pass recomputes p by entity and yields dc. Four matrix products and two exponentials per logit,
# all in registers and shared memory.
#
# Operands are float16 with float32 accumulators: the mantissa of TF32 at twice its rate. The parameters stay float32.

# Probabilities near 1e-5 are ordinary with 75,000 candidates, yet subnormal in float16: they are kept times 2^15.
_LIFT = tl.constexpr(15.0)

WIDEST = 512
"""The widest vectors whose accumulators fit the registers. Those of wider ones are cuBLAS' (`wide_softmax`)."""

_PARTS = 4


class _Tiling(NamedTuple):
    """How a kernel cuts its work: rows a program owns, rows it reads at a time, warps, pipeline stages."""

    owned: int
    read: int
    warps: int
    stages: int


# Of ten combinations each on an H200, 8,192 queries over 75,043 entities: 533 and 610 TFLOP/s at width 128, 591 and 615
# at 256, 300 and 348 at 512, where the accumulators need twice the warps. Elsewhere eight warps lose a third or more.
_ATTEND = {128: _Tiling(128, 64, 4, 2), 256: _Tiling(64, 64, 4, 2), 512: _Tiling(64, 64, 8, 2)}
_COLLECT = {128: _Tiling(64, 64, 4, 3), 256: _Tiling(64, 64, 4, 2), 512: _Tiling(64, 64, 8, 2)}


@triton.jit
def _attend(
    query, candidate, part_max, part_sum, part_out, num_queries, num_entities, tiles_per_part,
    WIDTH: tl.constexpr, QUERIES: tl.constexpr, ENTITIES: tl.constexpr,
):  # fmt: skip
    """One part of the entities for one block of queries: running maximum, sum and Σ exp(logit) c, base 2."""
    row = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    part = tl.program_id(1)
    axis = tl.arange(0, WIDTH)
    q = tl.load(query + row[:, None] * WIDTH + axis[None, :], mask=(row < num_queries)[:, None], other=0.0)
    highest = tl.full((QUERIES,), -1e30, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    out = tl.zeros((QUERIES, WIDTH), tl.float32)
    first = part * tiles_per_part * ENTITIES
    last = tl.minimum(first + tiles_per_part * ENTITIES, num_entities)
    for start in range(first, last, ENTITIES):
        entity = start + tl.arange(0, ENTITIES)
        c = tl.load(candidate + entity[:, None] * WIDTH + axis[None, :], mask=(entity < last)[:, None], other=0.0)
        logit = tl.dot(q, tl.trans(c))
        logit = tl.where((entity < last)[None, :], logit, -1e30)
        higher = tl.maximum(highest, tl.max(logit, 1))
        fade = tl.exp2(highest - higher)
        weight = tl.exp2(logit - (higher - _LIFT)[:, None])
        total = total * fade + tl.sum(weight, 1)
        out = tl.dot(weight.to(tl.float16), c, out * fade[:, None])
        highest = higher
    base = part * num_queries + row
    inside = row < num_queries
    tl.store(part_max + base, highest, mask=inside)
    tl.store(part_sum + base, total, mask=inside)
    tl.store(part_out + base[:, None] * WIDTH + axis[None, :], out, mask=inside[:, None])


@triton.jit
def _collect(
    query, candidate, normaliser, gradient, num_queries, num_entities, scale,
    WIDTH: tl.constexpr, QUERIES: tl.constexpr, ENTITIES: tl.constexpr,
):  # fmt: skip
    """dc of one block of entities: scale · Σ_i p_ie q_i."""
    entity = tl.program_id(0) * ENTITIES + tl.arange(0, ENTITIES)
    axis = tl.arange(0, WIDTH)
    inside = entity < num_entities
    c = tl.load(candidate + entity[:, None] * WIDTH + axis[None, :], mask=inside[:, None], other=0.0)
    sums = tl.zeros((ENTITIES, WIDTH), tl.float32)
    for start in range(0, num_queries, QUERIES):
        row = start + tl.arange(0, QUERIES)
        q = tl.load(query + row[:, None] * WIDTH + axis[None, :], mask=(row < num_queries)[:, None], other=0.0)
        # A row past the end gets an infinite normaliser, hence no weight.
        log_total = tl.load(normaliser + row, mask=row < num_queries, other=float("inf"))
        weight = tl.exp2(tl.dot(c, tl.trans(q)) - (log_total - _LIFT)[None, :])
        sums = tl.dot(weight.to(tl.float16), q, sums)
    tl.store(gradient + entity[:, None] * WIDTH + axis[None, :], sums * scale, mask=inside[:, None])


def _padded(rows: Tensor, width: int, factor: float = 1.0) -> Tensor:
    """Float16 rows times `factor`, with zero columns up to `width`."""
    padded = torch.zeros(len(rows), width, dtype=torch.float16, device=rows.device)
    padded[:, : rows.shape[1]] = rows * factor
    return padded


def fused_softmax(
    query: Tensor, candidates: Tensor, target: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean cross entropy, weighted if asked, and its gradients.

    Shapes: query [batch, width], candidates [E, width], target [batch], weight [batch] in (0, 1] → loss [],
    dq [batch, width], dc [E, width], all float32; width at most `WIDEST`.
    """
    batch, columns = query.shape
    entities = len(candidates)
    width = max(16, triton.next_power_of_2(columns))
    to_base_2 = math.log2(math.e)  # exp2 is the instruction; the factor rides on the queries
    q, c = _padded(query, width, to_base_2), _padded(candidates, width)

    # The entities are split into parts so that a small batch still fills the multiprocessors.
    tiling = _ATTEND[max(128, width)]
    tiles_per_part = triton.cdiv(triton.cdiv(entities, tiling.read), _PARTS)
    part_max = query.new_empty(_PARTS, batch)
    part_sum = query.new_empty(_PARTS, batch)
    part_out = query.new_empty(_PARTS, batch, width)
    _attend[(triton.cdiv(batch, tiling.owned), _PARTS)](
        q, c, part_max, part_sum, part_out, batch, entities, tiles_per_part, WIDTH=width,
        QUERIES=tiling.owned, ENTITIES=tiling.read, num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip
    highest = part_max.amax(0)
    share = torch.exp2(part_max - highest) * (part_sum > 0)  # a part may be empty
    total = (part_sum * share).sum(0)
    normaliser = highest + torch.log2(total) - _LIFT.value
    mean_candidate = (part_out * share[..., None]).sum(0)[:, :columns] / total[:, None]

    true_candidate = candidates[target]
    cross_entropy = normaliser / to_base_2 - (query * true_candidate).sum(1)
    query_gradient = (mean_candidate - true_candidate) / batch
    pulling = query
    if weight is not None:
        cross_entropy, pulling = cross_entropy * weight, query * weight[:, None]
        query_gradient *= weight[:, None]
        normaliser = normaliser - torch.log2(weight)  # w p is what a softmax with a larger normaliser gives

    gradient = query.new_empty(entities, width)
    tiling = _COLLECT[max(128, width)]
    _collect[(triton.cdiv(entities, tiling.owned),)](
        q, c, normaliser, gradient, batch, entities, 2.0**-_LIFT.value / to_base_2 / batch, WIDTH=width,
        QUERIES=tiling.read, ENTITIES=tiling.owned, num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip
    candidate_gradient = gradient[:, :columns]
    candidate_gradient.index_add_(0, target, pulling, alpha=-1.0 / batch)
    return cross_entropy.mean(), query_gradient, candidate_gradient


# The same for wider vectors, whose products are large enough to be left to cuBLAS: logits are written out, and one
# kernel turns them into shares. Operands are float16 here too, each matrix times a power of two that brings its largest
# number near the end of float16's range. The entities are padded to whole tiles: a matrix whose rows begin anywhere
# takes products of a fraction of the speed.

WIDE = hasattr(torch.ops.aten.mm, "dtype")
"""Whether this torch has products of float16 in float32, as torch 2.8 and later have."""

_TILE = 64
_LARGEST = 14
"""The largest number of an operand is below 2 to this power."""
_COLUMNS = 4096


@triton.jit
def _soften(logits, share, normaliser, unit, num_entities, columns, COLUMNS: tl.constexpr):
    """One row: the logarithm of Σ exp(logit), and every share times 2^15; base 2."""
    row = tl.program_id(0).to(tl.int64)
    scale = tl.load(unit)
    column = tl.arange(0, COLUMNS)
    highest = tl.full((COLUMNS,), -1e30, tl.float32)
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, columns, COLUMNS):
        inside = start + column < num_entities
        logit = tl.load(logits + row * columns + start + column, mask=inside, other=0.0) * scale
        logit = tl.where(inside, logit, -1e30)
        higher = tl.maximum(highest, logit)
        total = total * tl.exp2(highest - higher) + tl.where(inside, tl.exp2(logit - higher), 0.0)
        highest = higher
    top = tl.max(highest, 0)
    log_total = top + tl.log2(tl.sum(total * tl.exp2(highest - top), 0))
    tl.store(normaliser + row, log_total)
    for start in range(0, columns, COLUMNS):
        place = start + column
        logit = tl.load(logits + row * columns + place, mask=place < num_entities, other=0.0) * scale
        lifted = tl.where(place < num_entities, tl.exp2(logit - (log_total - _LIFT)), 0.0)
        tl.store(share + row * columns + place, lifted.to(tl.float16), mask=place < columns)


def wide_softmax(
    query: Tensor, candidates: Tensor, target: Tensor, weight: Tensor | None = None, *, at_once: int
) -> tuple[Tensor, Tensor, Tensor]:
    """`fused_softmax` at any width, with `at_once` logits in memory, six bytes each."""
    batch, entities = len(query), len(candidates)
    columns = triton.cdiv(entities, _TILE) * _TILE
    pulling = query if weight is None else query * weight[:, None]
    (q, q_lift), (c, c_lift), (pull, pull_lift) = _halved(query), _halved(candidates, columns), _halved(pulling)
    unit = math.log2(math.e) / (q_lift * c_lift)
    normaliser, mean_candidate = query.new_empty(batch), torch.empty_like(query)
    gradient: Tensor | None = None
    rows = max(1, at_once // columns)
    for start in range(0, batch, rows):
        part = slice(start, min(start + rows, batch))
        logits = _product(q[part], c.T)
        share = torch.empty_like(logits, dtype=torch.float16)
        _soften[(len(logits),)](logits, share, normaliser[part], unit, entities, columns, COLUMNS=_COLUMNS, num_warps=8)
        mean_candidate[part] = _product(share, c)
        pulled = _product(share.T, pull[part])
        gradient = pulled if gradient is None else gradient.add_(pulled)
    assert gradient is not None
    lift = 2.0**_LIFT.value
    true_candidate = candidates[target]
    cross_entropy = normaliser / math.log2(math.e) - (query * true_candidate).sum(1)
    query_gradient = (mean_candidate / (lift * c_lift) - true_candidate) / batch
    if weight is not None:
        cross_entropy, query_gradient = cross_entropy * weight, query_gradient * weight[:, None]
    candidate_gradient = gradient[:entities].div_(lift * pull_lift * batch)
    candidate_gradient.index_add_(0, target, pulling, alpha=-1.0 / batch)
    return cross_entropy.mean(), query_gradient, candidate_gradient


def _halved(matrix: Tensor, count: int | None = None) -> tuple[Tensor, Tensor]:
    """A matrix in float16 times a power of two, with rows of zeros up to `count`; and that power, a 0-d tensor."""
    low, high = matrix.aminmax()
    _, exponent = torch.frexp(torch.maximum(-low, high))
    lift = torch.ldexp(torch.ones_like(high), _LARGEST - exponent)
    halved = torch.empty(count or len(matrix), matrix.shape[1], dtype=torch.float16, device=matrix.device)
    halved[len(matrix) :] = 0
    torch.mul(matrix, lift, out=halved[: len(matrix)])  # rounded as it is written: one pass
    return halved, lift


def _product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices of float16 in float32."""
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()  # of Triton's interpreter, where torch has no such product


# Scores of the objects drawn for each positive on a GPU, without a copy of their rows.
#
# φ_nc = ⟨q_n, e_{o(n, c)}⟩ has the gradients  dq_n = Σ_c dφ_nc e_{o(n, c)}  and  de_x = Σ_{o(n, c) = x} dφ_nc q_n.
# Every row is read where it lies; gathered first, the rows of five negatives are written and read three times each.


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
        columns, rows, grid = _row_tiles(query)
        _score[grid](
            query, table, objects, scores, len(query), WIDTH=query.shape[1], COUNT=objects.shape[1], COLUMNS=columns,
            ROWS=rows,
        )  # fmt: skip
        return scores

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        query, table, objects = ctx.saved_tensors
        query_gradient, table_gradient = torch.empty_like(query), torch.zeros_like(table)
        columns, rows, grid = _row_tiles(query)
        _spread[grid](
            query, table, objects, upstream.contiguous(), query_gradient, table_gradient, len(query),
            WIDTH=query.shape[1], COUNT=objects.shape[1], COLUMNS=columns, ROWS=rows,
        )  # fmt: skip
        return query_gradient, table_gradient, None


def _row_tiles(query: Tensor) -> tuple[int, int, tuple[int]]:
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


# Adagrad's step on a GPU in one pass over the rows it moves.


@triton.jit
def _move(
    parameter, total, gradient, rows, count, rate, epsilon,
    WIDTH: tl.constexpr, ALL: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """s ← s + g², x ← x - η g / (√s + ε), element by element; row i of `gradient` belongs to row rows[i]."""
    element = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    mask = element < count
    place = element
    if not ALL:
        place = tl.load(rows + element // WIDTH, mask=mask, other=0) * WIDTH + element % WIDTH
    g = tl.load(gradient + element, mask=mask, other=0.0)
    summed = tl.load(total + place, mask=mask, other=1.0) + g * g
    x = tl.load(parameter + place, mask=mask, other=0.0)
    tl.store(total + place, summed, mask=mask)
    tl.store(parameter + place, x - rate * (g / (tl.sqrt(summed) + epsilon)), mask=mask)


def adagrad_step(
    parameter: Tensor, total: Tensor, gradient: Tensor, rows: Tensor | None, rate: float, epsilon: float
) -> None:
    """Move `rows` (distinct; absent: all) of `parameter` and `total`, both [E, width], by `gradient` [count, width]."""
    gradient = gradient.contiguous()
    count = gradient.numel()
    with torch.no_grad():
        _move[(triton.cdiv(count, _ELEMENTS),)](
            parameter, total, gradient, gradient if rows is None else rows, count, rate, epsilon,
            WIDTH=parameter.shape[1], ALL=rows is None, ELEMENTS=_ELEMENTS,
        )  # fmt: skip
