"""ANALOGY: block-diagonal normal matrices, scalars and 2×2 rotations with scaling."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from blockhole.models.contract import Model, Widths


@final
class ANALOGY(Model):
    """ANALOGY (Liu et al., ICML 2017; Section 4.2 and its footnote).

    φ(s, r1/…/rk, o) = e_sᵀ B_{r1} … B_{rk} e_o with e ∈ ℝⁿ and B_r block-diagonal: real scalars for half of
    the dimensions and blocks [[x, y], [-y, x]] for the other half. Such a block multiplies by the complex
    number x + iy, so the matrices commute and the order of the relations in a path is lost.

    Shapes: entity [E, n] and relation [2R, n], read as n - 2·⌊n/4⌋ scalars, then ⌊n/4⌋ real parts, then as
    many imaginary parts (tied: [R, n], B_{r⁻¹} = B_rᵀ: imaginary parts negated).
    """

    @classmethod
    def layout(cls, dim: int, blocks: int) -> Widths:
        """n real numbers each."""
        return Widths(dim, dim, relation_scale=1.0)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q B_r: scalars multiply, pairs multiply as complex numbers."""
        rotations = self.dim // 4
        widths = (self.dim - 2 * rotations, rotations, rotations)
        scalar, re, im = vector.split_with_sizes(widths, dim=1)
        weight, weight_re, weight_im = self.relation_rows(relation).split_with_sizes(widths, dim=1)
        if self.tied:
            weight_im = torch.where(self.is_inverse(relation), -weight_im, weight_im)
        rotated_re = re * weight_re - im * weight_im
        rotated_im = re * weight_im + im * weight_re
        return torch.cat((scalar * weight, rotated_re, rotated_im), dim=1)
