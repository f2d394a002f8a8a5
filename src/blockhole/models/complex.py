"""ComplEx: complex vectors, diagonal relations."""

from __future__ import annotations

from typing import final

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blocks import BLOCK_MODELS, BlockGeometry


@final
class ComplEx(BlockBilinear):
    """ComplEx (Trouillon et al., ICML 2016; Section 3.2.3, path form in Section 4.2).

    φ(s, r1/…/rk, o) = Re(e_sᵀ diag(w_{r1}) … diag(w_{rk}) ē_o) with e, w ∈ ℂⁿ: BlockHolE with b = 1. Diagonal
    matrices commute, so the order of the relations in a path is lost.

    Shapes: entity [E, 2n] and relation [2R, 2n] (tied: [R, 2n], w_{r⁻¹} = w̄_r), real parts then imaginary
    parts.
    """

    @classmethod
    def layout(cls, dim: int, blocks: int) -> BlockGeometry:
        """One block of n complex numbers."""
        return BLOCK_MODELS["complex"].layout(dim, blocks)
