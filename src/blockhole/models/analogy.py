"""ANALOGY: block-diagonal normal matrices, scalars and 2×2 rotations with scaling."""

from __future__ import annotations

from math import sqrt
from typing import ClassVar, final

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

    has_matrices: ClassVar[bool] = True

    @classmethod
    def layout(cls, dim: int, blocks: int) -> Widths:
        """n real numbers each."""
        return Widths(dim, dim, relation_scale=1.0)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q B_r: scalars multiply, pairs multiply as complex numbers."""
        return self._moved(vector, *self._weights(relation))

    def hop_back(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q B_rᵀ: pairs multiply by conjugates."""
        weight, weight_re, weight_im = self._weights(relation)
        return self._moved(vector, weight, weight_re, -weight_im)

    def _moved(self, vector: Tensor, weight: Tensor, weight_re: Tensor, weight_im: Tensor) -> Tensor:
        scalar, re, im = self._split(vector)
        rotated_re = re * weight_re - im * weight_im
        rotated_im = re * weight_im + im * weight_re
        return torch.cat((scalar * weight, rotated_re, rotated_im), dim=1)

    def coordinates(self, vector: Tensor) -> Tensor:
        """The scalars, and (x ± iy)/√2 of each pair, in which B_r is diagonal: one block of n complex numbers."""
        scalar, re, im = self._split(vector)
        return _conjugates(scalar, re / sqrt(2), im / sqrt(2))[:, :, None]

    def operator(self, relation: Tensor) -> Tensor:
        """The eigenvalues of B_r: the scalars, and x ± iy of each pair."""
        return _conjugates(*self._weights(relation))[:, :, None, None]

    def _weights(self, relation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scalars, x and y of each id, tied inverses included."""
        scalar, re, im = self._split(self.relation_rows(relation))
        return scalar, re, torch.where(self.is_inverse(relation), -im, im) if self.tied else im

    def _split(self, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scalars, real parts and imaginary parts: [batch, n] → three of [batch, …]."""
        pairs = self.dim // 4
        scalar, re, im = row.split_with_sizes((self.dim - 2 * pairs, pairs, pairs), dim=1)
        return scalar, re, im


def _conjugates(scalar: Tensor, re: Tensor, im: Tensor) -> Tensor:
    """Scalars, pairs and their conjugates as complex numbers: → [batch, part, n]."""
    parts = torch.cat((scalar, re, re), dim=1), torch.cat((torch.zeros_like(scalar), im, -im), dim=1)
    return torch.stack(parts, dim=1)
