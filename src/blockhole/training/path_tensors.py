"""Path queries as tensors on the training device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from blockhole.paths.queries import PathQueries


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
