"""The same model in another form: spatial or Fourier BlockHolE, HolE or ANALOGY and ComplEx."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from blockhole.models.analogy import ANALOGY
from blockhole.models.blockhole import BlockHolE
from blockhole.models.circulant import (
    Scaling,
    entity_to_fourier,
    entity_to_spatial,
    relation_to_fourier,
    relation_to_spatial,
    reverse,
    widen_entity,
    widen_relation,
)
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.hole import HolE
from blockhole.models.spatial import BlockHolESpatial

AnyModel = TypeVar("AnyModel", bound=Model)


@torch.no_grad()
def fourier_form(model: BlockHolESpatial, scaling: Scaling = "paths") -> BlockHolE:
    """BlockHolE of the same b and m in the Fourier domain, with equal scores (Eq. block-hole1 → Eq. block-hole).

    With `scaling="paper"` the parameters are the paper's and scores are equal for single relations only.
    """
    b, m = model.blocks, model.block_size
    entity = entity_to_fourier(model.entity.view(-1, b, m), scaling)
    relation = relation_to_fourier(model.relation.view(-1, b, b, m), scaling)
    form = BlockHolE(model.num_entities, model.num_relations, blocks=b, block_size=m, tied=model.tied)
    return _with_parameters(form, entity, relation)


@torch.no_grad()
def spatial_form(model: BlockHolE, scaling: Scaling = "paths") -> BlockHolESpatial:
    """Spatial BlockHolE of the same b and m: the inverse of `fourier_form`.

    The Fourier form has twice as many degrees of freedom; a model whose parameters are not
    conjugate-symmetric has no spatial form of its size and raises ValueError: use `widened_form`.
    """
    b, m = model.blocks, model.block_size
    entity = entity_to_spatial(model.entity_blocks(), scaling)
    relation = relation_to_spatial(model.relation_blocks(), scaling)
    form = BlockHolESpatial(model.num_entities, model.num_relations, blocks=b, block_size=m, tied=model.tied)
    return _with_parameters(form, entity, relation)


@torch.no_grad()
def widened_form(model: BlockHolE) -> BlockHolESpatial:
    """Spatial BlockHolE of the same b and block size 2m + 1 with the scores of any Fourier BlockHolE."""
    entity = widen_entity(model.entity_blocks())
    relation = widen_relation(model.relation_blocks())
    b, m = model.blocks, entity.shape[-1]
    form = BlockHolESpatial(model.num_entities, model.num_relations, blocks=b, block_size=m, tied=model.tied)
    return _with_parameters(form, entity, relation)


@torch.no_grad()
def complex_form(model: HolE | ANALOGY) -> ComplEx:
    """ComplEx of the same n with the scores of a model whose relations are diagonal, along paths too."""
    own = torch.arange(len(model.relation), device=model.relation.device)
    form = ComplEx(model.num_entities, model.num_relations, dim=model.dim, tied=model.tied)
    return _with_parameters(form, model.coordinates(model.entity), model.operator(own))


@torch.no_grad()
def holographic_form(model: ComplEx) -> HolE:
    """HolE of dimension 2n + 1 with the scores of a ComplEx, along paths too."""
    entity = widen_entity(model.entity_blocks())
    relation = reverse(widen_relation(model.relation_blocks()))
    form = HolE(model.num_entities, model.num_relations, dim=entity.shape[-1], tied=model.tied)
    return _with_parameters(form, entity, relation)


def _with_parameters(form: AnyModel, entity: Tensor, relation: Tensor) -> AnyModel:
    form.to(device=entity.device, dtype=entity.dtype)
    form.entity.copy_(entity.reshape(form.entity.shape))
    form.relation.copy_(relation.reshape(form.relation.shape))
    return form
