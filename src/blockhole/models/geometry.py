"""The shape shared by the bilinear models: b×b blocks, one per frequency, real or complex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final


@final
@dataclass(frozen=True, slots=True)
class BlockGeometry:
    """How a stored row is read: an entity as [part, block, freq], a relation as [part, block, block, freq].

    `parts` is 2 for complex numbers (all real parts, then all imaginary parts) and 1 for real ones. With (b,
    m, parts): BlockHolE is (b, m, 2), ComplEx (1, n, 2), DistMult (1, n, 1) and RESCAL (n, 1, 1), so that one
    kernel serves them all: q'[j, f] = Σ_i q[i, f] · W[i, j, f].
    """

    blocks: int
    freqs: int
    parts: Literal[1, 2]

    def __post_init__(self) -> None:
        if self.blocks < 1 or self.freqs < 1:
            raise ValueError(f"b and m must be at least 1, not b={self.blocks}, m={self.freqs}")

    @property
    def dimension(self) -> int:
        """n = b·m, the dimension of the (real or complex) space of entities."""
        return self.blocks * self.freqs

    @property
    def entity_width(self) -> int:
        """Real numbers per entity: parts·b·m."""
        return self.parts * self.dimension

    @property
    def relation_width(self) -> int:
        """Real numbers per relation: parts·b²·m."""
        return self.parts * self.blocks * self.dimension

    @property
    def entity_shape(self) -> tuple[int, int, int]:
        """[part, block, freq]."""
        return self.parts, self.blocks, self.freqs

    @property
    def relation_shape(self) -> tuple[int, int, int, int]:
        """[part, block i, block j, freq]."""
        return self.parts, self.blocks, self.blocks, self.freqs
