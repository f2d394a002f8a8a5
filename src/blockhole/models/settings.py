"""Which model to build, and how large: the `model` section of a configuration."""

from __future__ import annotations

from typing import Literal, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from blockhole.errors import ConfigError, nearest_or_all

BLOCK_MODEL_NAMES = ("blockhole", "blockhole-spatial")
"""Models sized by blocks and block_size; all others have `dim` alone."""

MODEL_NAMES = (*BLOCK_MODEL_NAMES, "rescal", "distmult", "complex", "hole", "transe", "analogy", "simple")

DEFAULT_BLOCKS = 2
DEFAULT_BLOCK_SIZE = 25
DEFAULT_DIM = 50


@final
class ModelSettings(BaseModel):
    """A model's name and size; what does not fit together is a ConfigError, raised when it is made.

    Kept apart from the models so that reading a configuration does not load torch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="blockhole", description=f"one of {', '.join(MODEL_NAMES)}")
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

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.name not in MODEL_NAMES:
            raise ConfigError(_unknown_model(self.name))
        if self.name in BLOCK_MODEL_NAMES:
            _ = self.block_shape  # raises what does not fit
        elif self.blocks is not None or self.block_size is not None:
            raise ConfigError(f"blocks and block size belong to blockhole, not to {self.name}; give its size with dim.")
        return self

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
        if self.name in BLOCK_MODEL_NAMES:
            blocks, block_size = self.block_shape
            return blocks * block_size
        return self.dim or DEFAULT_DIM


def _unknown_model(name: str) -> str:
    return f"unknown model {name!r}; {nearest_or_all(name, MODEL_NAMES, 'known are')}"


def _misfit(dim: int, blocks: int | None, block_size: int | None) -> str:
    if blocks and block_size:
        product = f"{blocks} blocks of size {block_size} make {blocks * block_size}"
        return f"b·m does not fit dim: {product}, not {dim}; leave one of the three out."
    part = f"blocks of size {block_size}" if block_size else f"{blocks or DEFAULT_BLOCKS} blocks"
    return f"b·m does not fit dim: {dim} cannot be cut into {part}; choose a dim that divides."
