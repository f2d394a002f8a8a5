"""BlockHolE in its spatial form: real block circulant matrices, applied by FFT."""

from __future__ import annotations

from math import sqrt
from typing import ClassVar, final

import torch
from torch import Tensor

from blockhole.models.circulant import entity_to_fourier, relation_to_fourier, reverse
from blockhole.models.contract import Model, Widths


@final
class BlockHolESpatial(Model):
    """BlockHolE, spatial form (Section 5.1; Eqs. block-hole0 and block-hole1).

    φ(s, r, o) = e_sᵀ R_r e_o = Σ_ij w_r^(ij)ᵀ (e_o^(j) ⋆ e_s^(i)), where R_r has the blocks circ(w_r^(ij));
    for a path, e_sᵀ R_{r1} … R_{rk} e_o. It learns half as many numbers as the Fourier form and costs an FFT
    per hop.

    Shapes: entity [E, b·m] read as [block, position]; relation [2R, b²·m] read as [block i, block j,
    position]; [R, …] when tied, and then R_{r⁻¹} = R_rᵀ. Parameters: bm|E| + b²m|R|. `relation_scale`
    defaults to 1/√(b·m), which keeps the expected norm of a vector.
    """

    sized_by_blocks: ClassVar[bool] = True
    has_matrices: ClassVar[bool] = True

    @classmethod
    def layout(cls, dim: int, blocks: int) -> Widths:
        """b blocks of m real numbers, and b×b of them."""
        return Widths(dim, blocks * dim, relation_scale=1 / sqrt(dim))

    def weights(self, relation: Tensor) -> Tensor:
        """The w_r^(ij) of each id, tied inverses included: [batch] → [batch, block i, block j, position]."""
        shape = (len(relation), self.blocks, self.blocks, self.block_size)
        weights = self.relation_rows(relation).view(shape)
        if not self.tied:
            return weights
        transposed = reverse(weights.transpose(1, 2))
        return torch.where(self.is_inverse(relation)[:, :, None, None], transposed, weights)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q R_r: q'^(j) = Σ_i w_r^(ij) ⋆ q^(i), summed in the Fourier domain (Eq. ccorr-fourier)."""
        return self._moved(vector, torch.fft.rfft(self.weights(relation)).conj())

    def hop_back(self, vector: Tensor, relation: Tensor) -> Tensor:
        """R_r q: q'^(i) = Σ_j w_r^(ij) * q^(j), summed in the Fourier domain (Eq. cconv-fourier)."""
        return self._moved(vector, torch.fft.rfft(self.weights(relation)).transpose(1, 2))

    def _moved(self, vector: Tensor, matrix: Tensor) -> Tensor:
        """q'[j, f] = Σ_i q[i, f] · M[i, j, f] of spectra: [batch, width], [batch, i, j, freq] → [batch, width]."""
        blocks = vector.reshape(len(vector), self.blocks, 1, self.block_size)
        spectrum = matrix * torch.fft.rfft(blocks)
        moved: Tensor = torch.fft.irfft(spectrum.sum(dim=1), n=self.block_size)
        return moved.flatten(1)

    def coordinates(self, vector: Tensor) -> Tensor:
        """Those of the Fourier form."""
        return entity_to_fourier(vector.reshape(len(vector), self.blocks, self.block_size))

    def operator(self, relation: Tensor) -> Tensor:
        """R_r in the Fourier form."""
        return relation_to_fourier(self.weights(relation))
