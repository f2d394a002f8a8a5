"""The same model in another form: spatial or Fourier BlockHolE, HolE or ComplEx; first models, then their parameters.

Between the spatial parameters of Eq. block-hole1 and the Fourier parameters of Eq. block-hole the paper sets
e' = conj(F e) and w' = F w / m, which gives equal scores for single relations; along a path of k relations its w'
bring the factor 1/m k times where one is due. Only one choice of factors is right for every length:
e' = conj(F e)/√m and w' = F w. It is the default, "paths"; the paper's own is "paper".
"""

from __future__ import annotations

from math import sqrt
from typing import Literal, TypeVar

import torch
from torch import Tensor

from blockhole.models.blockhole import BlockHolE
from blockhole.models.circulant import reverse
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.hole import HolE
from blockhole.models.spatial import BlockHolESpatial

Scaling = Literal["paths", "paper"]

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
def complex_form(model: HolE) -> ComplEx:
    """ComplEx of the same n with the scores of a HolE, along paths too."""
    size = model.dim
    entity = entity_to_fourier(model.entity.view(-1, 1, size))
    # HolE's matrix is circ(w)ᵀ, BlockHolE's circ(w): hence the reversal.
    relation = relation_to_fourier(reverse(model.relation).view(-1, 1, 1, size))
    form = ComplEx(model.num_entities, model.num_relations, dim=size, tied=model.tied)
    return _with_parameters(form, entity, relation)


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


def entity_to_fourier(entity: Tensor, scaling: Scaling = "paths") -> Tensor:
    """e' = conj(F e), over √m for paths: real […, block, position] → stored […, part, block, freq]."""
    spectrum = torch.fft.fft(entity).conj()
    return _store(spectrum * _entity_factor(entity.shape[-1], scaling), part_axis=-3)


def relation_to_fourier(relation: Tensor, scaling: Scaling = "paths") -> Tensor:
    """w' = F w, over m as in the paper: real […, i, j, position] → stored […, part, i, j, freq]."""
    spectrum = torch.fft.fft(relation)
    return _store(spectrum * _relation_factor(relation.shape[-1], scaling), part_axis=-4)


def entity_to_spatial(entity: Tensor, scaling: Scaling = "paths") -> Tensor:
    """The inverse of entity_to_fourier; ValueError if no real vector has these Fourier parameters."""
    spectrum = _load(entity, part_axis=-3).conj()
    return _real(torch.fft.ifft(spectrum / _entity_factor(entity.shape[-1], scaling)))


def relation_to_spatial(relation: Tensor, scaling: Scaling = "paths") -> Tensor:
    """The inverse of relation_to_fourier; ValueError if no real vector has these Fourier parameters."""
    spectrum = _load(relation, part_axis=-4)
    return _real(torch.fft.ifft(spectrum / _relation_factor(relation.shape[-1], scaling)))


def widen_entity(entity: Tensor) -> Tensor:
    """A real vector of size M = 2m + 1 that scores as e' does: stored […, part, block, m] → […, block, M].

    Any m complex numbers are half of a conjugate-symmetric spectrum of size M whose zeroth entry is 0; both
    halves contribute the same score, hence 1/√2. With "paths" scaling on both sides, every path keeps its
    score.
    """
    size = 2 * entity.shape[-1] + 1
    return _mirror(_load(entity, part_axis=-3).conj()) * sqrt(size / 2)


def widen_relation(relation: Tensor) -> Tensor:
    """The w of size M = 2m + 1 beside `widen_entity`: stored […, part, i, j, m] → […, i, j, M]."""
    return _mirror(_load(relation, part_axis=-4))


def _entity_factor(size: int, scaling: Scaling) -> float:
    return 1 / sqrt(size) if scaling == "paths" else 1.0


def _relation_factor(size: int, scaling: Scaling) -> float:
    return 1.0 if scaling == "paths" else 1 / size


def _store(numbers: Tensor, part_axis: int) -> Tensor:
    return torch.stack((numbers.real, numbers.imag), dim=part_axis)


def _load(stored: Tensor, part_axis: int) -> Tensor:
    return torch.complex(*stored.unbind(dim=part_axis))


def _mirror(half: Tensor) -> Tensor:
    spectrum = torch.cat((torch.zeros_like(half[..., :1]), half), dim=-1)
    widened: Tensor = torch.fft.irfft(spectrum, n=2 * half.shape[-1] + 1)
    return widened


def _real(numbers: Tensor) -> Tensor:
    tolerance = 64 * torch.finfo(numbers.dtype).eps
    if numbers.numel() and numbers.imag.abs().max() > tolerance * numbers.abs().max():
        raise ValueError(
            "these Fourier parameters are not conjugate-symmetric, so they come from no real vectors of the same "
            "size (the Fourier form has twice as many degrees of freedom); widen them to size 2m + 1 instead"
        )
    return numbers.real.contiguous()
