"""Entities that training never meets, and the row they get."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.training.positives import Positives

_TOGETHER = 1 << 20
"""Facts that are looked at in one go; the graph may be larger than memory."""


def seen_entities(graph: KnowledgeGraph, positives: Positives) -> NDArray[np.int64] | None:
    """The entities of the train facts and of the positives, ascending; absent where these are all there are."""
    met = np.zeros(graph.num_entities, dtype=bool)
    for first in range(0, len(graph), _TOGETHER):
        met[graph.triples[first : first + _TOGETHER, [0, 2]]] = True
    met[positives.ends().cpu().numpy()] = True
    return None if met.all() else np.flatnonzero(met)


@torch.no_grad()
def give_mean_to_unseen(model: Model, seen: NDArray[np.int64]) -> None:
    """Set the row of every other entity to the mean row of those `seen` [count].

    As a source or an answer such an entity then counts as an average one: under a bilinear model its score is the mean
    of theirs. No step reads these rows (an engine that is told `seen` contrasts with no others), so writing
    them disturbs neither training nor its optimizer.
    """
    unseen = np.setdiff1d(np.arange(model.num_entities), seen, assume_unique=True)
    device = model.entity.device
    rows, others = (torch.from_numpy(ids).to(device) for ids in (seen, unseen))
    model.entity[others] = model.entity.index_select(0, rows).mean(dim=0)
