"""The order of an epoch: which positives make which batch, as a function of seed and epoch alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.paths.queries import PathQueries
from blockhole.training.batch import Batch
from blockhole.training.draws import Purpose, generator


@final
class EpochOrder:
    """Cuts positives into batches of one length (and one last relation if asked), anew for every epoch.

    Within a group the positives are shuffled and cut into batches whose sizes differ by one at most, so that no small
    rest takes a step as large as a full batch; then the batches of all groups are shuffled.
    """

    def __init__(
        self, queries: PathQueries, batch_size: int, seed: int, device: torch.device, *, by_last_relation: bool = False
    ) -> None:
        self._seed = seed
        self._batch_size = batch_size
        key = queries.length.astype(np.int64)
        if by_last_relation:
            key = key * (int(queries.path.max(initial=0)) + 1) + queries.last_relation
        by_key = np.argsort(key, kind="stable")
        bounds = np.flatnonzero(np.diff(key[by_key])) + 1
        self._groups = [group for group in np.split(by_key, bounds) if len(group)]
        self._lengths = [int(queries.length[group[0]]) for group in self._groups]
        # One copy on the device; int32 halves what a batch reads.
        self._source = torch.tensor(queries.source, device=device)
        self._path = torch.tensor(queries.path, device=device)
        self._target = torch.tensor(queries.target, device=device)

    def plan(self, epoch: int) -> EpochPlan:
        """The batches of an epoch."""
        rng = generator(self._seed, Purpose.ORDER, epoch)
        batches: list[NDArray[np.intp]] = []
        lengths: list[int] = []
        for group, length in zip(self._groups, self._lengths, strict=True):
            cut = np.array_split(rng.permutation(group), -(-len(group) // self._batch_size))
            batches += cut
            lengths += [length] * len(cut)
        shuffled = rng.permutation(len(batches))
        sizes = np.array([len(batches[i]) for i in shuffled])
        return EpochPlan(
            epoch=epoch,
            bounds=np.concatenate([[0], np.cumsum(sizes)]),
            lengths=[lengths[i] for i in shuffled],
            members=torch.from_numpy(np.concatenate([batches[i] for i in shuffled])).to(self._source.device),
            source=self._source,
            path=self._path,
            target=self._target,
        )


@final
@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The batches of one epoch; batch i is `members[bounds[i] : bounds[i + 1]]`, all of `lengths[i]` hops."""

    epoch: int
    bounds: NDArray[np.int64]
    lengths: list[int]
    members: Tensor
    source: Tensor
    path: Tensor
    target: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    def size(self, index: int) -> int:
        """How many positives batch `index` holds."""
        return int(self.bounds[index + 1] - self.bounds[index])

    def batch(self, index: int) -> Batch:
        """Batch `index`, gathered on the device."""
        members = self.members[self.bounds[index] : self.bounds[index + 1]]
        return Batch(
            source=self.source.index_select(0, members).long(),
            path=self.path.index_select(0, members)[:, : self.lengths[index]].long(),
            target=self.target.index_select(0, members).long(),
            epoch=self.epoch,
            index=index,
        )
