"""Several models as one whose score is the sum of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt

import torch
from torch import Tensor

from blockhole.errors import ConfigError
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blockhole import BlockHolE
from blockhole.models.catalogue import ModelSettings, build_model, name_of, settings_of
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.rescal import RESCAL


@torch.no_grad()
def merge_models(models: Sequence[Model], weights: Sequence[float] | None = None) -> BlockBilinear:
    """The model with φ(s, p, o) = Σ_k w_k φ_k(s, p, o) for paths of every length; each w_k is 1 unless given.

    Frequencies never meet in a hop, so models of one kind and one b stand side by side in a model of m = Σ m_k:
    e = (√w_1 e_1, √w_2 e_2, …), W_r = diag(W_r1, W_r2, …). One of fewer blocks, as ComplEx has, is first folded: c b_k
    blocks of m_k / c are the same model when its matrices are block diagonal. RESCAL has one frequency; its dimensions
    stand side by side. The weights go into the entities, which every score holds twice.
    """
    parts = _alike(models)
    weights = _checked(weights, len(parts))
    first = parts[0]
    merged = build_model(merged_settings(parts), first.num_entities, first.num_relations, seed=0)
    assert isinstance(merged, BlockBilinear)
    merged.to(device=first.entity.device, dtype=first.entity.dtype)
    entities = [sqrt(weight) * part.entity_blocks() for part, weight in zip(parts, weights, strict=True)]
    relations = [part.relation_blocks() for part in parts]
    if isinstance(first, RESCAL):
        entity, relation = torch.cat(entities, dim=2), _block_diagonal(relations)
    else:
        sizes = [[dim // part.geometry.blocks for dim in _dims(part)] for part in parts]
        folded = [
            _folded(e, w, merged.geometry.blocks)
            for own in zip(entities, relations, sizes, strict=True)
            for e, w in zip(*(torch.split(table, own[2], dim=-1) for table in own[:2]), strict=True)
        ]
        entity, relation = (torch.cat(tables, dim=-1) for tables in zip(*folded, strict=True))
    merged.entity.copy_(entity.reshape(merged.entity.shape))
    merged.relation.copy_(relation.reshape(merged.relation.shape))
    return merged


def _folded(entity: Tensor, relation: Tensor, blocks: int) -> tuple[Tensor, Tensor]:
    """The same model with so many `blocks`: [E, part, b, freq], [R, part, b, b, freq] → with c b and freq / c."""
    times = blocks // entity.shape[2]
    return torch.cat(entity.chunk(times, dim=-1), dim=2), _block_diagonal(relation.chunk(times, dim=-1))


def merged_settings(models: Sequence[Model]) -> ModelSettings:
    """The kind and size of the model that `merge_models` makes."""
    parts = _alike(models)
    dims = tuple(dim for part in parts for dim in _dims(part))
    if len({(type(part), part.geometry.blocks) for part in parts}) == 1 or isinstance(parts[0], RESCAL):
        return settings_of(parts[0], dims)
    blocks, inverses = max(part.geometry.blocks for part in parts), settings_of(parts[0]).inverses
    return ModelSettings(blocks=blocks, block_size=sum(dims) // blocks, inverses=inverses, merged_from=dims)


def _dims(part: BlockBilinear) -> tuple[int, ...]:
    """The dimensions of the models that one was merged from, or its own."""
    return part.merged_from or (part.dim,)


def _alike(models: Sequence[Model]) -> list[BlockBilinear]:
    """The models, if their sum is a model of their kind; else a ConfigError that says why not."""
    parts = [model for model in models if isinstance(model, BlockBilinear)]
    if not models or len(parts) < len(models):
        others = {name_of(type(model)) for model in models if not isinstance(model, BlockBilinear)}
        named = ", ".join(sorted(others)) or "none"
        raise ConfigError(f"only blockhole, complex, distmult and rescal models can be merged, not {named}.")
    kinds = {_kind(part): part for part in parts}
    if len(kinds) > 1:
        named = " and ".join(sorted(f"{_named(part)}" for part in kinds.values()))
        raise ConfigError(f"models to merge must be alike in kind and inverses, not {named}.")
    if len({(part.num_entities, part.num_relations) for part in parts}) > 1:
        raise ConfigError("models to merge must be over the same entities and relations.")
    most = max(parts, key=lambda part: part.geometry.blocks)
    blocks = most.geometry.blocks
    for part in parts:
        if not isinstance(part, RESCAL) and (blocks % part.geometry.blocks or any(dim % blocks for dim in _dims(part))):
            raise ConfigError(
                f"{_named(part)} and n = {' + '.join(map(str, _dims(part)))} cannot be merged with {_named(most)}: its "
                f"b must divide {blocks}, and its n be a multiple of it."
            )
    return parts


def _kind(model: BlockBilinear) -> tuple[type[BlockBilinear], bool]:
    """What models must have in common to be merged; ComplEx is BlockHolE of one block."""
    return BlockHolE if isinstance(model, ComplEx) else type(model), model.tied


def _named(model: BlockBilinear) -> str:
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
