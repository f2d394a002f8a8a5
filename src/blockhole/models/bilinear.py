"""The bilinear models whose relations are b×b blocks of diagonal matrices: one hop for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from blockhole.compiled import numba_installed, triton_installed
from blockhole.models.blocks import BlockGeometry
from blockhole.models.circulant import adjoint, fourier_hop
from blockhole.models.contract import Model


class BlockBilinear(Model, ABC):
    """φ(s, r1/…/rk, o) = Re(e_sᵀ W_{r1} … W_{rk} ē_o) with W_r made of b×b diagonal blocks of size m.

    `geometry` says how rows are read: entity [E, part·b·m] as [part, block, freq], relation [2R or R,
    part·b²·m] as [part, block i, block j, freq]. A tied inverse is the conjugate transpose.
    """

    has_matrices: ClassVar[bool] = True
    geometry: BlockGeometry

    @classmethod
    @abstractmethod
    def layout(cls, dim: int, blocks: int) -> BlockGeometry:
        """The blocks of a model of dimension n, sized by b blocks where it is so sized."""

    def entity_blocks(self) -> Tensor:
        """The entities: [E, part, block, freq]."""
        return self.coordinates(self.entity)

    def relation_blocks(self) -> Tensor:
        """The relations that have parameters: [2R or R, part, block i, block j, freq]."""
        return self.relation.view(len(self.relation), *self.geometry.relation_shape)

    def coordinates(self, vector: Tensor) -> Tensor:
        """The blocks that are stored: [batch, width] → [batch, part, block, freq]."""
        return vector.reshape(len(vector), *self.geometry.entity_shape)

    def operator(self, relation: Tensor) -> Tensor:
        """W_r of each id, tied inverses included: [batch] → [batch, part, block i, block j, freq]."""
        matrix = self.relation_rows(relation).view(len(relation), *self.geometry.relation_shape)
        if not self.tied:
            return matrix
        return torch.where(self.is_inverse(relation)[:, :, None, None, None], adjoint(matrix), matrix)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q'[j, f] = Σ_i q[i, f] · W_r[i, j, f] for each row of the batch, O(b·n).

        One sum, once for each machine: a kernel on a GPU and loops on a CPU that learns, since torch copies a matrix
        for each row of the batch; and torch, for tied inverses, other types of numbers, and where neither is installed.
        """
        if self._fuses(vector):
            from blockhole.models.hop_triton import fused_hop

            return fused_hop(vector, self.relation, relation, self.geometry)
        if self._compiles(vector):
            from blockhole.models.hop_compiled import compiled_hop

            return compiled_hop(vector, self.relation, relation, self.geometry)
        return fourier_hop(self.coordinates(vector), self.operator(relation)).flatten(1)

    def hop_back(self, vector: Tensor, relation: Tensor) -> Tensor:
        """W_r ē, conjugated: the hop with the conjugate transpose of W_r."""
        if self._fuses(vector):
            from blockhole.models.hop_triton import fused_hop

            adjoints = adjoint(self.relation_blocks()).flatten(1)
            return fused_hop(vector, adjoints.contiguous(), relation, self.geometry)
        return fourier_hop(self.coordinates(vector), adjoint(self.operator(relation))).flatten(1)

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
