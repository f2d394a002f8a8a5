"""What a positive is contrasted with: other objects, and paths that are not true.

All draws are made on the CPU by the generator of the batch, so they are the same on every device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.paths.answers import holds
from blockhole.training.batch import Batch
from blockhole.training.config import Corruption, LossConfig
from blockhole.training.draws import Purpose, generator
from blockhole.training.exclusion import Exclusion, as_queries
from blockhole.training.losses import Pairs

Ids = NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True)
class Negatives:
    """The negatives of one batch, on its device.

    `objects` are entities: [batch, count] of each positive (logistic), [count] shared by the batch (sampled
    softmax), or absent where all entities are meant (softmax). `excluded` names the cells of the score matrix
    [batch, count or E] that do not count. `log_weight` [count] corrects shared objects for their sampling.
    `paths` [batch, corrupted, hop] keep both ends of the positive; `false` [batch, corrupted] says which are not true.
    """

    objects: Tensor | None
    excluded: Pairs
    log_weight: Tensor | None = None
    paths: Tensor | None = None
    false: Tensor | None = None


ALL_ENTITIES = Negatives(
    objects=None, excluded=Pairs(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
)
"""Every entity but the true answer."""


@final
@dataclass(frozen=True, slots=True)
class RelationObjects:
    """The distinct objects of every relation id in 0 … 2R-1: those of r are `entity[start[r] : start[r + 1]]`."""

    start: Ids
    entity: Ids

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> RelationObjects:
        """The objects each relation takes in `graph`; those of r⁻¹ are the subjects of r."""
        R, E = graph.num_relations, graph.num_entities
        triples = graph.triples.astype(np.int64)
        forward, backward = triples[:, 1] * E + triples[:, 2], (triples[:, 1] + R) * E + triples[:, 0]
        relation, entity = np.divmod(np.unique(np.concatenate([forward, backward])), E)
        return cls(np.searchsorted(relation, np.arange(2 * R + 1)), entity)

    def __getitem__(self, relation: int) -> Ids:
        return self.entity[self.start[relation] : self.start[relation + 1]]


@final
class NegativeSampler:
    """Draws the negatives of a batch as the loss asks for them, among the entities `seen` (absent: all)."""

    def __init__(self, config: LossConfig, graph: KnowledgeGraph, seed: int, seen: Ids | None = None) -> None:
        self._config = config
        self._graph = graph
        self._seed = seed
        self._entities = np.arange(graph.num_entities) if seen is None else seen
        self._typed = RelationObjects.of(graph) if config.typed_share else None
        self._exclusion = Exclusion(graph, known=config.mask_known_answers)

    def draw(self, batch: Batch) -> Negatives:
        """The negatives of `batch`; the same for the same seed, epoch and index."""
        if self.draws_nothing:
            return ALL_ENTITIES
        rng = generator(self._seed, Purpose.NEGATIVES, batch.epoch, batch.index)
        device = batch.source.device
        objects: Tensor | None = None
        inclusion: NDArray[np.float64] | None = None
        excluded = Pairs(batch.source.new_zeros(0), batch.source.new_zeros(0))
        if self._config.kind == "logistic":
            objects = torch.from_numpy(self._objects_of_each(rng, batch)).to(device)
        elif self._config.kind == "sampled_softmax":
            drawn, inclusion = self._shared_objects(rng, batch)
            objects = torch.from_numpy(drawn).to(device)
            if not self._config.correct_sample:
                inclusion = np.ones(len(drawn))
        # Random objects may be the target, which the paper's loss does not look at; a softmax must not count it twice.
        if self._config.kind != "logistic" or self._config.mask_known_answers:
            excluded = self._exclusion.pairs(batch, objects)
        paths, false = self._corrupted(batch) if self._config.corrupted_paths else (None, None)
        return Negatives(
            objects=objects,
            excluded=excluded,
            log_weight=None if inclusion is None else torch.from_numpy(-np.log(inclusion)).to(device, torch.float32),
            paths=None if paths is None else torch.from_numpy(paths).to(device),
            false=None if false is None else torch.from_numpy(false).to(device),
        )

    @property
    def draws_nothing(self) -> bool:
        """Whether all entities, and they alone, are the negatives: then a step depends on the batch only."""
        config = self._config
        return config.kind == "softmax" and not (config.mask_known_answers or config.corrupted_paths)

    def _objects_of_each(self, rng: np.random.Generator, batch: Batch) -> Ids:
        """Objects drawn for every positive, uniform or of the last relation's type; [batch, negatives]."""
        shape = (len(batch.source), self._config.negatives)
        objects = self._entities[rng.integers(len(self._entities), size=shape)]
        if self._typed is None:
            return objects
        last = _numpy(batch.path)[:, -1]
        first, size = self._typed.start[last], np.diff(self._typed.start)[last]
        position = np.minimum(rng.random(shape) * size[:, None], size[:, None] - 1).astype(np.int64)
        typed = (rng.random(shape) < self._config.typed_share) & (size[:, None] > 0)
        return np.where(typed, self._typed.entity[np.where(typed, first[:, None] + position, 0)], objects)

    def _shared_objects(self, rng: np.random.Generator, batch: Batch) -> tuple[Ids, NDArray[np.float64]]:
        """Distinct objects for the whole batch, and the probability π with which each was included; [count] each.

        A uniform sample without replacement, and, independent of it, one of the objects that the batch's last
        relation takes (the trainer groups batches by last relation when it asks for typed negatives).
        """
        everyone, count = self._entities, min(self._config.negatives, len(self._entities))
        if self._typed is None:
            return rng.choice(everyone, count, replace=False, shuffle=False), np.full(count, count / len(everyone))
        typed = self._typed[int(batch.path[0, -1])]
        wanted = min(round(count * self._config.typed_share), len(typed))
        uniform = rng.choice(everyone, count - wanted, replace=False, shuffle=False)
        objects = np.union1d(uniform, rng.choice(typed, wanted, replace=False, shuffle=False))
        typed_inclusion = np.where(np.isin(objects, typed), wanted / max(1, len(typed)), 0.0)
        return objects, 1 - (1 - (count - wanted) / len(everyone)) * (1 - typed_inclusion)

    def _corrupted(self, batch: Batch) -> tuple[Ids, NDArray[np.bool_]]:
        """Corrupted paths [batch, corrupted, hop], and which of them are not true in the train graph."""
        rng = generator(self._seed, Purpose.CORRUPTION, batch.epoch, batch.index)
        count = self._config.corrupted_paths
        repeated = np.repeat(_numpy(batch.path), count, axis=0)
        paths = corrupt_paths(rng, repeated, self._config.corruptions, 2 * self._graph.num_relations)
        source, target = np.repeat(_numpy(batch.source), count), np.repeat(_numpy(batch.target), count)
        # An unchanged path is the positive itself, which a walk over another graph than train need not repeat there.
        true = holds(self._graph, as_queries(source, paths, target)) | (paths == repeated).all(axis=1)
        return paths.reshape(-1, count, paths.shape[1]), ~true.reshape(-1, count)


def corrupt_paths(rng: np.random.Generator, path: Ids, kinds: Sequence[Corruption], num_ids: int) -> Ids:
    """Each path [batch, hop] reversed, shuffled, or with one relation replaced; the kind is drawn for each."""
    batch, hops = path.shape
    kind = rng.integers(len(kinds), size=(batch,))
    position = rng.integers(hops, size=(batch,))
    step = rng.integers(1, max(2, num_ids), size=(batch,))
    order = rng.permuted(np.tile(np.arange(hops), (batch, 1)), axis=1)
    corrupted = path.copy()
    for number, name in enumerate(kinds):
        rows = np.flatnonzero(kind == number)
        if name == "reversed":
            corrupted[rows] = path[rows, ::-1]
        elif name == "shuffled":
            corrupted[rows] = np.take_along_axis(path[rows], order[rows], axis=1)
        else:
            corrupted[rows, position[rows]] = (path[rows, position[rows]] + step[rows]) % num_ids
    return corrupted


def _numpy(ids: Tensor) -> Ids:
    array: Ids = ids.cpu().numpy()
    return array
