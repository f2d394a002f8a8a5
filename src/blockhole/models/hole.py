"""HolE: real vectors compared by circular correlation."""

from __future__ import annotations

from math import sqrt
from typing import ClassVar, final

import torch
from torch import Tensor

from blockhole.models.circulant import (
    circular_convolution,
    circular_correlation,
    entity_to_fourier,
    relation_to_fourier,
    reverse,
)
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

    has_matrices: ClassVar[bool] = True

    @classmethod
    def layout(cls, dim: int, blocks: int) -> Widths:
        """n real numbers each."""
        return Widths(dim, dim, relation_scale=1 / sqrt(dim))

    def weights(self, relation: Tensor) -> Tensor:
        """The w_r of each id, tied inverses included: [batch] → [batch, position]."""
        weights = self.relation_rows(relation)
        return torch.where(self.is_inverse(relation), reverse(weights), weights) if self.tied else weights

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """w_r * q by FFT (Eq. cconv-fourier), O(n log n)."""
        return circular_convolution(self.weights(relation), vector)

    def hop_back(self, vector: Tensor, relation: Tensor) -> Tensor:
        """w_r ⋆ q by FFT (Eq. ccorr-fourier), O(n log n)."""
        return circular_correlation(self.weights(relation), vector)

    def coordinates(self, vector: Tensor) -> Tensor:
        """Fourier coordinates, in which circ(w_r)ᵀ is diagonal: one block of n complex numbers."""
        return entity_to_fourier(vector[:, None])

    def operator(self, relation: Tensor) -> Tensor:
        """circ(w_r)ᵀ in these coordinates; BlockHolE's is circ(w), hence the reversal."""
        return relation_to_fourier(reverse(self.weights(relation))[:, None, None])
