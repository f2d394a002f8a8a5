"""Which model to build, and how large: the one place where names become models.

Nothing is registered: one dictionary says where the class of each name is, and a class says the rest of itself
(`models/contract.py`), models of blocks also without torch (`models/blocks.py`). No class is loaded before it is asked
for, so that this module does without torch.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from inspect import isabstract
from typing import TYPE_CHECKING, Literal, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from blockhole.errors import ConfigError, nearest_or_all, quoted
from blockhole.models.blocks import BLOCK_MODELS, BlockGeometry, BlockModel

if TYPE_CHECKING:
    from blockhole.models.contract import Model

MODELS = {
    "blockhole": "blockhole.models.blockhole:BlockHolE",
    "blockhole-spatial": "blockhole.models.spatial:BlockHolESpatial",
    "rescal": "blockhole.models.rescal:RESCAL",
    "distmult": "blockhole.models.distmult:DistMult",
    "complex": "blockhole.models.complex:ComplEx",
    "hole": "blockhole.models.hole:HolE",
    "transe": "blockhole.models.transe:TransE",
    "analogy": "blockhole.models.analogy:ANALOGY",
    "simple": "blockhole.models.simple:SimplE",
}
"""The name on the command line and in config.json → module:Class."""

OWN_MODELS = "BLOCKHOLE_MODELS"
"""The environment variable that lists classes outside this package, as module:Class with commas between them."""

DEFAULT_BLOCKS = 2
DEFAULT_BLOCK_SIZE = 25
DEFAULT_DIM = 50


@final
class ModelSettings(BaseModel):
    """The `model` section of a configuration: a model's name and size.

    What does not fit together is a ConfigError, raised when it is made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        default="blockhole", description=f"one of {', '.join(MODELS)}, or a class of your own as module:Class"
    )
    blocks: int | None = Field(
        default=None, ge=1, description=f"b, blocks per side of a relation's matrix (BlockHolE; {DEFAULT_BLOCKS})"
    )
    block_size: int | None = Field(
        default=None, ge=1, description=f"m, the size of a block (BlockHolE; {DEFAULT_BLOCK_SIZE})"
    )
    dim: int | None = Field(
        default=None, ge=1, description=f"n, the dimension of an entity; b·m for BlockHolE ({DEFAULT_DIM})"
    )
    inverses: Literal["own", "tied"] = Field(
        default="own", description="r⁻¹ has parameters of its own, or those of r (conjugate transpose, negation, …)"
    )
    entity_scale: float = Field(
        default=0.1, gt=0, allow_inf_nan=False, description="standard deviation of an entity's initial numbers"
    )
    relation_scale: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="the same for relations; by default about 1/√b, so that a hop keeps a vector's norm",
    )
    merged_from: tuple[int, ...] = Field(
        default=(), description="dimensions of the models that stand side by side in a merged one; `merge` writes it"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.nature.sized_by_blocks:
            _ = self.block_shape  # raises what does not fit
        elif self.blocks is not None or self.block_size is not None:
            raise ConfigError(f"blocks and block size belong to blockhole, not to {self.name}; give its size with dim.")
        if self.merged_from and sum(self.merged_from) != self.dimension:
            parts = " + ".join(map(str, self.merged_from))
            raise ConfigError(f"merged_from does not fit the model: {parts} is not its dimension, {self.dimension}.")
        return self

    @property
    def kind(self) -> type[Model]:
        """The class of the model, which says what it can do."""
        return find_model(self.name)

    @property
    def nature(self) -> type[Model] | BlockModel:
        """What says what the model can do: its class, or for models of blocks what needs no torch."""
        return BLOCK_MODELS.get(self.name) or self.kind

    @property
    def block_geometry(self) -> BlockGeometry | None:
        """How rows of a model of blocks are read; None for all others."""
        model = BLOCK_MODELS.get(self.name)
        if model is None:
            return None
        return model.layout(self.dimension, self.block_shape[0] if model.sized_by_blocks else 1)

    @property
    def block_shape(self) -> tuple[int, int]:
        """(b, m) of a model with blocks; whichever is not given follows from n = b·m."""
        if self.dim is None:
            return self.blocks or DEFAULT_BLOCKS, self.block_size or DEFAULT_BLOCK_SIZE
        blocks = self.blocks or (self.dim // self.block_size if self.block_size else DEFAULT_BLOCKS)
        block_size = self.block_size or self.dim // blocks
        if blocks * block_size != self.dim:
            raise ConfigError(_misfit(self.dim, self.blocks, self.block_size))
        return blocks, block_size

    @property
    def dimension(self) -> int:
        """n: b·m for a model with blocks, else dim."""
        if self.nature.sized_by_blocks:
            blocks, block_size = self.block_shape
            return blocks * block_size
        return self.dim or DEFAULT_DIM


def build_model(settings: ModelSettings, num_entities: int, num_relations: int, seed: int) -> Model:
    """The model `settings` describe, with parameters drawn from `seed`, on the CPU."""
    by_blocks = settings.kind.sized_by_blocks
    blocks, block_size = settings.block_shape if by_blocks else (None, None)
    model = settings.kind(
        num_entities,
        num_relations,
        dim=None if by_blocks else settings.dimension,
        blocks=blocks,
        block_size=block_size,
        tied=settings.inverses == "tied",
        entity_scale=settings.entity_scale,
        relation_scale=settings.relation_scale,
        seed=seed,
    )
    model.merged_from = settings.merged_from
    return model


def find_model(name: str) -> type[Model]:
    """The class of a name, or of module:Class, whose module is imported already or listed in BLOCKHOLE_MODELS.

    A configuration alone makes nothing be imported: a run that someone else has made is opened without running code.
    """
    from blockhole.models.contract import Model

    if name not in MODELS and ":" not in name:
        raise ConfigError(f"unknown model {quoted(name)}; {nearest_or_all(name, known_models(), 'the models are')}")
    module, _, attribute = MODELS.get(name, name).partition(":")
    if name in known_models():
        try:
            import_module(module)
        except ImportError as failure:
            raise ConfigError(
                f"cannot load the model {name}: {failure}; put the folder of {module} on PYTHONPATH."
            ) from None
    if module not in sys.modules:
        raise ConfigError(f"the model {name} is not one of blockhole's; if you trust it, set {OWN_MODELS}={name}.")
    found = getattr(sys.modules[module], attribute, None)
    if not (isinstance(found, type) and issubclass(found, Model)) or isabstract(found):
        raise ConfigError(f"{module} has no model {attribute}; it must be a class that implements Model.")
    return found


def known_models() -> tuple[str, ...]:
    """Every name that `find_model` loads: those of this package, and those listed in BLOCKHOLE_MODELS."""
    own = (name.strip() for name in os.environ.get(OWN_MODELS, "").split(","))
    return (*MODELS, *(name for name in own if name))


def models_with_matrices() -> str:
    """The names of the models whose relations are matrices, for a message."""
    return ", ".join(sorted(name for name in MODELS if find_model(name).has_matrices))


def name_of(model: type) -> str:
    """The name of a class: the dictionary's where it has one, else module:Class."""
    place = f"{model.__module__}:{model.__qualname__}"
    return next((name for name, known in MODELS.items() if known == place), place)


def settings_of(model: Model, merged_from: tuple[int, ...] = ()) -> ModelSettings:
    """The kind and size of a model, or of one like it that others are merged into; not the scales it was drawn with."""
    inverses: Literal["own", "tied"] = "tied" if model.tied else "own"
    name, parts = name_of(type(model)), merged_from or model.merged_from
    total = sum(parts) or model.dim
    if model.sized_by_blocks:
        size = total // model.blocks
        return ModelSettings(name=name, blocks=model.blocks, block_size=size, inverses=inverses, merged_from=parts)
    return ModelSettings(name=name, dim=total, inverses=inverses, merged_from=parts)


def _misfit(dim: int, blocks: int | None, block_size: int | None) -> str:
    if blocks and block_size:
        product = f"{blocks} blocks of size {block_size} make {blocks * block_size}"
        return f"b·m does not fit dim: {product}, not {dim}; leave one of the three out."
    part = f"blocks of size {block_size}" if block_size else f"{blocks or DEFAULT_BLOCKS} blocks"
    return f"b·m does not fit dim: {dim} cannot be cut into {part}; choose a multiple."
