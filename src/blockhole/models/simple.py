"""SimplE: every entity has one vector as subject and another as object."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from blockhole.models.contract import Model, Widths


@final
class SimplE(Model):
    """SimplE (Kazemi and Poole, NeurIPS 2018; Section 4.2), for single relations.

    φ(s, r, o) = ½ (⟨h_s, v_r, t_o⟩ + ⟨h_o, u_r, t_s⟩) with subject vectors h, object vectors t and, for the
    inverse direction, u_r. A relation takes subjects' vectors to objects', which no second relation starts
    from: a path of two or more relations has no score, and asking for one raises UndefinedPath.

    Shapes: entity [E, 2n] read as (h, t); relation [2R, 2n] read as (v, u) (tied: [R, 2n], the natural
    inverse of SimplE, (v, u) of r⁻¹ being (u, v) of r). The query vector is ½ (t_s ⊙ u_r, h_s ⊙ v_r).
    """

    why_no_paths: ClassVar[str | None] = (
        "it keeps subjects and objects in different vector spaces, so the product of two relations is not defined"
    )

    @classmethod
    def layout(cls, dim: int, blocks: int) -> Widths:
        """Two vectors of n real numbers each."""
        return Widths(2 * dim, 2 * dim, relation_scale=1.0)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """(h_s, t_s) → ½ (t_s ⊙ u_r, h_s ⊙ v_r): [batch, 2n] → [batch, 2n]; the one hop there is."""
        subject, object_ = vector.chunk(2, dim=1)
        forward, backward = self.relation_rows(relation).chunk(2, dim=1)
        if self.tied:
            inverse = self.is_inverse(relation)
            forward, backward = (
                torch.where(inverse, backward, forward),
                torch.where(inverse, forward, backward),
            )
        return torch.cat((object_ * backward, subject * forward), dim=1) / 2
