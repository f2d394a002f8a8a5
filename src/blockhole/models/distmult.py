"""DistMult: real vectors, diagonal relations."""

from __future__ import annotations

from typing import ClassVar, final

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.geometry import BlockGeometry


@final
class DistMult(BlockBilinear):
    """DistMult (Yang et al., ICLR 2015; Eq. distmult, path form in Section 4.2).

    φ(s, r1/…/rk, o) = e_sᵀ diag(w_{r1}) … diag(w_{rk}) e_o with e, w ∈ ℝⁿ: BlockHolE with b = 1 and no
    imaginary parts. Every relation is symmetric and the order of the relations in a path is lost.

    Shapes: entity [E, n]; relation [2R, n] (tied: [R, n], and then r⁻¹ is r itself).
    """

    name: ClassVar[str] = "distmult"

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
            BlockGeometry(blocks=1, freqs=dim, parts=1),
            tied=tied,
            entity_scale=entity_scale,
            relation_scale=relation_scale,
            seed=seed,
        )
