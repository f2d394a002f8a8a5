"""What speaks for a triple: its score, or the share it has among its rivals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from blockhole.evaluation.scorer import Scorer
from blockhole.paths.queries import PathQueries

Evidence = Literal["score", "share_of_objects", "share_of_subjects"]
"""score: φ(s, r, o). share_of_objects: the logarithm of the share of o, φ(s, r, o) - log Σ_e exp φ(s, r, e) over the
objects e that r takes in train. share_of_subjects: the same of s for (o, r⁻¹, ?); it is small where the known subjects
of o leave nothing for another."""


def measure_evidence(
    scorer: Scorer, train: NDArray[np.int32], relations: int, lines: NDArray[np.int32], wanted: Sequence[Evidence]
) -> dict[Evidence, NDArray[np.float64]]:
    """Each kind of evidence that is `wanted` for each line (s, r, o); train [T, 3], lines [N, 3] → [N] each."""
    measured: dict[Evidence, NDArray[np.float64]] = {}
    for kind in wanted:
        if kind == "share_of_subjects":
            measured[kind] = _log_share(scorer, _inverted(train, relations), _inverted(lines, relations))
        elif kind == "share_of_objects":
            measured[kind] = _log_share(scorer, train, lines)
        else:
            measured[kind] = scorer.score(PathQueries.from_triples(lines))
    return measured


def _inverted(triples: NDArray[np.int32], relations: int) -> NDArray[np.int32]:
    """(s, r, o) as (o, r⁻¹, s), r⁻¹ being r + R."""
    return triples[:, [2, 1, 0]] + np.array([0, relations, 0], dtype=np.int32)


def _log_share(scorer: Scorer, train: NDArray[np.int32], lines: NDArray[np.int32]) -> NDArray[np.float64]:
    """φ - log Σ exp φ over the objects of the relation in train; where it has none there, over the line's own."""
    share = scorer.score(PathQueries.from_triples(lines))
    for relation in np.unique(lines[:, 1]):
        part = np.flatnonzero(lines[:, 1] == relation)
        rivals = np.unique(train[train[:, 1] == relation, 2])
        if not len(rivals):
            rivals = np.unique(lines[part, 2])
        # Lines that share their subject share the sum.
        _, first, place = np.unique(lines[part, 0], return_index=True, return_inverse=True)
        share[part] -= scorer.log_sum_exp(PathQueries.from_triples(lines[part[first]]), rivals)[place]
    return share
