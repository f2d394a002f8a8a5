"""The same model in another form: spatial or Fourier BlockHolE, HolE or ComplEx."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from blockhole.models import spatial
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blockhole import BlockHolE
from blockhole.models.circulant import reverse
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.hole import HolE
from blockhole.models.spatial import BlockHolESpatial, Scaling

AnyModel = TypeVar("AnyModel", bound=Model)


@torch.no_grad()
def fourier_form(model: BlockHolESpatial, scaling: Scaling = "paths") -> BlockHolE:
    """BlockHolE of the same b and m in the Fourier domain, with equal scores (Eq. block-hole1 → Eq. block-hole).

    With `scaling="paper"` the parameters are the paper's and scores are equal for single relations only.
    """
    b, m = model.blocks, model.block_size
    entity = spatial.entity_to_fourier(model.entity.view(-1, b, m), scaling)
    relation = spatial.relation_to_fourier(model.relation.view(-1, b, b, m), scaling)
    form = BlockHolE(model.num_entities, model.num_relations, blocks=b, block_size=m, tied=model.tied)
    return _with_parameters(form, entity, relation)


@torch.no_grad()
def spatial_form(model: BlockHolE, scaling: Scaling = "paths") -> BlockHolESpatial:
    """Spatial BlockHolE of the same b and m: the inverse of `fourier_form`.

    The Fourier form has twice as many degrees of freedom; a model whose parameters are not
    conjugate-symmetric has no spatial form of its size and raises ValueError: use `widened_form`.
    """
    b, m = model.geometry.blocks, model.geometry.freqs
    entity = spatial.entity_to_spatial(_stored_entity(model), scaling)
    relation = spatial.relation_to_spatial(_stored_relation(model), scaling)
    form = BlockHolESpatial(model.num_entities, model.num_relations, blocks=b, block_size=m, tied=model.tied)
    return _with_parameters(form, entity, relation)


@torch.no_grad()
def widened_form(model: BlockHolE) -> BlockHolESpatial:
    """Spatial BlockHolE of the same b and block size 2m + 1 with the scores of any Fourier BlockHolE."""
    entity = spatial.widen_entity(_stored_entity(model))
    relation = spatial.widen_relation(_stored_relation(model))
    form = BlockHolESpatial(
        model.num_entities,
        model.num_relations,
        blocks=model.geometry.blocks,
        block_size=entity.shape[-1],
        tied=model.tied,
    )
    return _with_parameters(form, entity, relation)


@torch.no_grad()
def complex_form(model: HolE) -> ComplEx:
    """ComplEx of the same n with the scores of a HolE, along paths too."""
    size = model.entity.shape[1]
    entity = spatial.entity_to_fourier(model.entity.view(-1, 1, size))
    # HolE's matrix is circ(w)ᵀ, BlockHolE's circ(w): hence the reversal.
    relation = spatial.relation_to_fourier(reverse(model.relation).view(-1, 1, 1, size))
    form = ComplEx(model.num_entities, model.num_relations, dim=size, tied=model.tied)
    return _with_parameters(form, entity, relation)


@torch.no_grad()
def holographic_form(model: ComplEx) -> HolE:
    """HolE of dimension 2n + 1 with the scores of a ComplEx, along paths too."""
    entity = spatial.widen_entity(_stored_entity(model))
    relation = reverse(spatial.widen_relation(_stored_relation(model)))
    form = HolE(model.num_entities, model.num_relations, dim=entity.shape[-1], tied=model.tied)
    return _with_parameters(form, entity, relation)


def _stored_entity(model: BlockBilinear) -> Tensor:
    return model.entity.view(model.num_entities, *model.geometry.entity_shape)


def _stored_relation(model: BlockBilinear) -> Tensor:
    return model.relation.view(len(model.relation), *model.geometry.relation_shape)


def _with_parameters(form: AnyModel, entity: Tensor, relation: Tensor) -> AnyModel:
    form.to(device=entity.device, dtype=entity.dtype)
    form.entity.copy_(entity.reshape(form.entity.shape))
    form.relation.copy_(relation.reshape(form.relation.shape))
    return form
