"""Several models as one whose score is the sum of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt

import torch
from torch import Tensor

from blockhole.errors import ConfigError
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.catalogue import ModelSettings, build_model, name_of, settings_of
from blockhole.models.contract import Model


@torch.no_grad()
def merge_models(models: Sequence[Model], weights: Sequence[float] | None = None) -> BlockBilinear:
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
    entities = [sqrt(weight) * part.entity_blocks() for part, weight in zip(parts, weights, strict=True)]
    relations = [part.relation_blocks() for part in parts]
    if merged.geometry.blocks == first.geometry.blocks:
        entity, relation = torch.cat(entities, dim=3), torch.cat(relations, dim=4)
    else:
        entity, relation = torch.cat(entities, dim=2), _block_diagonal(relations)
    merged.entity.copy_(entity.reshape(merged.entity.shape))
    merged.relation.copy_(relation.reshape(merged.relation.shape))
    return merged


def merged_settings(models: Sequence[Model]) -> ModelSettings:
    """The kind and size of the model that `merge_models` makes."""
    parts = _alike(models)
    return settings_of(parts[0], tuple(dim for part in parts for dim in part.merged_from or (part.dim,)))


def _alike(models: Sequence[Model]) -> list[BlockBilinear]:
    """The models, if their sum is a model of their kind; else a ConfigError that says why not."""
    parts = [model for model in models if isinstance(model, BlockBilinear)]
    if not models or len(parts) < len(models):
        others = {name_of(type(model)) for model in models if not isinstance(model, BlockBilinear)}
        named = ", ".join(sorted(others)) or "none"
        raise ConfigError(f"only blockhole, complex, distmult and rescal models can be merged, not {named}.")
    kinds = {_kind(part) for part in parts}
    if len(kinds) > 1:
        raise ConfigError(f"models to merge must be alike in kind, b and inverses, not {' and '.join(sorted(kinds))}.")
    if len({(part.num_entities, part.num_relations) for part in parts}) > 1:
        raise ConfigError("models to merge must be over the same entities and relations.")
    return parts


def _kind(model: BlockBilinear) -> str:
    blocks = f" with b = {model.blocks}" if model.sized_by_blocks else ""
    return f"{name_of(type(model))}{blocks}{' (tied inverses)' if model.tied else ''}"


def _checked(weights: Sequence[float] | None, count: int) -> Sequence[float]:
    if weights is None:
        return [1.0] * count
    if len(weights) != count:
        raise ConfigError(f"{count} models to merge need {count} weights, not {len(weights)}.")
    for weight in weights:
        if not (isfinite(weight) and weight > 0):
            raise ConfigError(f"the weight {weight:g} of a model to merge must be a positive number.")
    return weights


def _block_diagonal(matrices: Sequence[Tensor]) -> Tensor:
    """diag(A, B, …) of every row: [count, part, b_k, b_k, freq] each → [count, part, Σ b_k, Σ b_k, freq]."""
    count, parts, _, _, freqs = matrices[0].shape
    size = sum(matrix.shape[2] for matrix in matrices)
    diagonal = matrices[0].new_zeros(count, parts, size, size, freqs)
    first = 0
    for matrix in matrices:
        last = first + matrix.shape[2]
        diagonal[:, :, first:last, first:last] = matrix
        first = last
    return diagonal
