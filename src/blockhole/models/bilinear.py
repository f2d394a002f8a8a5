"""The bilinear models whose relations are b×b blocks of diagonal matrices: one hop for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import sqrt

import torch
from torch import Tensor

from blockhole.compiled import numba_installed, triton_installed
from blockhole.models.circulant import adjoint, fourier_hop
from blockhole.models.contract import Model, rows
from blockhole.models.geometry import BlockGeometry


class BlockBilinear(Model, ABC):
    """φ(s, r1/…/rk, o) = Re(e_sᵀ W_{r1} … W_{rk} ē_o) with W_r made of b×b diagonal blocks of size m.

    `geometry` says how rows are read: entity [E, part·b·m] as [part, block, freq], relation [2R or R,
    part·b²·m] as [part, block i, block j, freq]. A tied inverse is the conjugate transpose. `relation_scale`
    defaults to 1/√(parts·b): a relation's entries then have modulus about 1/√b, and a hop keeps the expected
    norm of a vector.
    """

    @abstractmethod
    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        geometry: BlockGeometry,
        *,
        tied: bool,
        entity_scale: float,
        relation_scale: float | None,
        seed: int,
    ) -> None:
        neutral = 1 / sqrt(geometry.parts * geometry.blocks)
        super().__init__(
            num_entities,
            num_relations,
            entity_width=geometry.entity_width,
            relation_width=geometry.relation_width,
            tied=tied,
            entity_scale=entity_scale,
            relation_scale=neutral if relation_scale is None else relation_scale,
            seed=seed,
        )
        self.geometry = geometry

    def operator(self, relation: Tensor) -> Tensor:
        """W_r of each id, tied inverses included: [batch] → [batch, part, block i, block j, freq]."""
        matrix = self.relation_rows(relation).view(len(relation), *self.geometry.relation_shape)
        if not self.tied:
            return matrix
        return torch.where(self.is_inverse(relation)[:, :, None, None, None], adjoint(matrix), matrix)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q'[j, f] = Σ_i q[i, f] · W_r[i, j, f] for each row of the batch, O(b·n)."""
        if self._fuses(vector):
            from blockhole.models.hop_triton import fused_hop

            return fused_hop(vector, self.relation, relation, self.geometry)
        if self._compiles(vector):
            from blockhole.models.hop_compiled import compiled_hop

            return compiled_hop(vector, self.relation, relation, self.geometry)
        blocks = vector.reshape(len(vector), *self.geometry.entity_shape)
        return fourier_hop(blocks, self.operator(relation)).flatten(1)

    def retrace(self, target: Tensor, path: Tensor) -> Tensor:
        """The vector W_{r1} … W_{rk} ē_o, conjugated, whose inner product with e_s is the score of (s, r1/…/rk, o).

        Shapes: target [batch], path [batch, hop] → [batch, width].
        """
        vector = rows(self.entity, target)
        for step in reversed(range(path.shape[1])):
            vector = self._hop_back(vector, path[:, step])
        return vector

    def _hop_back(self, vector: Tensor, relation: Tensor) -> Tensor:
        """The hop with the conjugate transpose of W_r."""
        if self._fuses(vector):
            from blockhole.models.hop_triton import fused_hop

            adjoints = adjoint(self.relation.view(len(self.relation), *self.geometry.relation_shape)).flatten(1)
            return fused_hop(vector, adjoints.contiguous(), relation, self.geometry)
        blocks = vector.reshape(len(vector), *self.geometry.entity_shape)
        return fourier_hop(blocks, adjoint(self.operator(relation))).flatten(1)

    def _compiles(self, vector: Tensor) -> bool:
        """Whether the loops of `models/hop_compiled.py` are to take the hop: where there is something to learn, since
        what is merely asked should not wait for a compiler.
        """
        learning = torch.is_grad_enabled() and (vector.requires_grad or self.relation.requires_grad)
        here = vector.device.type == "cpu" and vector.dtype == torch.float32 and not self.tied
        return learning and here and numba_installed()

    def _fuses(self, vector: Tensor) -> bool:
        """Whether the kernels of `models/hop_triton.py` can take the hop."""
        if not (vector.is_cuda and vector.dtype == torch.float32 and triton_installed()) or self.tied:
            return False
        from blockhole.models.hop_triton import MOST_RELATIONS

        return len(self.relation) <= MOST_RELATIONS
