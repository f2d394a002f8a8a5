"""Compiled loops of a training step on a CPU: draws, hops, scores, gradients and Adagrad.

A fused step of the bilinear family with the logistic loss has three phases. Each is cut into pieces whose bounds do not
depend on the number of threads, and no two pieces write the same number: the weights after a step are the same bit for
bit for any number of threads. Threads count through the pieces of a phase in compiled code, from beginning to end of a
step: a batch of 1,024 is done in a millisecond, of which handing work out from Python took a fifth.

1. `walk`, over chunks of rows: q_h = q_{h-1} W_{r_h}; the scores ⟨q_k, e_o⟩ of the target and, for a positive, of its
   negatives; the gradient back along the path. Query vectors and source gradients stay in batch buffers, the relations'
   gradients in sums of the chunk's own.
2. `update_entities`, over the occurrences of entities in the batch sorted by row: the gradient of a row is gathered
   from the buffers, then its optimizer step is taken.
3. `update_relations`, over relations: the chunks' sums are added in order, then the step is taken.

The geometry (parts, b, m) is constant in a compiled step: at m = 25 a hop whose loops have a known length is seven
times as fast as one that learns it at run time, as the hop of `models/hop_compiled.py` does, which serves autograd:
one compilation for all geometries instead of seconds for each. Helpers are inlined for the same reason. A hop never
reads and writes one array: the compiler could not tell the rows apart, and would not vectorise it.

All of them stand in this file, since Numba's disk cache does not see that a function in another one has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from blockhole.compiled import FAST, njit
from blockhole.queries.walks import split_mix

# The arrays that a step reads and writes, in groups that the loops take as they are.

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Keys = NDArray[np.uint64]

CHUNKS = 16
"""Parts of a batch that are walked independently; fixed, so that results do not depend on the number of threads."""

PIECE = 128
"""Occurrences of entities that are updated by one thread in one go, some ten microseconds: who is done waits for less.
Fixed for the same reason."""

RELATION_PIECE = 8
"""Relations that are updated by one thread in one go."""


class Tables(NamedTuple):
    """Parameters and Adagrad's sums of squares; the sums are [rows, width], or [rows, 1] when row-wise."""

    entity: Floats
    relation: Floats
    entity_total: Floats
    relation_total: Floats


class Rule(NamedTuple):
    """η, ε and λ/B: how a gradient becomes a step, and what a row costs each time a positive touches it."""

    rate: np.float32
    epsilon: np.float32
    penalty: np.float32


class Rows(NamedTuple):
    """A batch: source [row], path [row, hop], objects [row, slot].

    The first rows are the `positives`: slot 0 is the target, the rest are negatives. The others are corrupted paths:
    slot 0 is the target, which they should not lead to, and the other slots do not count. All scores are lowered by
    `shift` before they are judged.
    """

    source: Ids
    path: Ids
    objects: Ids
    positives: int
    shift: np.float32 = np.float32(0)


class Work(NamedTuple):
    """What a step writes before the tables change.

    queries and source_gradients [row, width]; coefficients ∂loss/∂φ [row, slot]; keys and spare_keys, the
    occurrences of entities, at most [row·(slot + 1)]. Chunk c keeps the gradient of relation r in row
    c·most + relation_slot[c, r] - 1 of relation_sums, where slot 0 stands for a relation the chunk has not met.
    The sums in float64: of the loss by chunk, of the penalty by piece of occurrences and by relation.
    """

    queries: Floats
    source_gradients: Floats
    coefficients: Floats
    relation_slot: NDArray[np.int32]
    relation_count: NDArray[np.int32]
    relation_sums: Floats
    keys: Keys
    spare_keys: Keys
    loss: NDArray[np.float64]
    entity_penalty: NDArray[np.float64]
    relation_penalty: NDArray[np.float64]

    def fit(self, rows: int, occurrences: int) -> Work:
        """The same arrays, cut to a batch no larger than they were made for."""
        return self._replace(
            queries=self.queries[:rows],
            source_gradients=self.source_gradients[:rows],
            coefficients=self.coefficients[:rows],
            keys=self.keys[:occurrences],
            spare_keys=self.spare_keys[:occurrences],
            entity_penalty=self.entity_penalty[: -(-occurrences // PIECE)],
        )


def allocate_work(rows: int, hops: int, slots: int, tables: Tables) -> Work:
    """Room for steps of up to `rows` rows with `slots` objects each and paths of up to `hops` relations."""
    relations, relation_width = tables.relation.shape
    most = min(relations, -(-rows // CHUNKS) * hops)
    occurrences = rows * (slots + 1)
    return Work(
        queries=np.empty((rows, tables.entity.shape[1]), np.float32),
        source_gradients=np.empty((rows, tables.entity.shape[1]), np.float32),
        coefficients=np.empty((rows, slots), np.float32),
        relation_slot=np.empty((CHUNKS, relations), np.int32),
        relation_count=np.empty(CHUNKS * most, np.int32),
        relation_sums=np.empty((CHUNKS * most, relation_width), np.float32),
        keys=np.empty(occurrences, np.uint64),
        spare_keys=np.empty(occurrences, np.uint64),
        loss=np.empty(CHUNKS, np.float64),
        entity_penalty=np.empty(-(-occurrences // PIECE), np.float64),
        relation_penalty=np.empty(relations, np.float64),
    )


# A fused step, compiled for one geometry.

TILE = 8
"""Rows whose entities are read twice, for scores and for gradients, and should still be in the nearest cache."""

ROWS_AHEAD, OCCURRENCES_AHEAD = 4, 8
"""How far ahead entities are asked for."""

CERTAIN = np.float32(80)
"""The margin of a slot that does not count: its loss, 2e-35, is lost in any sum."""

LONG = 64
"""Rows of fewer numbers are looped over by their length at run time: a short loop of known length is unrolled into
single operations before it can be vectorised."""

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


Progress = NDArray[np.int64]
"""How far the threads of a step are, [4]: pieces given out and pieces done, of its first half and of its second."""

SPINS = 2**16
"""How often a thread looks whether the others are done before it gives its core away: tens of microseconds."""

FusedArguments = tuple[Rows, Tables, Work, Rule, Progress]
FusedStep = Callable[[Rows, Tables, Work, Rule, Progress], bool]
"""Takes part in a step until no piece is left. False: others are still at theirs, call it again."""


@cache
def compile_step(parts: int, blocks: int, freqs: int) -> FusedStep:
    """The step of one geometry; its closure holds integers only, so that Numba's disk cache finds it again."""

    @njit(fastmath=FAST)
    def step(batch: Rows, tables: Tables, work: Work, rule: Rule, progress: Progress) -> bool:
        pieces = 1 + CHUNKS
        piece = add_at(progress, 0, 1)
        while piece < pieces:
            if piece == 0:
                sort_occurrences(batch, work.keys, work.spare_keys, len(tables.entity))
            else:
                walk(piece - 1, batch, tables, work, parts, blocks, freqs)
            add_at(progress, 1, 1)
            piece = add_at(progress, 0, 1)
        if not reaches(progress, 1, pieces):
            return False
        order = work.keys if count_passes(len(tables.entity)) % 2 == 0 else work.spare_keys
        relation_pieces = (len(tables.relation) + RELATION_PIECE - 1) // RELATION_PIECE
        pieces = relation_pieces + len(work.entity_penalty)
        piece = add_at(progress, 2, 1)
        while piece < pieces:
            if piece < relation_pieces:
                update_relations(piece, tables, work, rule, parts * blocks * blocks * freqs)
            else:
                update_entities(
                    piece - relation_pieces, order, batch.positives, tables, work, rule, parts * blocks * freqs
                )
            add_at(progress, 3, 1)
            piece = add_at(progress, 2, 1)
        return reaches(progress, 3, pieces)

    return step


@njit(fastmath=FAST, inline="always")
def walk(chunk: int, batch: Rows, tables: Tables, work: Work, parts: int, blocks: int, freqs: int) -> None:
    """One chunk of the rows: their query vectors, scores and loss, and the gradients along their paths."""
    width = parts * blocks * freqs
    source, path, objects, positives, shift = batch
    entity, relation = tables.entity, tables.relation
    coefficients, relation_slot, relation_sums = work.coefficients, work.relation_slot, work.relation_sums
    (count, hops), slots = path.shape, objects.shape[1]
    flat = width if width >= LONG else entity.shape[1]
    size = (count + CHUNKS - 1) // CHUNKS
    most = len(relation_sums) // CHUNKS
    here, there = np.empty(width, np.float32), np.empty(width, np.float32)
    walked = np.empty((TILE * hops, width), np.float32)
    relation_slot[chunk] = 0
    used, work.loss[chunk] = 0, 0.0
    end = min(count, (chunk + 1) * size)
    for tile in range(chunk * size, end, TILE):
        tile_end = min(end, tile + TILE)
        for x in range(tile, tile_end):
            ahead = min(x + ROWS_AHEAD, count - 1)
            prefetch_row(entity, source[ahead])
            for slot in range(slots):
                prefetch_row(entity, objects[ahead, slot])
            copy(here, entity[source[x]], flat)
            for h in range(hops):
                copy(walked[(x - tile) * hops + h], here, flat)
                hop(here, relation[path[x, h]], there, parts, blocks, freqs)
                here, there = there, here
            copy(work.queries[x], here, flat)
            positive = x < positives
            score = dot(here, entity[objects[x, 0]], flat) - shift
            coefficients[x] = CERTAIN
            coefficients[x, 0] = score if positive else -score
            for slot in range(1, slots if positive else 1):
                coefficients[x, slot] = shift - dot(here, entity[objects[x, slot]], flat)
        work.loss[chunk] += logistic(coefficients[tile:tile_end].reshape(-1), np.float32(1.0 / positives))
        for x in range(tile, tile_end):
            positive = x < positives
            if positive:
                coefficients[x, 0] = -coefficients[x, 0]
            for c in range(flat):
                here[c] = ZERO
            for slot in range(slots if positive else 1):
                add_scaled(here, coefficients[x, slot], entity[objects[x, slot]], flat)
            for h in range(hops - 1, -1, -1):
                r = path[x, h]
                if relation_slot[chunk, r] == 0:
                    used += 1
                    relation_slot[chunk, r] = used
                    work.relation_count[chunk * most + used - 1] = 0
                    relation_sums[chunk * most + used - 1] = ZERO
                at = chunk * most + relation_slot[chunk, r] - 1
                work.relation_count[at] += positive
                add_outer(walked[(x - tile) * hops + h], here, relation_sums[at], parts, blocks, freqs)
                hop_back(here, relation[r], there, parts, blocks, freqs)
                here, there = there, here
            copy(work.source_gradients[x], here, flat)


@njit(fastmath=FAST, inline="always")
def update_entities(
    piece: int, order: Keys, positives: int, tables: Tables, work: Work, rule: Rule, width: int
) -> None:
    """The gradients and steps of the rows whose occurrences begin in one piece of the sorted ones."""
    entity, total = tables.entity, tables.entity_total
    queries, source_gradients, coefficients = work.queries, work.source_gradients, work.coefficients
    count, slots = len(order), coefficients.shape[1]
    shift = slot_bits(slots)
    slot_mask = (np.uint64(1) << shift) - np.uint64(1)
    flat = width if width >= LONG else entity.shape[1]
    gradient = np.empty(width, np.float32)
    work.entity_penalty[piece] = 0.0
    t = piece * PIECE
    end = min(count, t + PIECE)
    # A row belongs to the piece in which its first occurrence lies.
    while 0 < t < count and order[t] >> ROW_SHIFT == order[t - 1] >> ROW_SHIFT:
        t += 1
    while t < end:
        row = order[t] >> ROW_SHIFT
        penalised = 0
        for c in range(flat):
            gradient[c] = ZERO
        while t < count and order[t] >> ROW_SHIFT == row:
            ahead = order[min(t + OCCURRENCES_AHEAD, count - 1)]
            prefetch_row(entity, np.int64(ahead >> ROW_SHIFT))
            prefetch_row(total, np.int64(ahead >> ROW_SHIFT))
            x, slot = np.int64((ahead & PLACE_MASK) >> shift), np.int64(ahead & slot_mask)
            prefetch_row(queries if slot < slots else source_gradients, x)
            x, slot = np.int64((order[t] & PLACE_MASK) >> shift), np.int64(order[t] & slot_mask)
            if x < positives and (slot == 0 or slot == slots):
                penalised += 1
            if slot < slots:
                add_scaled(gradient, coefficients[x, slot], queries[x], flat)
            else:
                add_scaled(gradient, ONE, source_gradients[x], flat)
            t += 1
        if penalised > 0 and rule.penalty > 0:
            weight = rule.penalty * np.float32(penalised)
            work.entity_penalty[piece] += weight * dot(entity[row], entity[row], flat)
            add_scaled(gradient, TWO * weight, entity[row], flat)
        adagrad(entity[row], gradient, total[row], rule, flat)


@njit(fastmath=FAST, inline="always")
def update_relations(piece: int, tables: Tables, work: Work, rule: Rule, width: int) -> None:
    """The gradients and steps of a few relations: the chunks' sums, added in order."""
    relation, sums = tables.relation, work.relation_sums
    flat = width if width >= LONG else relation.shape[1]
    most = len(sums) // CHUNKS
    gradient = np.empty(width, np.float32)
    for r in range(piece * RELATION_PIECE, min(len(relation), (piece + 1) * RELATION_PIECE)):
        work.relation_penalty[r] = 0.0
        met, penalised = False, 0
        for c in range(flat):
            gradient[c] = ZERO
        for chunk in range(CHUNKS):
            slot = work.relation_slot[chunk, r]
            if slot > 0:
                met = True
                penalised += work.relation_count[chunk * most + slot - 1]
                add_scaled(gradient, ONE, sums[chunk * most + slot - 1], flat)
        if met:
            weight = rule.penalty * np.float32(penalised)
            work.relation_penalty[r] = weight * dot(relation[r], relation[r], flat)
            add_scaled(gradient, TWO * weight, relation[r], flat)
            adagrad(relation[r], gradient, tables.relation_total[r], rule, flat)


# Rows and hops.


@njit(fastmath=FAST, inline="always")
def dot(a: Floats, b: Floats, width: int) -> np.float32:
    """⟨a, b⟩."""
    total = ZERO
    for x in range(width):
        total += a[x] * b[x]
    return total


@njit(fastmath=FAST, inline="always")
def add_scaled(out: Floats, scale: np.float32, vector: Floats, width: int) -> None:
    """out += scale · vector."""
    for x in range(width):
        out[x] += scale * vector[x]


@njit(fastmath=FAST, inline="always")
def copy(out: Floats, vector: Floats, width: int) -> None:
    """out = vector."""
    for x in range(width):
        out[x] = vector[x]


@njit(fastmath=FAST, inline="always")
def multiply_row(vector: Floats, matrix: Floats, out: Floats, n: int) -> None:
    """A hop of real numbers at m = 1, a row times a matrix [n·n]; four rows at once, or storing the sums would rule."""
    for j in range(n):
        out[j] = ZERO
    for i in range(0, n - 3, 4):
        q0, q1, q2, q3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        row = i * n
        for j in range(n):
            low = q0 * matrix[row + j] + q1 * matrix[row + n + j]
            out[j] += low + q2 * matrix[row + 2 * n + j] + q3 * matrix[row + 3 * n + j]
    for i in range(n - n % 4, n):
        add_scaled(out, vector[i], matrix[i * n : (i + 1) * n], n)


@njit(fastmath=FAST, inline="always")
def hop(vector: Floats, relation: Floats, out: Floats, parts: int, blocks: int, freqs: int) -> None:
    """q'[j, f] = Σ_i q[i, f] · W[i, j, f]; vectors [part·b·m], relation [part·b·b·m]."""
    n = blocks * freqs
    if freqs == 1 and parts == 1:
        multiply_row(vector, relation, out, n)
        return
    for j in range(blocks):
        for f in range(freqs):
            re, im = ZERO, ZERO
            for i in range(blocks):
                q, w = vector[i * freqs + f], relation[(i * blocks + j) * freqs + f]
                re += q * w
                if parts == 2:
                    q_im, w_im = vector[n + i * freqs + f], relation[blocks * n + (i * blocks + j) * freqs + f]
                    re -= q_im * w_im
                    im += q * w_im + q_im * w
            out[j * freqs + f] = re
            if parts == 2:
                out[n + j * freqs + f] = im


@njit(fastmath=FAST, inline="always")
def hop_back(gradient: Floats, relation: Floats, out: Floats, parts: int, blocks: int, freqs: int) -> None:
    """d[i, f] = Σ_j d'[j, f] · conj W[i, j, f]: the gradient through one hop."""
    n = blocks * freqs
    if freqs == 1 and parts == 1:
        for i in range(n):
            out[i] = dot(gradient, relation[i * n : (i + 1) * n], len(gradient))
        return
    for i in range(blocks):
        for f in range(freqs):
            re, im = ZERO, ZERO
            for j in range(blocks):
                d, w = gradient[j * freqs + f], relation[(i * blocks + j) * freqs + f]
                re += d * w
                if parts == 2:
                    d_im, w_im = gradient[n + j * freqs + f], relation[blocks * n + (i * blocks + j) * freqs + f]
                    re += d_im * w_im
                    im += d_im * w - d * w_im
            out[i * freqs + f] = re
            if parts == 2:
                out[n + i * freqs + f] = im


@njit(fastmath=FAST, inline="always")
def add_outer(vector: Floats, gradient: Floats, out: Floats, parts: int, blocks: int, freqs: int) -> None:
    """out[i, j, f] += conj q[i, f] · d'[j, f]: the gradient of one hop's relation."""
    n = blocks * freqs
    if freqs == 1 and parts == 1:
        for i in range(n):
            add_scaled(out[i * n : (i + 1) * n], vector[i], gradient, n)
        return
    for i in range(blocks):
        for j in range(blocks):
            for f in range(freqs):
                q = vector[i * freqs + f]
                d = gradient[j * freqs + f]
                if parts == 2:
                    q_im = vector[n + i * freqs + f]
                    d_im = gradient[n + j * freqs + f]
                    out[(i * blocks + j) * freqs + f] += q * d + q_im * d_im
                    out[blocks * n + (i * blocks + j) * freqs + f] += q * d_im - q_im * d
                else:
                    out[(i * blocks + j) * freqs + f] += q * d


# The loss.


@njit(fastmath=FAST, inline="always")
def exp_negative(x: np.float32) -> np.float32:
    """exp(-x) for x ≥ 0 to 2e-7, in operations that vectorise: 2^i by its bits, 2^f by a polynomial."""
    t = np.float32(min(x, np.float32(80.0))) * np.float32(-1.44269504)
    whole = np.floor(t)
    f = t - whole
    p = np.float32(0.00021871895)
    p = p * f + np.float32(0.0012387478)
    p = p * f + np.float32(0.009684581)
    p = p * f + np.float32(0.055480383)
    p = p * f + np.float32(0.24023044)
    p = p * f + np.float32(0.6931469)
    p = p * f + np.float32(1.0)
    power = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)
    value: np.float32 = p * power
    return value


@njit(fastmath=FAST)
def logistic(margin: Floats, scale: np.float32) -> np.float32:
    """Σ log(1 + exp(-x)) over margins x = yφ; each x is replaced by scale·σ(-x)."""
    loss = ZERO
    for t in range(len(margin)):
        x = margin[t]
        z = exp_negative(abs(x))
        s = z / (np.float32(2.0) + z)  # log(1 + z) = 2 artanh(z / (2 + z))
        s2 = s * s
        series = np.float32(1 / 13)
        series = series * s2 + np.float32(1 / 11)
        series = series * s2 + np.float32(1 / 9)
        series = series * s2 + np.float32(1 / 7)
        series = series * s2 + np.float32(1 / 5)
        series = series * s2 + np.float32(1 / 3)
        series = series * s2 + np.float32(1)
        loss += np.float32(0.5) * (abs(x) - x) + TWO * s * series
        margin[t] = scale * (z if x > 0 else ONE) / (np.float32(1) + z)
    return loss


# Adagrad, of a fused step and of the rows that autograd has gradients for.


@njit(fastmath=FAST, inline="always")
def adagrad(row: Floats, gradient: Floats, total: Floats, rule: Rule, width: int) -> None:
    """G += g², θ -= η g / (√G + ε); row-wise (one total a row): G += mean g²."""
    if len(total) == 1:
        total[0] += dot(gradient, gradient, width) / np.float32(width)
        add_scaled(row, -rule.rate / (np.sqrt(total[0]) + rule.epsilon), gradient, width)
    else:
        for x in range(width):
            g = gradient[x]
            t = total[x] + g * g
            total[x] = t
            row[x] -= rule.rate * g / (np.sqrt(t) + rule.epsilon)


@njit(fastmath=FAST)
def move_rows(parameter: Floats, total: Floats, gradient: Floats, rows: Ids, rule: Rule) -> None:
    """Adagrad's step of row rows[i] by row i of `gradient`."""
    for i in range(len(rows)):
        adagrad(parameter[rows[i]], gradient[i], total[rows[i]], rule, gradient.shape[1])


# Where each entity occurs in a batch: occurrences sorted by row, so that every row has one owner.

ROW_SHIFT, PLACE_MASK = np.uint64(32), np.uint64(2**32 - 1)
"""A key is entity << 32 | place, and a place is x << slot_bits | slot: slot `slot` of row x of the batch."""

DIGIT_BITS = 11
"""Most bits of a row that one pass looks at: 2048 counters fit the nearest cache."""


@njit(inline="always")
def slot_bits(slots: int) -> np.uint64:
    """How many bits the slots of a row take: its objects 0 … slots - 1, and `slots` for its source."""
    bits = np.uint64(0)
    while slots >> bits:
        bits += np.uint64(1)
    return bits


def count_occurrences(rows: int, positives: int, slots: int) -> int:
    """How many keys a batch has: all slots and the source of a positive, the target and the source of other rows."""
    return positives * (slots + 1) + (rows - positives) * 2


@njit(inline="always")
def count_bits(num_entities: int) -> int:
    """How many bits the ids of entities take."""
    bits = 1
    while (num_entities - 1) >> bits:
        bits += 1
    return bits


@njit(inline="always")
def count_passes(num_entities: int) -> int:
    """How many passes sort that many bits."""
    return (count_bits(num_entities) + DIGIT_BITS - 1) // DIGIT_BITS


@njit
def sort_occurrences(batch: Rows, keys: Keys, spare: Keys, num_entities: int) -> Keys:
    """The keys of a batch, ascending by entity, then by place; they end in `keys` or in `spare`.

    A radix sort, lowest digit first: two passes over the 16 bits of WN11's ids. After an even number of passes they
    are in `keys`.
    """
    source, objects = batch.source, batch.objects
    count, slots = objects.shape
    shift = slot_bits(slots)
    at = 0
    for x in range(count):
        place = np.uint64(x) << shift
        for slot in range(slots if x < batch.positives else 1):
            keys[at] = (np.uint64(objects[x, slot]) << ROW_SHIFT) | place | np.uint64(slot)
            at += 1
        keys[at] = (np.uint64(source[x]) << ROW_SHIFT) | place | np.uint64(slots)
        at += 1
    bits, passes = count_bits(num_entities), count_passes(num_entities)
    digit_bits = (bits + passes - 1) // passes
    mask = np.uint64((1 << digit_bits) - 1)
    start = np.empty((1 << digit_bits) + 1, np.int64)
    for number in range(passes):
        shift = ROW_SHIFT + np.uint64(number * digit_bits)
        start[:] = 0
        for key in keys:
            start[((key >> shift) & mask) + np.uint64(1)] += 1
        for value in range(1 << digit_bits):
            start[value + 1] += start[value]
        for key in keys:
            digit = (key >> shift) & mask
            spare[start[digit]] = key
            start[digit] += 1
        keys, spare = spare, keys
    return keys


# Drawing objects.

HALF = np.uint64(32)

bits_at = cast("Callable[[np.uint64], np.uint64]", njit(inline="always")(split_mix))
"""SplitMix64 of one counter; from another file, but a formula that never changes."""


@njit
def draw_objects(key: int, entities: Ids, target: Ids, out: Ids) -> None:
    """out [positive, 1 + k]: the target, then k of the `entities`, all as likely; the numbers `KeyedDraws.draw` gives.

    Its seven tensors of the batch's size took a tenth of a step's time, on one thread.
    """
    choices = np.uint64(len(entities))
    counter = np.uint64(key)
    for x in range(len(target)):
        out[x, 0] = target[x]
        for slot in range(1, out.shape[1]):
            out[x, slot] = entities[((bits_at(counter) >> HALF) * choices) >> HALF]
            counter += np.uint64(1)


@njit
def ids_within(ids: Ids, limit: int) -> bool:
    """Whether there are ids, and all of them are in 0 … limit - 1."""
    for each in ids:
        if not 0 <= each < limit:
            return False
    return len(ids) > 0


# Threads that share the pieces of a step.


@njit(inline="always")
def reaches(progress: Progress, at: int, wanted: int) -> bool:
    """Whether progress[at] gets as far as `wanted` while this thread waits."""
    for _ in range(SPINS):  # noqa: SIM110  Numba compiles no generator here
        if read_at(progress, at) >= wanted:
            return True
    return False


# What plain Python loops cannot say: counting that threads share, and asking the processor for a row before it is
# needed.

CACHE_LINE = 64

if TYPE_CHECKING:

    def add_at(numbers: Progress, at: int, amount: int) -> int:
        """Add to numbers[at] at once, whatever other threads do; what was there before. C-contiguous."""

    def read_at(numbers: Progress, at: int) -> int:
        """numbers[at] as other threads have left it, together with all they wrote before."""

    def prefetch_row(table: NDArray[np.float32], row: int | np.int64) -> None:
        """Begin to load table[row] into the caches; `table` is C-contiguous, [rows, width]."""

else:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.gep(array.data, [context.cast(builder, arguments[1], signature.args[1], types.intp)])

    @intrinsic
    def add_at(typing_context: Any, numbers: Any, at: Any, amount: Any) -> Any:
        """Add to numbers[at] at once, whatever other threads do; what was there before. C-contiguous."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            added = context.cast(builder, arguments[2], signature.args[2], types.int64)
            return builder.atomic_rmw("add", _pointer(context, builder, signature, arguments), added, "seq_cst")

        return types.int64(numbers, at, amount), emit

    @intrinsic
    def read_at(typing_context: Any, numbers: Any, at: Any) -> Any:
        """numbers[at] as other threads have left it, together with all they wrote before."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load_atomic(_pointer(context, builder, signature, arguments), "seq_cst", 8)

        return types.int64(numbers, at), emit

    @intrinsic
    def prefetch_row(typing_context: Any, table: Any, row: Any) -> Any:
        """Begin to load table[row] into the caches; `table` is C-contiguous, [rows, width]."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            table_type, row_type = signature.args
            array = context.make_array(table_type)(context, builder, arguments[0])
            row_bytes = builder.extract_value(array.strides, 0)
            number = context.cast(builder, arguments[1], row_type, types.intp)
            start = builder.add(builder.ptrtoint(array.data, row_bytes.type), builder.mul(number, row_bytes))
            byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
            signature_of_prefetch = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
            llvm_prefetch = cgutils.get_or_insert_function(builder.module, signature_of_prefetch, "llvm.prefetch.p0")
            zero, line = row_bytes.type(0), row_bytes.type(CACHE_LINE)
            with cgutils.for_range_slice(builder, zero, row_bytes, line, inc=True) as (offset, _):
                address = builder.inttoptr(builder.add(start, offset), byte_pointer)
                # For reading, with the most locality, into the data caches.
                builder.call(llvm_prefetch, [address, int32(0), int32(3), int32(1)])
            return context.get_dummy_value()

        return types.void(table, row), emit
