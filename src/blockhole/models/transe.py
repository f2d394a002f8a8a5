"""TransE: relations are translations."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from blockhole.models.contract import Model, Widths


@final
class TransE(Model):
    """TransE (Bordes et al., NIPS 2013; Eqs. transe and transe-path).

    φ(s, r1/…/rk, o) = -‖e_s + w_{r1} + … + w_{rk} - e_o‖² with e, w ∈ ℝⁿ. Sums commute: the order of the
    relations is lost. With q the walked vector, the score is the inner product (2q, -‖q‖², 1)ᵀ (e_o, 1,
    -‖e_o‖²).

    Shapes: entity [E, n]; relation [2R, n] (tied: [R, n], w_{r⁻¹} = -w_r); query and candidate vectors
    [batch, n + 2]. `relation_scale` defaults to the scale of entities, which are of the same kind.
    """

    distance: ClassVar[bool] = True

    @classmethod
    def layout(cls, dim: int, blocks: int) -> Widths:
        """n real numbers each; relations are of the entities' kind and scale."""
        return Widths(dim, dim)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q + w_r."""
        translation = self.relation_rows(relation)
        if self.tied:
            translation = torch.where(self.is_inverse(relation), -translation, translation)
        return vector + translation

    def finish_query(self, vector: Tensor) -> Tensor:
        """(2q, -‖q‖², 1): [batch, n] → [batch, n + 2]."""
        norm = vector.square().sum(dim=1, keepdim=True)
        return torch.cat((2 * vector, -norm, torch.ones_like(norm)), dim=1)

    def finish_candidate(self, vector: Tensor) -> Tensor:
        """(e, 1, -‖e‖²): [count, n] → [count, n + 2]."""
        norm = vector.square().sum(dim=1, keepdim=True)
        return torch.cat((vector, torch.ones_like(norm), -norm), dim=1)
