"""The processes of a run as a grid, data × entities: who holds what, and how much is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from blockhole.errors import ConfigError, counted, quoted

DATA, ENTITIES = "data", "entities"


@final
@dataclass(frozen=True, slots=True)
class MeshShape:
    """D parts of every batch times P parts of the entity table: D·P processes."""

    data: int
    entities: int

    @classmethod
    def parse(cls, text: str | None, processes: int) -> MeshShape:
        """The shape written DATAxENTITIES, for so many processes; absent puts all of them along the entities."""
        if text is None:
            return cls(1, processes)
        sizes = text.lower().split("x")
        if len(sizes) != 2 or not all(size.isdecimal() and int(size) for size in sizes):
            raise ConfigError(
                f"the mesh {quoted(text)} is not of the form DATAxENTITIES; write two numbers, such as 2x4."
            )
        shape = cls(*map(int, sizes))
        if shape.size != processes:
            raise ConfigError(
                f"the mesh {text} needs {shape.size} processes, and there are {processes}; start it with torchrun "
                f"--nproc-per-node {shape.size} --no-python blockhole train …, or choose another mesh."
            )
        return shape

    @property
    def size(self) -> int:
        """D·P."""
        return self.data * self.entities

    def check(self, num_entities: int) -> None:
        """Make sure that every shard has an entity."""
        if -(-num_entities // self.entities) * (self.entities - 1) >= num_entities:
            raise ConfigError(
                f"{self.entities} shards are too many for {counted(num_entities, 'entity', 'entities')}: "
                f"one would hold none; start fewer processes, or split the batches instead with --mesh {self.size}x1."
            )


@final
class EntityMesh:
    """This process' place in the grid, and what goes along its row and its column.

    `entities` are the processes that hold one copy of the table together: shard p of P has its rows p·⌈E/P⌉ …
    Processes with the same p hold equal copies and split the batches.
    """

    def __init__(self, shape: MeshShape, device: torch.device) -> None:
        self.shape = shape
        self.device = device
        self._mesh = init_device_mesh(device.type, (shape.data, shape.entities), mesh_dim_names=(DATA, ENTITIES))
        # Looked up once: a mesh takes a millisecond for each of these.
        self.entities: DeviceMesh = self._mesh[ENTITIES]
        self._data, self._entities = self._mesh.get_group(DATA), self._mesh.get_group(ENTITIES)
        self._part, self._shard = self._mesh.get_local_rank(DATA), self._mesh.get_local_rank(ENTITIES)

    def held(self, num_entities: int) -> range:
        """The ids whose rows this process holds."""
        size = -(-num_entities // self.shape.entities)
        first = min(num_entities, self._shard * size)
        return range(first, min(num_entities, first + size))

    def part(self, batch: int) -> slice:
        """The rows of a batch that are this process' own; sizes differ by one at most, and may be zero."""
        return slice(batch * self._part // self.shape.data, batch * (self._part + 1) // self.shape.data)

    def made(self, batch: int) -> slice:
        """The rows of a batch that this process makes: all processes, those along the entities too, share the work."""
        return self._made_by(dist.get_rank(), batch)

    def gather_batch(self, own: Tensor, batch: int) -> Tensor:
        """All rows of a batch, of which every process has made its own: [own, columns] → [batch, columns]."""
        most = -(-batch // self.shape.size)
        padded = own.new_zeros(most, own.shape[1])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(self.shape.size)]
        dist.all_gather(parts, padded)
        sizes = [made.stop - made.start for made in (self._made_by(rank, batch) for rank in range(self.shape.size))]
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def _made_by(self, rank: int, batch: int) -> slice:
        return slice(batch * rank // self.shape.size, batch * (rank + 1) // self.shape.size)

    def table(self, rows: Tensor, num_entities: int) -> DTensor:
        """The whole table of which this process holds `rows`, without copying them: [E, …]."""
        shape = torch.Size((num_entities, *rows.shape[1:]))
        stride, placements = torch.empty(shape, device="meta").stride(), [Replicate(), Shard(0)]
        return DTensor.from_local(rows, self._mesh, placements, run_check=False, shape=shape, stride=stride)

    def of_whole(self, whole: Tensor) -> DTensor:
        """A table that every process has, with this process' rows of it kept."""
        held = self.held(len(whole))
        return self.table(whole[held.start : held.stop].to(self.device, copy=True), len(whole))

    def gather(self, rows: Tensor, num_entities: int) -> Tensor | None:
        """The whole table, in process 0 alone: rows [held, …] → [E, …]."""
        if self._part:
            return None
        size, first = -(-num_entities // self.shape.entities), not self._shard
        padded = rows.new_zeros(size, *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.shape.entities)] if first else None
        dist.gather(padded, parts, group=self._entities, group_dst=0)
        return torch.cat(parts)[:num_entities] if parts else None

    def highest(self, values: Tensor) -> Tensor:
        """The highest of each element along the entities; in place."""
        if self.shape.entities > 1:
            dist.all_reduce(values, dist.ReduceOp.MAX, group=self._entities)
        return values

    def total(self, values: Tensor) -> Tensor:
        """The sum of each element along the entities; in place."""
        if self.shape.entities > 1:
            dist.all_reduce(values, group=self._entities)
        return values

    def sum_over_data(self, values: Tensor) -> Tensor:
        """The sum of each element along the data; in place."""
        if self.shape.data > 1:
            dist.all_reduce(values, group=self._data)
        return values


def inside(ids: Tensor, held: range) -> Tensor:
    """Which ids are among those held: bool of the same shape."""
    return (ids >= held.start) & (ids < held.stop)
