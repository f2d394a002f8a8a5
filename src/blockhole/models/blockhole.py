"""BlockHolE in the Fourier domain, the form the paper trains."""

from __future__ import annotations

from typing import ClassVar, final

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blocks import BLOCK_MODELS, BlockGeometry


@final
class BlockHolE(BlockBilinear):
    """BlockHolE, Fourier form (Section 5; Eq. block-hole and the path form after it).

    φ(s, r, o) = Σ_ij Re⟨w'_r^(ij), e'_s^(i), conj e'_o^(j)⟩, and for a path
    φ(s, r1/…/rk, o) = Re(e'_sᵀ W'_{r1} … W'_{rk} conj e'_o), where W'_r has the blocks diag(w'_r^(ij)).

    Shapes: entity [E, 2·b·m] read as [part, block, freq]; relation [2R, 2·b²·m] read as [part, block i, block
    j, freq]; [R, …] when tied, and then W'_{r⁻¹} is the conjugate transpose of W'_r. Parameters: 2n|E| +
    2bn|R| with n = b·m and |R| the relations with parameters of their own. b = 1 is ComplEx; relations do not
    commute for b ≥ 2.
    """

    sized_by_blocks: ClassVar[bool] = True

    @classmethod
    def layout(cls, dim: int, blocks: int) -> BlockGeometry:
        """b×b blocks of m complex numbers each."""
        return BLOCK_MODELS["blockhole"].layout(dim, blocks)
