"""The order of an epoch: which positives make which batch, as a function of seed and epoch alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.paths.queries import PathQueries
from blockhole.training.batch import Batch
from blockhole.training.corruptions import Corruptions
from blockhole.training.draws import Purpose, generator
from blockhole.training.path_tensors import PathTensors


class Plan(Protocol):
    """The batches of one epoch, in order; any of them can be made at any time."""

    def __len__(self) -> int:
        """How many batches there are."""

    @property
    def positives(self) -> int:
        """How many positives all batches hold."""

    def size(self, index: int) -> int:
        """How many positives batch `index` holds."""

    def batch(self, index: int) -> Batch:
        """Batch `index`, on the device."""


@final
class EpochOrder:
    """Cuts positives into batches of one length (and one last relation if asked), anew for every epoch.

    Within a group the positives are shuffled and cut into batches whose sizes differ by one at most, so that no small
    rest takes a step as large as a full batch; then the batches of all groups are shuffled.
    """

    def __init__(
        self,
        queries: PathQueries | PathTensors,
        batch_size: int,
        seed: int,
        device: torch.device,
        *,
        by_last_relation: bool = False,
        corruptions: Corruptions | None = None,
    ) -> None:
        self._paths = paths = PathTensors.of(queries, device)
        self._corruptions = corruptions
        self._seed = seed
        self._batch_size = batch_size
        ids = int(paths.path.max()) + 1 if by_last_relation and len(paths) else 1
        # Few distinct numbers of few bits: a stable sort of them is a radix sort.
        key = paths.length * ids + paths.last_relation if by_last_relation else paths.length.short()
        by_key = torch.argsort(key, stable=True)
        keys, sizes = torch.unique_consecutive(key[by_key], return_counts=True)
        self._groups = torch.split(by_key, sizes.tolist())
        self._lengths = [each // ids for each in keys.tolist()]

    def plan(self, epoch: int) -> EpochPlan:
        """The batches of an epoch."""
        rng = generator(self._seed, Purpose.ORDER, epoch)
        batches: list[Tensor] = []
        lengths: list[int] = []
        for group, length in zip(self._groups, self._lengths, strict=True):
            cut = _shuffled(group, rng).tensor_split(-(-len(group) // self._batch_size))
            batches += cut
            lengths += [length] * len(cut)
        shuffled = rng.permutation(len(batches))
        sizes = np.array([len(batches[i]) for i in shuffled])
        return EpochPlan(
            epoch=epoch,
            bounds=np.concatenate([[0], np.cumsum(sizes)]),
            lengths=[lengths[i] for i in shuffled],
            members=torch.cat([batches[i] for i in shuffled]),
            paths=self._paths,
            corruptions=self._corruptions,
        )


def _shuffled(group: Tensor, rng: np.random.Generator) -> Tensor:
    """The members of a group in random order; a GPU draws its own, since the host needs a tenth of an epoch for it."""
    if not group.is_cuda:
        return torch.from_numpy(rng.permutation(group.cpu().numpy())).to(group.device)
    drawn = torch.Generator(group.device).manual_seed(int(rng.integers(2**63)))
    return group[torch.randperm(len(group), generator=drawn, device=group.device)]


@final
@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The batches of one epoch; batch i is `members[bounds[i] : bounds[i + 1]]`, all of `lengths[i]` hops."""

    epoch: int
    bounds: NDArray[np.int64]
    lengths: list[int]
    members: Tensor
    paths: PathTensors
    corruptions: Corruptions | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def positives(self) -> int:
        """See Plan."""
        return int(self.bounds[-1])

    def size(self, index: int) -> int:
        """See Plan."""
        return int(self.bounds[index + 1] - self.bounds[index])

    def batch(self, index: int) -> Batch:
        """See Plan."""
        members, hops = self.members[self.bounds[index] : self.bounds[index + 1]], self.lengths[index]
        return Batch(
            source=self.paths.source.index_select(0, members).long(),
            path=self.paths.path.index_select(0, members)[:, :hops].long(),
            target=self.paths.target.index_select(0, members).long(),
            epoch=self.epoch,
            index=index,
            corruptions=None if self.corruptions is None else self.corruptions.take(members, hops),
        )
