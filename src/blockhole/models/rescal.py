"""RESCAL: real vectors, full matrices."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.geometry import BlockGeometry


@final
class RESCAL(BlockBilinear):
    """RESCAL (Nickel et al., ICML 2011; Eqs. rescal and rescal-path).

    φ(s, r1/…/rk, o) = e_sᵀ R_{r1} … R_{rk} e_o with e ∈ ℝⁿ, R ∈ ℝⁿˣⁿ: BlockHolE with m = 1 and no imaginary
    parts. Relations do not commute; n² parameters each.

    Shapes: entity [E, n]; relation [2R, n²] read as [n, n] (tied: [R, n²], R_{r⁻¹} = R_rᵀ).
    """

    name: ClassVar[str] = "rescal"

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int,
        tied: bool = False,
        entity_scale: float = 0.1,
        relation_scale: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_entities,
            num_relations,
            BlockGeometry(blocks=dim, freqs=1, parts=1),
            tied=tied,
            entity_scale=entity_scale,
            relation_scale=relation_scale,
            seed=seed,
        )

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q R_r; without kernels or loops of ours as a batched matrix product, faster here than a sum over blocks."""
        if self._fuses(vector) or self._compiles(vector):
            return super().hop(vector, relation)
        matrix = self.operator(relation)[:, 0, :, :, 0]
        return torch.bmm(vector[:, None, :], matrix)[:, 0, :]
