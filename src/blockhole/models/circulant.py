"""The algebra of block circulant matrices: definitions, Fourier transforms, one hop in the Fourier domain.

Complex arrays that models store are real tensors with an axis `part` (real parts, then imaginary parts).
"""

from __future__ import annotations

import torch
from torch import Tensor


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
