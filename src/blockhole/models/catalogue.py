"""The one place where names become models."""

from __future__ import annotations

from blockhole.models.analogy import ANALOGY
from blockhole.models.blockhole import BlockHolE
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.distmult import DistMult
from blockhole.models.hole import HolE
from blockhole.models.rescal import RESCAL
from blockhole.models.settings import ModelSettings
from blockhole.models.simple import SimplE
from blockhole.models.spatial import BlockHolESpatial
from blockhole.models.transe import TransE

_SIZED_BY_BLOCKS: dict[str, type[BlockHolE] | type[BlockHolESpatial]] = {
    model.name: model for model in (BlockHolE, BlockHolESpatial)
}
"""Models sized by blocks and block_size."""

_SIZED_BY_DIM: dict[str, type[RESCAL | DistMult | ComplEx | HolE | TransE | ANALOGY | SimplE]] = {
    model.name: model for model in (RESCAL, DistMult, ComplEx, HolE, TransE, ANALOGY, SimplE)
}
"""Models sized by dim alone."""

MODELS: dict[str, type[Model]] = {**_SIZED_BY_BLOCKS, **_SIZED_BY_DIM}


def build_model(settings: ModelSettings, num_entities: int, num_relations: int, seed: int) -> Model:
    """The model `settings` describe, with parameters drawn from `seed`, on the CPU."""
    if settings.name in _SIZED_BY_BLOCKS:
        blocks, block_size = settings.block_shape
        return _SIZED_BY_BLOCKS[settings.name](
            num_entities,
            num_relations,
            blocks=blocks,
            block_size=block_size,
            tied=settings.inverses == "tied",
            entity_scale=settings.entity_scale,
            relation_scale=settings.relation_scale,
            seed=seed,
        )
    return _SIZED_BY_DIM[settings.name](
        num_entities,
        num_relations,
        dim=settings.dimension,
        tied=settings.inverses == "tied",
        entity_scale=settings.entity_scale,
        relation_scale=settings.relation_scale,
        seed=seed,
    )
