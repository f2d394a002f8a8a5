"""DistMult: real vectors, diagonal relations."""

from __future__ import annotations

from typing import final

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blocks import BLOCK_MODELS, BlockGeometry


@final
class DistMult(BlockBilinear):
    """DistMult (Yang et al., ICLR 2015; Eq. distmult, path form in Section 4.2).

    φ(s, r1/…/rk, o) = e_sᵀ diag(w_{r1}) … diag(w_{rk}) e_o with e, w ∈ ℝⁿ: BlockHolE with b = 1 and no
    imaginary parts. Every relation is symmetric and the order of the relations in a path is lost.

    Shapes: entity [E, n]; relation [2R, n] (tied: [R, n], and then r⁻¹ is r itself).
    """

    @classmethod
    def layout(cls, dim: int, blocks: int) -> BlockGeometry:
        """One block of n real numbers."""
        return BLOCK_MODELS["distmult"].layout(dim, blocks)
