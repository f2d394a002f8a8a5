"""An epoch as batches of path queries: tensors on the training device, in an order set by seed and epoch alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from blockhole.queries.paths import PathQueries


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Positives of one length: source [batch], path [batch, hop], target [batch], int64 ids on one device.

    All rows of a batch have the same number of hops (the trainer groups by length), so no mask is needed.
    `epoch` and `index` name the batch; together with the run's seed they determine every random draw made for it,
    which is what makes a resumed run equal to an undisturbed one. `corruptions` are there where each positive has its
    own, checked beforehand.
    """

    source: Tensor
    path: Tensor
    target: Tensor
    epoch: int
    index: int
    corruptions: Corruptions | None = None

    def tensors(self) -> list[Tensor]:
        """All tensors of the batch, in an order of their own."""
        own = [self.source, self.path, self.target]
        return own if self.corruptions is None else [*own, self.corruptions.paths, self.corruptions.false]

    def clone(self) -> Batch:
        """The same batch in memory of its own."""
        source, path, target, *corruptions = (
            ids.clone(memory_format=torch.contiguous_format) for ids in self.tensors()
        )
        return Batch(source, path, target, self.epoch, self.index, Corruptions(*corruptions) if corruptions else None)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Corruptions:
    """Corrupted paths [N, count, hop] of N positives, and which of them are `false` [N, count] in train."""

    paths: Tensor
    false: Tensor

    def take(self, index: Tensor, hops: int) -> Corruptions:
        """Those of the positives at `index`, which have `hops` hops, as a batch takes them."""
        return Corruptions(self.paths.index_select(0, index)[:, :, :hops].long(), self.false.index_select(0, index))


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


TOGETHER: Final = 16
"""Edges of one query that may stand together in a batch: a batch of nothing but the men of a graph would teach little.
FB15k-237 has 3.6 edges a query, and 3.4 so."""


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


@final
@dataclass(frozen=True, slots=True, eq=False)
class PathTensors:
    """`PathQueries` on a device: source [N], path [N, K], length [N], target [N].

    `path` is padded on the right with 0; `length` alone says how many hops count. Ids are int32: half of what a batch
    would read as int64.
    """

    source: Tensor
    path: Tensor
    length: Tensor
    target: Tensor

    @classmethod
    def of(cls, queries: PathQueries | PathTensors, device: torch.device) -> PathTensors:
        """`queries` on `device`; tensors that are there already are not copied."""
        return cls(
            *(
                ids.to(device) if isinstance(ids, Tensor) else torch.tensor(ids, device=device)
                for ids in (queries.source, queries.path, queries.length, queries.target)
            )
        )

    @classmethod
    def concatenate(cls, parts: Sequence[PathTensors]) -> PathTensors:
        """All queries of `parts`, in order, padded to the longest path."""
        hops = max(part.path.shape[1] for part in parts)
        return cls(
            source=torch.cat([part.source for part in parts]),
            path=torch.cat([functional.pad(part.path, (0, hops - part.path.shape[1])) for part in parts]),
            length=torch.cat([part.length for part in parts]),
            target=torch.cat([part.target for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.source)

    def take(self, index: Tensor) -> PathTensors:
        """The queries at `index` (positions or mask)."""
        return PathTensors(self.source[index], self.path[index], self.length[index], self.target[index])

    def equals(self, other: PathTensors) -> bool:
        """Whether both hold the same queries in the same order, on the same device."""
        if self.source.device != other.source.device:
            return False
        return all(
            torch.equal(mine, theirs)
            for mine, theirs in (
                (self.source, other.source),
                (self.path, other.path),
                (self.length, other.length),
                (self.target, other.target),
            )
        )

    @property
    def last_relation(self) -> Tensor:
        """r_k of each query: [N]."""
        return self.path.gather(1, self.length.long()[:, None] - 1)[:, 0]

    def reversed(self, num_relations: int) -> PathTensors:
        """(o, r_k⁻¹/…/r_1⁻¹, s) for each (s, r_1/…/r_k, o)."""
        position = self.length[:, None] - 1 - torch.arange(self.path.shape[1], device=self.path.device)
        backwards = self.path.gather(1, position.clamp(min=0))
        inverse = (backwards + num_relations) % (2 * num_relations)
        return PathTensors(self.target, torch.where(position >= 0, inverse, 0), self.length, self.source)


def as_queries(source: Tensor, path: Tensor, target: Tensor) -> PathQueries:
    """Ids of paths of one length as queries: [count], [count, hop], [count]."""
    source, path, target = (ids.to("cpu", torch.int32) for ids in (source, path, target))
    length = np.full(len(path), path.shape[1], dtype=np.int32)
    return PathQueries(source.numpy(), path.contiguous().numpy(), length, target.numpy())
