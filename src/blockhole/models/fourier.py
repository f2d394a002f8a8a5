"""Between the spatial parameters of Eq. block-hole1 and the Fourier parameters of Eq. block-hole, both ways.

The paper sets e' = conj(F e) and w' = F w / m, which gives equal scores for single relations; along a path of
k relations its w' bring the factor 1/m k times where one is due. Only one choice of factors is right for
every length: e' = conj(F e)/√m and w' = F w. It is the default, "paths"; the paper's own is "paper".
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

import torch
from torch import Tensor

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
