"""Rows of entities as the words of their names predict them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.models.contract import Model

PRIOR = 3.0
"""κ: how many names the belief is worth that a word says nothing, so that rare words say little."""

_STEPS = 30
"""Of conjugate gradients; names have few words, so that a handful settle the most of it."""


@torch.no_grad()
def lean_on_words(model: Model, words: NDArray[np.int64], weight: float) -> None:
    """Let the rows of entities lean on what the words of their names say: e + `weight` · Σ_{w ∈ e} c_w.

    The c_w are a ridge regression of the rows of all entities with words on these words,
    min_c Σ_e ‖e - μ - Σ_{w ∈ e} c_w‖² + κ Σ_w ‖c_w‖², μ being the mean row.
    Shapes: words [count, 2], pairs of an entity and the number of a word.
    """
    if not len(words):
        return
    entity, word = torch.from_numpy(words).to(model.entity.device).T
    entities, place = torch.unique(entity, return_inverse=True)
    rows = model.entity.index_select(0, entities).double()
    said = _ridge(place, word, rows - rows.mean(dim=0), int(word.max()) + 1)
    model.entity[entities] = (rows + weight * _sum(place, word, said, len(rows))).to(model.entity.dtype)


def _sum(into: Tensor, out_of: Tensor, vectors: Tensor, count: int) -> Tensor:
    """Σ of the vectors `out_of` which each of `count` places gets: vectors [·, width] → [count, width]."""
    return vectors.new_zeros(count, vectors.shape[1]).index_add_(0, into, vectors[out_of])


def _ridge(place: Tensor, word: Tensor, rows: Tensor, words: int) -> Tensor:
    """Conjugate gradients for (AᵀA + κ) c = Aᵀ rows, each column its own: rows [E, width] → [words, width]."""
    residual = _sum(word, place, rows, words)
    found, direction = torch.zeros_like(residual), residual.clone()
    square = residual.square().sum(dim=0)
    tiny = torch.finfo(rows.dtype).tiny  # a column that is solved has no direction left: 0 / tiny instead of 0 / 0
    for _ in range(_STEPS):
        image = _sum(word, place, _sum(place, word, direction, len(rows)), words) + PRIOR * direction
        step = square / (direction * image).sum(dim=0).clamp_min(tiny)
        found += step * direction
        residual -= step * image
        left = residual.square().sum(dim=0)
        direction = residual + left / square.clamp_min(tiny) * direction
        square = left
    return found
