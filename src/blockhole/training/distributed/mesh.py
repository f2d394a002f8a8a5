"""The processes of a run as a grid, data × entities: who holds what, and how much is sent."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

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
        return _put_together(rows, num_entities, self._mesh, [Replicate(), Shard(0)])

    def copy_of_table(self, rows: Tensor, num_entities: int) -> DTensor:
        """The same along the entities alone: no process need know what those of other copies compute."""
        return _put_together(rows, num_entities, self.entities, [Shard(0)])

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


def _put_together(rows: Tensor, num_entities: int, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    shape = torch.Size((num_entities, *rows.shape[1:]))
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(rows, mesh, placements, run_check=False, shape=shape, stride=stride)


def inside(ids: Tensor, held: range) -> Tensor:
    """Which ids are among those held: bool of the same shape."""
    return (ids >= held.start) & (ids < held.stop)


# How much a process sends in one step: counted from the sizes of what is reduced, and read off its sockets.


FLOAT = INT = 4
_BYTES_SENT = 200
"""Where tcp_info has tcpi_bytes_sent, and after it tcpi_bytes_retrans, in Linux since 4.19."""


@final
@dataclass(frozen=True, slots=True)
class StepSizes:
    """What a step of one process is made of, in numbers of rows and of floats per row.

    `queries` of its part of the batch, with `ends` distinct sources and targets in all; `per_query` figures that are
    reduced for each: maximum and sum by a softmax, by other losses the scores of the objects drawn for it. `touched`
    rows of its shard (all of them with the full softmax); `width` of an entity, `candidate_width` of a query vector,
    and `dense` parameters beside the entities.
    """

    queries: int
    ends: int
    per_query: int
    touched: int
    width: int
    candidate_width: int
    dense: int


def step_bytes(shape: MeshShape, sizes: StepSizes) -> float:
    """The bytes that a process sends in a step, without headers.

    A ring reduces n floats over g processes by sending 2(g - 1)/g · 4n bytes from each. Along the entities: the rows of
    sources and targets, the gradients of the queries, and the figures of each query. Along the data: the gradients of
    the touched rows and of all other parameters, and the loss.
    """
    along_entities = sizes.ends * sizes.width + sizes.queries * (sizes.per_query + sizes.candidate_width)
    along_data = sizes.touched * sizes.width + sizes.dense + 1
    return FLOAT * (_ring(shape.entities) * along_entities + _ring(shape.data) * along_data)


def batch_bytes(shape: MeshShape, batch: int, hops: int) -> int:
    """The bytes that a process sends for a batch of a packed graph, without headers: the rows made by each, to all.

    A row has source, relations and target; parts are filled up to the largest.
    """
    return (shape.size - 1) * -(-batch // shape.size) * (2 + hops) * INT


def _ring(processes: int) -> float:
    return 2 * (processes - 1) / processes


def bytes_sent() -> int:
    """The bytes that this process has sent over the TCP connections it has, each once, by Linux's count."""
    total = 0
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_SENT + 16)
        except OSError:  # closed meanwhile, or not TCP
            continue
        sent, again = struct.unpack_from("QQ", info, _BYTES_SENT)
        total += sent - again
    return total
