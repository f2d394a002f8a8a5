"""What a process of several sends in a step: counted from the sizes of what is reduced, and read off its sockets."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.models.contract import Model
from blockhole.training.batches import Batch
from blockhole.training.distributed.mesh import EntityMesh, MeshShape, inside
from blockhole.training.negatives import NegativeSampler

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


def sizes_of(
    model: Model, sampler: NegativeSampler, mesh: EntityMesh, batch: Batch, seen: NDArray[np.int64] | None = None
) -> StepSizes:
    """The sizes of a step on `batch`, whose negatives `sampler` draws, among the entities `seen` (absent: all)."""
    drawn, part, held = sampler.draw(batch), mesh.part(len(batch.source)), mesh.held(model.num_entities)
    ends, objects = torch.cat((batch.source, batch.target)), drawn.objects
    if objects is not None:
        touched = torch.unique(torch.cat((ends, objects.flatten())))
    else:
        touched = torch.arange(model.num_entities) if seen is None else torch.from_numpy(seen)
    width = model.entity.shape[1]
    return StepSizes(
        queries=part.stop - part.start,
        ends=len(torch.unique(torch.cat((batch.source[part], batch.target[part])))),
        per_query=objects.shape[1] if objects is not None and objects.dim() == 2 else 2,
        touched=int(inside(touched, held).sum()),
        width=width,
        candidate_width=model.finish_candidate(torch.zeros(1, width)).shape[1],
        dense=sum(value.numel() for name, value in model.named_parameters() if name != "entity"),
    )


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
