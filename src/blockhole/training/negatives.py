"""What a positive is contrasted with: other objects, and paths that are not true.

All draws are functions of seed, epoch and batch, the same on every device. Objects drawn uniformly for each positive
are drawn where the batch is; the others on the CPU. None of the uniform draws reads anything back from the device.
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
from blockhole.queries.answer_masks import AnswerMasks
from blockhole.queries.exact import answer_sets, holds, typed_candidates
from blockhole.runs.config import Corruption, LossConfig
from blockhole.training.batches import Batch, Corruptions, PathTensors, as_queries
from blockhole.training.draws import KeyedDraws, Purpose, generator
from blockhole.training.losses import LOSSES, Pairs, Places

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
    excluded: Pairs | Places
    log_weight: Tensor | None = None
    paths: Tensor | None = None
    false: Tensor | None = None


ALL_ENTITIES = Negatives(
    objects=None, excluded=Pairs(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
)
"""Every entity but the true answer."""


@final
class NegativeSampler:
    """Draws the negatives of a batch as the loss asks for them, among the entities `seen` (absent: all)."""

    def __init__(self, config: LossConfig, graph: KnowledgeGraph, seed: int, seen: Ids | None = None) -> None:
        self._config = config
        self._contrast = LOSSES[config.kind].objects
        self._graph = graph
        self._seed = seed
        self._draws = KeyedDraws(seed, Purpose.NEGATIVES)
        self._corrupting = KeyedDraws(seed, Purpose.CORRUPTION)
        self._entities = np.arange(graph.num_entities) if seen is None else seen
        self._seen = None if seen is None else torch.from_numpy(seen)
        self._typed = typed_candidates(graph) if config.typed_share else None
        self._exclusion = Exclusion(graph, known=config.mask_known_answers)
        self._sample: SharedSample | None = None
        if self._contrast == "shared" and self._typed is None:
            self._sample = SharedSample(config, self._entities, seed)

    def draw(self, batch: Batch) -> Negatives:
        """The negatives of `batch`; the same for the same seed, epoch and index."""
        self.begin(batch)
        return self.drawn(batch)

    def begin(self, batch: Batch) -> None:
        """Leave on the batch's device what `drawn` needs to know of it beside its ids."""
        if self._sample is not None:
            self._sample.begin(batch)
        elif not self.draws_nothing:
            self._draws.begin(batch.source.device, batch.epoch, batch.index)

    def drawn(self, batch: Batch) -> Negatives:
        """The negatives themselves, after `begin`: where `stays_on_device`, this can be recorded and replayed."""
        if self.draws_nothing:
            return ALL_ENTITIES
        objects: Tensor | None = None
        log_weight: Tensor | None = None
        excluded: Pairs | Places = Pairs(batch.source.new_zeros(0), batch.source.new_zeros(0))
        if self._contrast == "each":
            objects = self._objects_of_each(batch)
        elif self._sample is not None:
            objects, log_weight = self._sample.drawn()
        elif self._contrast == "shared":
            objects, log_weight = self._typed_objects(batch)
        # Random objects may be the target, which the paper's loss does not look at; a softmax must not count it twice.
        if self._contrast != "each" or self._config.mask_known_answers:
            excluded = self._exclusion.cells(batch, objects)
        corruptions = self._corruptions(batch)
        return Negatives(
            objects=objects,
            excluded=excluded,
            log_weight=log_weight,
            paths=None if corruptions is None else corruptions.paths,
            false=None if corruptions is None else corruptions.false,
        )

    @property
    def draws_nothing(self) -> bool:
        """Whether all entities, and they alone, are the negatives: then a step depends on the batch only."""
        config = self._config
        return self._contrast == "all" and not (config.mask_known_answers or config.corrupted_paths)

    @property
    def stays_on_device(self) -> bool:
        """Whether `drawn` neither draws on the host nor reads anything back to it."""
        config = self._config
        checks = config.mask_known_answers or (config.corrupted_paths and config.corrupt == "each_batch")
        return self.draws_nothing or (self._contrast != "all" and not (config.typed_share or checks))

    def _corruptions(self, batch: Batch) -> Corruptions | None:
        if not self._config.corrupted_paths:
            return None
        if batch.corruptions is not None:
            return batch.corruptions
        self._corrupting.begin(batch.source.device, batch.epoch, batch.index)
        return corrupt(self._corrupting, batch.source, batch.path, batch.target, self._config, self._graph)

    def _objects_of_each(self, batch: Batch) -> Tensor:
        """Objects drawn for every positive, uniform or of the last relation's type; [batch, negatives]."""
        shape = (len(batch.source), self._config.negatives)
        objects = self._draws.draw(len(self._entities), *shape)
        if self._seen is not None:
            if self._seen.device != objects.device:
                self._seen = self._seen.to(objects.device)
            objects = self._seen[objects]
        if self._typed is None:
            return objects
        rng = generator(self._seed, Purpose.NEGATIVES, batch.epoch, batch.index)
        last = batch.path[:, -1].cpu().numpy()
        first, size = self._typed.start[last], np.diff(self._typed.start)[last]
        position = np.minimum(rng.random(shape) * size[:, None], size[:, None] - 1).astype(np.int64)
        typed = (rng.random(shape) < self._config.typed_share) & (size[:, None] > 0)
        drawn = torch.from_numpy(self._typed.entity[np.where(typed, first[:, None] + position, 0)])
        return torch.where(torch.from_numpy(typed).to(objects.device), drawn.to(objects.device), objects)

    def _typed_objects(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Distinct objects for the whole batch, and the logarithm of each one's weight; [count] each.

        A uniform sample without replacement, and, independent of it, one of the objects that the batch's last
        relation takes (the trainer groups batches by last relation when it asks for typed negatives).
        """
        assert self._typed is not None
        rng = generator(self._seed, Purpose.NEGATIVES, batch.epoch, batch.index)
        everyone, count = self._entities, min(self._config.negatives, len(self._entities))
        typed = self._typed[int(batch.path[0, -1])]
        wanted = min(round(count * self._config.typed_share), len(typed))
        uniform = rng.choice(everyone, count - wanted, replace=False, shuffle=False)
        objects = np.union1d(uniform, rng.choice(typed, wanted, replace=False, shuffle=False))
        typed_inclusion = np.where(np.isin(objects, typed), wanted / max(1, len(typed)), 0.0)
        inclusion = 1 - (1 - (count - wanted) / len(everyone)) * (1 - typed_inclusion)
        device = batch.source.device
        return torch.from_numpy(objects).to(device), log_weights(inclusion, self._config).to(device)


def log_weights(inclusion: NDArray[np.float64], config: LossConfig) -> Tensor:
    """-log π of objects that were included with probability π, or of 1 where the loss does not correct for it."""
    return torch.from_numpy(-np.log(inclusion if config.correct_sample else np.ones_like(inclusion))).float()


@final
class SharedSample:
    """Distinct objects for a whole batch, all entities as likely.

    `begin` draws them on the host, which needs nothing of the batch but its name, and leaves them on its device, where
    `drawn` finds them: a recorded step reads them there, and neither side waits for the other. A sample without
    replacement is NumPy's own; the twenty microseconds it takes pass while the device computes the batch before.
    """

    def __init__(self, config: LossConfig, entities: Ids, seed: int) -> None:
        self._entities = entities
        self._seed = seed
        count = min(config.negatives, len(entities))
        self._objects = torch.zeros(count, dtype=torch.int64)
        self._log_weight = log_weights(np.full(count, count / len(entities)), config)

    def begin(self, batch: Batch) -> None:
        """Draw the objects of the batch."""
        device = batch.source.device
        if self._objects.device != device:
            self._objects, self._log_weight = self._objects.to(device), self._log_weight.to(device)
        rng = generator(self._seed, Purpose.NEGATIVES, batch.epoch, batch.index)
        drawn = rng.choice(self._entities, len(self._objects), replace=False, shuffle=False)
        # What is not pinned has been read when this returns, though it has not arrived.
        self._objects.copy_(torch.from_numpy(drawn), non_blocking=True)

    def drawn(self) -> tuple[Tensor, Tensor]:
        """The objects, in memory of their own, and the logarithms of their weights: [count] each."""
        return self._objects.clone(), self._log_weight


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

    def cells(self, batch: Batch, objects: Tensor | None) -> Pairs | Places:
        """The cells of [batch, objects].

        `objects` are shared [count], drawn for each positive [batch, count], or absent where all entities are meant.
        """
        if not self._known and objects is not None and objects.dim() == 1:
            return Places.of(batch.target, objects)
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


# Corrupted paths. (s, p', o) is true if o can be reached from s along p' in the train graph, whether or not the
# positives hold it.


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
