"""HolE: real vectors compared by circular correlation."""

from __future__ import annotations

from math import sqrt
from typing import final

import torch
from torch import Tensor

from blockhole.models.circulant import circular_convolution, reverse
from blockhole.models.contract import Model, Widths


@final
class HolE(Model):
    """HolE (Nickel et al., AAAI 2016; Eq. hole).

    φ(s, r, o) = w_rᵀ (e_s ⋆ e_o) = (w_r * e_s)ᵀ e_o with e, w ∈ ℝⁿ: the bilinear form of circ(w_r)ᵀ. A path
    is therefore a convolution, φ(s, r1/…/rk, o) = (w_{rk} * … * w_{r1} * e_s)ᵀ e_o, and circulant matrices
    commute: the order of the relations is lost. BlockHolE with b = 1 has e_o ⋆ e_s instead, so its w is this
    one reversed.

    Shapes: entity [E, n]; relation [2R, n] (tied: [R, n], and w_{r⁻¹} is w_r reversed, which transposes
    circ(w_r)). `relation_scale` defaults to 1/√n, which keeps the expected norm of a vector.
    """

    @classmethod
    def layout(cls, dim: int, blocks: int) -> Widths:
        """n real numbers each."""
        return Widths(dim, dim, relation_scale=1 / sqrt(dim))

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """w_r * q by FFT (Eq. cconv-fourier), O(n log n)."""
        weights = self.relation_rows(relation)
        if self.tied:
            weights = torch.where(self.is_inverse(relation), reverse(weights), weights)
        return circular_convolution(weights, vector)
