"""The arrays that the fused step reads and writes, in groups that the compiled loops take as they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Keys = NDArray[np.uint64]

CHUNKS = 16
"""Parts of a batch that are walked independently; fixed, so that results do not depend on the number of threads."""

PIECE = 512
"""Occurrences of entities that are updated by one thread in one go; fixed for the same reason."""


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
