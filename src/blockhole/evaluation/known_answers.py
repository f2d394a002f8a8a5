"""The known answers ⟦q⟧ of a block of queries, taken out of its scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.answer_masks import AnswerMasks
from blockhole.paths.answers import AnswerSets, answer_sets
from blockhole.paths.queries import PathQueries

Hide = Callable[[Tensor], Tensor]
"""Sets the scores [B, C] of each query's answers to -∞, in place; how many answers each query has, [B]."""


def on_cpu(graph: KnowledgeGraph, queries: PathQueries, size: int, entities: NDArray[np.int32]) -> Iterator[Hide]:
    """One `Hide` for each block of `size` queries whose scores have the columns `entities`, by listing answers."""
    column = np.zeros(graph.num_entities, dtype=np.int64)
    column[entities] = np.arange(len(entities))
    for sets in answer_sets(graph, queries, batch_size=size):
        yield partial(_hide_listed, sets, column)


def _hide_listed(sets: AnswerSets, column: NDArray[np.int64], scores: Tensor) -> Tensor:
    flat = column[sets.entities]
    flat += sets.row * scores.shape[1]
    scores.numpy().reshape(-1)[flat] = -np.inf
    return torch.from_numpy(np.diff(sets.indptr))


def on_device(
    masks: AnswerMasks, queries: PathQueries, size: int, entities: NDArray[np.int32], device: torch.device
) -> Iterator[Hide]:
    """The same by flags on a device."""
    columns = torch.from_numpy(entities.astype(np.int64)).to(device)
    for first in range(0, len(queries), size):
        block = queries.take(slice(first, first + size))
        ids = (torch.from_numpy(ids.astype(np.int64)) for ids in (block.source, block.path, block.length))
        yield partial(_hide_flagged, masks(*ids), columns)


def _hide_flagged(mask: Tensor, columns: Tensor, scores: Tensor) -> Tensor:
    known = mask.index_select(1, columns)
    scores.masked_fill_(known, -torch.inf)
    return known.sum(dim=1)
