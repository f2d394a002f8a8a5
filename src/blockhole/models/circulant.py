"""The algebra of block circulant matrices: definitions, Fourier transforms, one hop in the Fourier domain.

Complex arrays that models store are real tensors with an axis `part` (real parts, then imaginary parts).
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

import torch
from torch import Tensor

Scaling = Literal["paths", "paper"]


def circ(vector: Tensor) -> Tensor:
    """The circulant matrix of a vector, dense: [circ(v)]_jk = v_{j-k mod m}; […, m] → […, m, m]."""
    position = torch.arange(vector.shape[-1], device=vector.device)
    return vector[..., (position[:, None] - position[None, :]) % len(position)]


def circular_convolution(x: Tensor, y: Tensor) -> Tensor:
    """x * y = F⁻¹(Fx ⊙ Fy) = circ(x) y (Eq. cconv-fourier); real […, m], O(m log m)."""
    product: Tensor = torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(y), n=x.shape[-1])
    return product


def circular_correlation(x: Tensor, y: Tensor) -> Tensor:
    """x ⋆ y = F⁻¹(conj(Fx) ⊙ Fy) = circ(x)ᵀ y (Eq. ccorr-fourier); real […, m], O(m log m)."""
    product: Tensor = torch.fft.irfft(torch.fft.rfft(x).conj() * torch.fft.rfft(y), n=x.shape[-1])
    return product


def reverse(vector: Tensor) -> Tensor:
    """v_{-k mod m}, the vector whose circulant matrix is circ(v)ᵀ; […, m] → […, m]."""
    return vector.flip(-1).roll(1, -1)


def block_circulant(blocks: Tensor) -> Tensor:
    """The matrix of Eq. block-circulant-matrix, dense, from its w^(ij): […, b, b, m] → […, b·m, b·m]."""
    b, m = blocks.shape[-2:]
    return circ(blocks).transpose(-3, -2).reshape(*blocks.shape[:-3], b * m, b * m)


def fourier_hop(vector: Tensor, matrix: Tensor) -> Tensor:
    """q'[j, f] = Σ_i q[i, f] · W[i, j, f], the product e'ᵀ W' of the paper's path form.

    Shapes: vector [batch, part, block i, freq], matrix [batch, part, block i, block j, freq] → [batch, part,
    block j, freq]; real numbers when there is one part, complex when there are two. Plain products and a sum:
    torch.einsum maps this onto many tiny matrix products and takes three times as long.
    """
    vector = vector[:, :, :, None, :]
    if vector.shape[1] == 1:
        return (vector * matrix).sum(dim=2)
    re, im = vector.unbind(dim=1)
    matrix_re, matrix_im = matrix.unbind(dim=1)
    hopped_re = (re * matrix_re - im * matrix_im).sum(dim=1)
    hopped_im = (re * matrix_im + im * matrix_re).sum(dim=1)
    return torch.stack((hopped_re, hopped_im), dim=1)


def compose(first: Tensor, second: Tensor) -> Tensor:
    """W_1 W_2 by frequency, the hop of each row of W_1: [batch, part, block i, block j, freq], the same → the same."""
    batch, parts, blocks, _, freqs = first.shape
    rows = first.transpose(1, 2).reshape(batch * blocks, parts, blocks, freqs)
    moved = fourier_hop(rows, second.repeat_interleave(blocks, dim=0))
    return moved.view(batch, blocks, parts, blocks, freqs).transpose(1, 2)


def adjoint(matrix: Tensor) -> Tensor:
    """The conjugate transpose per frequency: [batch, part, block i, block j, freq] → the same shape."""
    transposed = matrix.transpose(2, 3)
    if matrix.shape[1] == 1:
        return transposed
    return torch.cat((transposed[:, :1], -transposed[:, 1:]), dim=1)


# Between the spatial parameters of Eq. block-hole1 and the Fourier parameters of Eq. block-hole the paper sets
# e' = conj(F e) and w' = F w / m, which gives equal scores for single relations; along a path of k relations its w'
# bring the factor 1/m k times where one is due. Only one choice of factors is right for every length:
# e' = conj(F e)/√m and w' = F w. It is the default, "paths"; the paper's own is "paper".


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
