"""Several models as one whose score is the sum of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from typing import Literal

import torch
from torch import Tensor

from blockhole.errors import ConfigError
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blockhole import BlockHolE
from blockhole.models.catalogue import build_model
from blockhole.models.contract import Model
from blockhole.models.rescal import RESCAL
from blockhole.models.settings import ModelSettings


@torch.no_grad()
def merge(models: Sequence[Model], weights: Sequence[float] | None = None) -> BlockBilinear:
    """The model with φ(s, p, o) = Σ_k w_k φ_k(s, p, o) for paths of every length; each w_k is 1 unless given.

    Frequencies never meet in a hop, so models of one kind and one b stand side by side in a model of m = Σ m_k:
    e = (√w_1 e_1, √w_2 e_2, …), W_r = diag(W_r1, W_r2, …). RESCAL has one frequency; its dimensions stand side by side,
    and the merged matrices are block diagonal. The weights go into the entities, which every score holds twice.
    """
    parts = _alike(models)
    weights = _checked(weights, len(parts))
    first = parts[0]
    merged = build_model(merged_settings(parts), first.num_entities, first.num_relations, seed=0)
    assert isinstance(merged, BlockBilinear)
    merged.to(device=first.entity.device, dtype=first.entity.dtype)
    entity = torch.cat([sqrt(weight) * _entities(part) for part, weight in zip(parts, weights, strict=True)], dim=-1)
    if isinstance(first, RESCAL):
        relation = _block_diagonal([_relations(part)[:, 0, :, :, 0] for part in parts])
    else:
        relation = torch.cat([_relations(part) for part in parts], dim=-1)
    merged.entity.copy_(entity.reshape(merged.entity.shape))
    merged.relation.copy_(relation.reshape(merged.relation.shape))
    return merged


def merged_settings(models: Sequence[Model]) -> ModelSettings:
    """The kind and size of the model that `merge` makes."""
    parts = _alike(models)
    first = parts[0]
    inverses: Literal["own", "tied"] = "tied" if first.tied else "own"
    total = sum(part.geometry.dimension for part in parts)
    if isinstance(first, BlockHolE):
        blocks = first.geometry.blocks
        return ModelSettings(name=first.name, blocks=blocks, block_size=total // blocks, inverses=inverses)
    return ModelSettings(name=first.name, dim=total, inverses=inverses)


def _alike(models: Sequence[Model]) -> list[BlockBilinear]:
    """The models, if their sum is a model of their kind; else a ConfigError that says why not."""
    parts = [model for model in models if isinstance(model, BlockBilinear)]
    if not models or len(parts) < len(models):
        named = ", ".join(sorted({model.name for model in models if not isinstance(model, BlockBilinear)})) or "none"
        raise ConfigError(f"only blockhole, complex, distmult and rescal models can be merged, not {named}.")
    kinds = {_kind(part) for part in parts}
    if len(kinds) > 1:
        raise ConfigError(f"models to merge must be alike in kind, b and inverses, not {' and '.join(sorted(kinds))}.")
    if len({(part.num_entities, part.num_relations) for part in parts}) > 1:
        raise ConfigError("models to merge must be over the same entities and relations.")
    return parts


def _kind(model: BlockBilinear) -> str:
    blocks = f" with b = {model.geometry.blocks}" if isinstance(model, BlockHolE) else ""
    return f"{model.name}{blocks}{' (tied inverses)' if model.tied else ''}"


def _checked(weights: Sequence[float] | None, count: int) -> Sequence[float]:
    if weights is None:
        return [1.0] * count
    if len(weights) != count:
        raise ConfigError(f"{count} models to merge need {count} weights, not {len(weights)}.")
    for weight in weights:
        if not (isfinite(weight) and weight > 0):
            raise ConfigError(f"the weight {weight:g} of a model to merge must be a positive number.")
    return weights


def _entities(model: BlockBilinear) -> Tensor:
    """[E, part, block, freq]; of RESCAL [E, block], whose blocks are what stands side by side."""
    rows = model.entity.view(model.num_entities, *model.geometry.entity_shape)
    return rows[:, 0, :, 0] if isinstance(model, RESCAL) else rows


def _relations(model: BlockBilinear) -> Tensor:
    """[2R or R, part, block i, block j, freq]."""
    return model.relation.view(len(model.relation), *model.geometry.relation_shape)


def _block_diagonal(matrices: Sequence[Tensor]) -> Tensor:
    """diag(A, B, …) of every row: [count, n_k, n_k] each → [count, Σ n_k, Σ n_k]."""
    size = sum(matrix.shape[1] for matrix in matrices)
    diagonal = matrices[0].new_zeros(len(matrices[0]), size, size)
    first = 0
    for matrix in matrices:
        last = first + matrix.shape[1]
        diagonal[:, first:last, first:last] = matrix
        first = last
    return diagonal
