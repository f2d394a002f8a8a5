"""RESCAL: real vectors, full matrices."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blocks import BLOCK_MODELS, BlockGeometry


@final
class RESCAL(BlockBilinear):
    """RESCAL (Nickel et al., ICML 2011; Eqs. rescal and rescal-path).

    φ(s, r1/…/rk, o) = e_sᵀ R_{r1} … R_{rk} e_o with e ∈ ℝⁿ, R ∈ ℝⁿˣⁿ: BlockHolE with m = 1 and no imaginary
    parts. Relations do not commute; n² parameters each.

    Shapes: entity [E, n]; relation [2R, n²] read as [n, n] (tied: [R, n²], R_{r⁻¹} = R_rᵀ).
    """

    @classmethod
    def layout(cls, dim: int, blocks: int) -> BlockGeometry:
        """n×n blocks of one real number each."""
        return BLOCK_MODELS["rescal"].layout(dim, blocks)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q R_r; without kernels or loops of ours as a batched matrix product, faster here than a sum over blocks."""
        if self._fuses(vector) or self._compiles(vector):
            return super().hop(vector, relation)
        matrix = self.operator(relation)[:, 0, :, :, 0]
        return torch.bmm(vector[:, None, :], matrix)[:, 0, :]
