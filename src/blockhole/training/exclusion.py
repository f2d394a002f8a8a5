"""Which entities do not count as rivals of a true answer: itself and, if asked for, all other known answers."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.answer_masks import AnswerMasks
from blockhole.paths.answers import answer_sets
from blockhole.training.batch import Batch
from blockhole.training.corruptions import as_queries
from blockhole.training.losses import Pairs

Ids = NDArray[np.int64]


@final
class Exclusion:
    """Finds the cells of a batch's scores that hold the target or, with `known`, any answer in the train graph.

    Sets of answers on a CPU; on a GPU masks over all entities, made where the scores are: a batch of 8,192 queries of
    FB13 has fourteen to eighty million answers.
    """

    def __init__(self, graph: KnowledgeGraph, *, known: bool) -> None:
        self._graph = graph
        self._known = known
        self._masks: AnswerMasks | None = None

    def pairs(self, batch: Batch, objects: Tensor | None) -> Pairs:
        """The cells of [batch, objects], by ascending row.

        `objects` are shared [count], drawn for each positive [batch, count], or absent where all entities are meant.
        """
        if self._known and batch.source.is_cuda:
            return self.masked_pairs(batch, objects)
        E, keys = self._graph.num_entities, self._keys(batch)
        if objects is None:
            row, column = np.divmod(keys, E)
        elif objects.dim() == 1:
            row, entity = np.divmod(keys, E)
            # Looking objects up costs as much as their number and the keys' say; a table over all entities, E.
            drawn = objects.cpu().numpy()
            order = np.argsort(drawn)
            place = np.minimum(np.searchsorted(drawn, entity, sorter=order), len(drawn) - 1)
            hit = drawn[order[place]] == entity
            row, column = row[hit], order[place[hit]]
        else:
            drawn = np.arange(len(objects))[:, None] * E + objects.cpu().numpy()
            found = np.append(keys, -1)[np.searchsorted(keys, drawn)] == drawn
            row, column = np.nonzero(found)
        device = batch.source.device
        return Pairs(torch.from_numpy(row).to(device), torch.from_numpy(column).to(device))

    def masked_pairs(self, batch: Batch, objects: Tensor | None) -> Pairs:
        """The same for known answers, through masks [batch, E] on the batch's device."""
        if self._masks is None:
            self._masks = AnswerMasks(self._graph, batch.source.device)
        length = torch.full_like(batch.source, batch.path.shape[1])
        mask = self._masks(batch.source, batch.path, length).scatter_(1, batch.target[:, None], True)
        if objects is not None:
            mask = mask.index_select(1, objects) if objects.dim() == 1 else mask.gather(1, objects)
        return Pairs(*mask.nonzero(as_tuple=True))

    def _keys(self, batch: Batch) -> Ids:
        """row·E + entity of the targets, and of all other answers in the train graph if they are wanted; ascending."""
        E, target = self._graph.num_entities, batch.target.cpu().numpy()
        wanted: Ids = np.arange(len(target)) * E + target
        if not self._known:
            return wanted
        queries = as_queries(batch.source, batch.path, batch.target)
        sets = [(part.first + part.row) * E + part.entities for part in answer_sets(self._graph, queries)]
        known = np.concatenate([np.zeros(0, dtype=np.int64), *sets])
        # Both are ascending and distinct already; np.unique would take twenty times as long as finding the answers.
        position = np.searchsorted(known, wanted)
        missing = np.append(known, -1)[position] != wanted
        return np.insert(known, position[missing], wanted[missing])
