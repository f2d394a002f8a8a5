"""BlockHolE in its spatial form, applied by FFT, and the way between spatial and Fourier parameters."""

from __future__ import annotations

from math import sqrt
from typing import ClassVar, Literal, final

import torch
from torch import Tensor

from blockhole.models.circulant import reverse
from blockhole.models.contract import Model

# Between the spatial parameters of Eq. block-hole1 and the Fourier parameters of Eq. block-hole, both ways.
#
# The paper sets e' = conj(F e) and w' = F w / m, which gives equal scores for single relations; along a path of
# k relations its w' bring the factor 1/m k times where one is due. Only one choice of factors is right for
# every length: e' = conj(F e)/√m and w' = F w. It is the default, "paths"; the paper's own is "paper".


Scaling = Literal["paths", "paper"]


def entity_to_fourier(entity: Tensor, scaling: Scaling = "paths") -> Tensor:
    """e' = conj(F e), over √m for paths: real […, block, position] → stored […, part, block, freq]."""
    spectrum = torch.fft.fft(entity).conj()
    return _store(spectrum * _entity_factor(entity.shape[-1], scaling), part_axis=-3)


def relation_to_fourier(relation: Tensor, scaling: Scaling = "paths") -> Tensor:
    """w' = F w, over m as in the paper: real […, i, j, position] → stored […, part, i, j, freq]."""
    spectrum = torch.fft.fft(relation)
    return _store(spectrum * _relation_factor(relation.shape[-1], scaling), part_axis=-4)


def entity_to_spatial(entity: Tensor, scaling: Scaling = "paths") -> Tensor:
    """The inverse of entity_to_fourier; ValueError if no real vector has these Fourier parameters."""
    spectrum = _load(entity, part_axis=-3).conj()
    return _real(torch.fft.ifft(spectrum / _entity_factor(entity.shape[-1], scaling)))


def relation_to_spatial(relation: Tensor, scaling: Scaling = "paths") -> Tensor:
    """The inverse of relation_to_fourier; ValueError if no real vector has these Fourier parameters."""
    spectrum = _load(relation, part_axis=-4)
    return _real(torch.fft.ifft(spectrum / _relation_factor(relation.shape[-1], scaling)))


def widen_entity(entity: Tensor) -> Tensor:
    """A real vector of size M = 2m + 1 that scores as e' does: stored […, part, block, m] → […, block, M].

    Any m complex numbers are half of a conjugate-symmetric spectrum of size M whose zeroth entry is 0; both
    halves contribute the same score, hence 1/√2. With "paths" scaling on both sides, every path keeps its
    score.
    """
    size = 2 * entity.shape[-1] + 1
    return _mirror(_load(entity, part_axis=-3).conj()) * sqrt(size / 2)


def widen_relation(relation: Tensor) -> Tensor:
    """The w of size M = 2m + 1 beside `widen_entity`: stored […, part, i, j, m] → […, i, j, M]."""
    return _mirror(_load(relation, part_axis=-4))


def _entity_factor(size: int, scaling: Scaling) -> float:
    return 1 / sqrt(size) if scaling == "paths" else 1.0


def _relation_factor(size: int, scaling: Scaling) -> float:
    return 1.0 if scaling == "paths" else 1 / size


def _store(numbers: Tensor, part_axis: int) -> Tensor:
    return torch.stack((numbers.real, numbers.imag), dim=part_axis)


def _load(stored: Tensor, part_axis: int) -> Tensor:
    return torch.complex(*stored.unbind(dim=part_axis))


def _mirror(half: Tensor) -> Tensor:
    spectrum = torch.cat((torch.zeros_like(half[..., :1]), half), dim=-1)
    widened: Tensor = torch.fft.irfft(spectrum, n=2 * half.shape[-1] + 1)
    return widened


def _real(numbers: Tensor) -> Tensor:
    tolerance = 64 * torch.finfo(numbers.dtype).eps
    if numbers.numel() and numbers.imag.abs().max() > tolerance * numbers.abs().max():
        raise ValueError(
            "these Fourier parameters are not conjugate-symmetric, so they come from no real vectors of the same "
            "size (the Fourier form has twice as many degrees of freedom); widen them to size 2m + 1 instead"
        )
    return numbers.real.contiguous()


# BlockHolE in its spatial form: real block circulant matrices, applied by FFT.


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

    name: ClassVar[str] = "blockhole-spatial"

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        blocks: int,
        block_size: int,
        tied: bool = False,
        entity_scale: float = 0.1,
        relation_scale: float | None = None,
        seed: int = 0,
    ) -> None:
        if blocks < 1 or block_size < 1:
            raise ValueError(f"b and m must be at least 1, not b={blocks}, m={block_size}")
        dimension = blocks * block_size
        super().__init__(
            num_entities,
            num_relations,
            entity_width=dimension,
            relation_width=blocks * dimension,
            tied=tied,
            entity_scale=entity_scale,
            relation_scale=1 / sqrt(dimension) if relation_scale is None else relation_scale,
            seed=seed,
        )
        self.blocks = blocks
        self.block_size = block_size

    def operator(self, relation: Tensor) -> Tensor:
        """The w_r^(ij) of each id, tied inverses included: [batch] → [batch, block i, block j, position]."""
        shape = (len(relation), self.blocks, self.blocks, self.block_size)
        weights = self.relation_rows(relation).view(shape)
        if not self.tied:
            return weights
        transposed = reverse(weights.transpose(1, 2))
        return torch.where(self.is_inverse(relation)[:, :, None, None], transposed, weights)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """q R_r: q'^(j) = Σ_i w_r^(ij) ⋆ q^(i), summed in the Fourier domain (Eq. ccorr-fourier)."""
        blocks = vector.reshape(len(vector), self.blocks, 1, self.block_size)
        spectrum = torch.fft.rfft(self.operator(relation)).conj() * torch.fft.rfft(blocks)
        moved: Tensor = torch.fft.irfft(spectrum.sum(dim=1), n=self.block_size)
        return moved.flatten(1)
