"""Predicting the relation of an edge from its two ends, as a further loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.contract import rows


def relation_loss(model: BlockBilinear, source: Tensor, relation: Tensor, target: Tensor) -> Tensor:
    """The mean of  log Σ_r' exp φ(s, r', o) - φ(s, r, o), over all relations and their inverses (Chen et al. 2021).

    φ is linear in the entries of W_r: with G = s ō (outer products by frequency), φ = Re Σ W_r[i, j, f] · G[i, j, f].
    Shapes: source, relation, target [batch] → [].
    """
    logits = relation_features(model, source, target) @ _all_operators(model).T
    return functional.cross_entropy(logits, relation)


def relation_features(model: BlockBilinear, source: Tensor, target: Tensor) -> Tensor:
    """The vector whose inner product with a flattened W_r is φ(s, r, o): [batch], [batch] → [batch, part·b·b·m]."""
    shape = model.geometry.entity_shape
    s, o = (rows(model.entity, ids).view(len(ids), *shape) for ids in (source, target))
    s, o = s[:, :, :, None, :], o[:, :, None, :, :]
    # Plain products: torch.einsum makes one tiny matrix product of each row and frequency, and takes most of a step.
    if model.geometry.parts == 1:
        return (s * o).flatten(1)
    # s ō = (s.re o.re + s.im o.im) + i (s.im o.re - s.re o.im); the real part of W·G takes the imaginary part negative.
    (s_re, s_im), (o_re, o_im) = s.unbind(dim=1), o.unbind(dim=1)
    return torch.stack((s_re * o_re + s_im * o_im, s_re * o_im - s_im * o_re), dim=1).flatten(1)


def _all_operators(model: BlockBilinear) -> Tensor:
    """Every W_r, inverses included: [2R, part·b·b·m]."""
    ids = torch.arange(2 * model.num_relations, device=model.entity.device)
    return model.operator(ids).flatten(1)
