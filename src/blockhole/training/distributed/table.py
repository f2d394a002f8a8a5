"""A model whose entity table lies in parts: built without any process ever holding all rows."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from blockhole.models.catalogue import build_model
from blockhole.models.contract import Model
from blockhole.models.settings import ModelSettings
from blockhole.training.distributed.mesh import EntityMesh

_ROWS_DRAWN = 2**14
"""Rows drawn at a time; a multiple of 16, see `draw_rows`."""


def build_sharded_model(
    settings: ModelSettings, num_entities: int, num_relations: int, seed: int, mesh: EntityMesh
) -> Model:
    """The model that `build_model` would draw, number for number, with this process' rows of it on the mesh' device."""
    model = build_model(settings, 1, num_relations, seed)
    generator = torch.Generator().manual_seed(seed)
    held = mesh.held(num_entities)
    own = draw_rows(num_entities, model.entity.shape[1], model.entity_scale, generator, held)
    relation = torch.empty_like(model.relation).normal_(0.0, model.relation_scale, generator=generator)
    model.num_entities = num_entities
    model.relation = nn.Parameter(relation.to(mesh.device))
    model.entity = nn.Parameter(mesh.table(own.to(mesh.device), num_entities))
    return model


def draw_rows(count: int, width: int, scale: float, generator: torch.Generator, held: range) -> Tensor:
    """The rows `held` of torch.empty(count, width).normal_(0, scale), in the memory of one more block.

    torch turns uniform numbers into normal ones in groups of sixteen, and what is left at the end in a group of its
    own; blocks of a multiple of sixteen rows, the last one taking in what is left, repeat its groups.
    """
    own = torch.from_numpy(np.empty((len(held), width), dtype=np.float32))  # on large pages, as in a model
    starts = list(range(0, count, _ROWS_DRAWN))
    if len(starts) > 1 and count - starts[-1] < 16:
        starts.pop()
    for first, last in zip(starts, [*starts[1:], count], strict=True):
        block = torch.empty(last - first, width).normal_(0.0, scale, generator=generator)
        low, high = max(first, held.start), min(last, held.stop)
        if low < high:
            own[low - held.start : high - held.start] = block[low - first : high - first]
    return own
