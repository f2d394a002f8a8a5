"""SimplE: every entity has one vector as subject and another as object."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from blockhole.errors import UndefinedPath
from blockhole.models.contract import Model


@final
class SimplE(Model):
    """SimplE (Kazemi and Poole, NeurIPS 2018; Section 4.2), for single relations.

    φ(s, r, o) = ½ (⟨h_s, v_r, t_o⟩ + ⟨h_o, u_r, t_s⟩) with subject vectors h, object vectors t and, for the
    inverse direction, u_r. A relation takes subjects' vectors to objects', which no second relation starts
    from: a path of two or more relations has no score, and asking for one raises UndefinedPath.

    Shapes: entity [E, 2n] read as (h, t); relation [2R, 2n] read as (v, u) (tied: [R, 2n], the natural
    inverse of SimplE, (v, u) of r⁻¹ being (u, v) of r). The query vector is ½ (t_s ⊙ u_r, h_s ⊙ v_r).
    """

    name: ClassVar[str] = "simple"
    why_no_paths: ClassVar[str | None] = (
        "it keeps subjects and objects in different vector spaces, so the product of two relations is not defined"
    )

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
            entity_width=2 * dim,
            relation_width=2 * dim,
            tied=tied,
            entity_scale=entity_scale,
            relation_scale=1.0 if relation_scale is None else relation_scale,
            seed=seed,
        )

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

    def embed_paths(self, source: Tensor, path: Tensor) -> Tensor:
        """The vectors of single-relation queries: source [batch], path [batch, 1] → [batch, 2n]."""
        _single(path.shape[1])
        return super().embed_paths(source, path)

    def walk(self, vector: Tensor, path: Tensor, length: Tensor) -> Tensor:
        """One hop for every row: [batch, 2n] → [batch, 2n]."""
        _single(int(length.max()) if len(length) else 0)
        return super().walk(vector, path, length)


def _single(hops: int) -> None:
    if hops > 1:
        raise UndefinedPath(
            f"SimplE scores single relations, not a path of {hops}: {SimplE.why_no_paths}; use blockhole for paths."
        )
