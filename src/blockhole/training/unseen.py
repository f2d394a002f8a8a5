"""Entities that training never meets, and the row they get."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.training.positives import Positives

_TOGETHER = 1 << 20
"""Facts that are looked at in one go; the graph may be larger than memory."""
_ROWS_TOGETHER = 1 << 17
"""Rows that are added up in one go."""


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
    rows = torch.from_numpy(seen).to(model.entity.device)
    set_other_rows(model.entity, rows, sum_of_rows(model.entity, rows) / len(seen))


def sum_of_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Σ table[rows]: [width], a block of rows at a time, since all of them at once may be as large as the table."""
    total = table.new_zeros(table.shape[1])
    for block in torch.split(rows, _ROWS_TOGETHER):
        total += table.index_select(0, block).sum(dim=0)
    return total


def set_other_rows(table: Tensor, rows: Tensor, row: Tensor) -> None:
    """Write `row` [width] over all rows of `table` but `rows`."""
    others = torch.ones(len(table), dtype=torch.bool, device=table.device)
    others[rows] = False
    table[others] = row
