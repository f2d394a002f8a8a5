"""Corrupted paths: both ends of a positive with another path between them, and whether that is true in train.

(s, p', o) is true if o can be reached from s along p' in the train graph, whether or not the positives hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.answers import holds
from blockhole.paths.queries import PathQueries
from blockhole.training.config import Corruption, LossConfig
from blockhole.training.draws import Purpose
from blockhole.training.keyed_draws import KeyedDraws
from blockhole.training.path_tensors import PathTensors


@final
@dataclass(frozen=True, slots=True, eq=False)
class Corruptions:
    """Corrupted paths [N, count, hop] of N positives, and which of them are `false` [N, count] in train."""

    paths: Tensor
    false: Tensor

    def take(self, index: Tensor, hops: int) -> Corruptions:
        """Those of the positives at `index`, which have `hops` hops, as a batch takes them."""
        return Corruptions(self.paths.index_select(0, index)[:, :, :hops].long(), self.false.index_select(0, index))


@final
class KnownCorruptions:
    """Keeps the last result of `corrupt_once`, for trainings that have the same positives one after the other."""

    def __init__(self) -> None:
        self._last: tuple[PathTensors, KnowledgeGraph, tuple[object, ...], Corruptions] | None = None

    def of(self, paths: PathTensors, loss: LossConfig, graph: KnowledgeGraph) -> Corruptions:
        """The corruptions of `paths` as `loss` asks for them."""
        wanted = (loss.corrupted_paths, loss.corruptions, paths.source.device)
        if self._last is not None:
            known_paths, known_graph, asked, corruptions = self._last
            if asked == wanted and np.array_equal(graph.triples, known_graph.triples) and paths.equals(known_paths):
                return corruptions
        corruptions = corrupt_once(paths, loss, graph)
        self._last = (paths, graph, wanted, corruptions)
        return corruptions


def corrupt_once(paths: PathTensors, loss: LossConfig, graph: KnowledgeGraph) -> Corruptions:
    """`loss.corrupted_paths` corruptions for each stored positive, the same for every seed: a part of the data."""
    device = paths.source.device
    draws = KeyedDraws(0, Purpose.CORRUPTION)
    shape = (len(paths), loss.corrupted_paths, paths.path.shape[1])
    corrupted = paths.path.new_zeros(shape)
    false = torch.zeros(shape[:2], dtype=torch.bool, device=device)
    for hops in torch.unique(paths.length).tolist():
        members = torch.nonzero(paths.length == hops)[:, 0]
        draws.begin(device, batch=hops)
        part = paths.take(members)
        found = corrupt(draws, part.source, part.path[:, :hops], part.target, loss, graph)
        corrupted[members, :, :hops] = found.paths
        false[members] = found.false
    return Corruptions(corrupted, false)


def corrupt(
    draws: KeyedDraws, source: Tensor, path: Tensor, target: Tensor, loss: LossConfig, graph: KnowledgeGraph
) -> Corruptions:
    """Corruptions of positives of one length, checked: [batch], [batch, hop], [batch]."""
    count = loss.corrupted_paths
    repeated = path.repeat_interleave(count, dim=0)
    corrupted = corrupt_paths(draws, repeated, loss.corruptions, 2 * graph.num_relations)
    queries = as_queries(source.repeat_interleave(count), corrupted, target.repeat_interleave(count))
    true = torch.from_numpy(holds(graph, queries, source.device)).to(source.device)
    # An unchanged path is the positive itself, which a walk over another graph than train need not repeat there.
    true |= (corrupted == repeated).all(dim=1)
    return Corruptions(corrupted.view(-1, count, path.shape[1]), ~true.view(-1, count))


def corrupt_paths(draws: KeyedDraws, path: Tensor, kinds: Sequence[Corruption], num_ids: int) -> Tensor:
    """Each path [batch, hop] reversed, shuffled, with two neighbours swapped or one relation replaced, as is drawn."""
    batch, hops = path.shape
    kind = draws.draw(len(kinds), batch)[:, None]
    position = draws.draw(hops, batch)[:, None]
    step = 1 + draws.draw(max(1, num_ids - 1), batch)[:, None]
    order = draws.draw(2**31, batch, hops).argsort(dim=1)
    first = draws.draw(max(1, hops - 1), batch)[:, None]
    places = torch.arange(hops, device=path.device)
    corrupted = path
    for number, name in enumerate(kinds):
        if name == "reversed":
            changed = path.flip(1)
        elif name == "shuffled":
            changed = path.gather(1, order)
        elif name == "swapped":
            neighbour = torch.where(places == first, places + 1, torch.where(places == first + 1, places - 1, places))
            changed = path.gather(1, neighbour.clamp(max=hops - 1))  # a single relation stays as it is
        else:
            changed = torch.where(places == position, (path + step) % num_ids, path).to(path.dtype)
        corrupted = torch.where(kind == number, changed, corrupted)
    return corrupted


def as_queries(source: Tensor, path: Tensor, target: Tensor) -> PathQueries:
    """Ids of paths of one length as queries: [count], [count, hop], [count]."""
    source, path, target = (ids.to("cpu", torch.int32) for ids in (source, path, target))
    length = np.full(len(path), path.shape[1], dtype=np.int32)
    return PathQueries(source.numpy(), path.contiguous().numpy(), length, target.numpy())
