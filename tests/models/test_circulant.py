"""The algebra of Section 2 and of block circulant matrices, against definitions written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from blockhole.models.circulant import (
    adjoint,
    block_circulant,
    circ,
    circular_convolution,
    circular_correlation,
    fourier_hop,
    reverse,
)

SIZES = [1, 2, 3, 4, 5, 8]
BLOCKS = [1, 2, 3]

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]

seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from(SIZES)
block_counts = st.sampled_from(BLOCKS)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def to_complex(stored: Tensor, part_axis: int) -> Complex:
    re, im = np.moveaxis(stored.numpy(), part_axis, 0)
    return np.asarray(re + 1j * im)


def dense_convolution(x: Real, y: Real) -> Real:
    n = len(x)
    return np.array([sum(x[(i - j) % n] * y[j] for j in range(n)) for i in range(n)])


def dense_correlation(x: Real, y: Real) -> Real:
    n = len(x)
    return np.array([sum(x[(j - i) % n] * y[j] for j in range(n)) for i in range(n)])


def dense_blocks(matrix: Complex) -> Complex:
    """W' of Section 5.3 from [i, j, f]: the matrix whose blocks are diag(w'^(ij))."""
    b = len(matrix)
    return np.block([[np.diag(matrix[i, j]) for j in range(b)] for i in range(b)])


def test_circ_is_the_matrix_printed_in_the_paper() -> None:
    expected = [[1, 4, 3, 2], [2, 1, 4, 3], [3, 2, 1, 4], [4, 3, 2, 1]]
    assert circ(torch.tensor([1, 2, 3, 4])).tolist() == expected


@pytest.mark.parametrize("size", SIZES)
def test_convolution_and_correlation_follow_their_definitions(size: int) -> None:
    x, y = normal(1, 2, size)
    np.testing.assert_allclose(circular_convolution(x, y), dense_convolution(x.numpy(), y.numpy()), atol=1e-12)
    np.testing.assert_allclose(circular_correlation(x, y), dense_correlation(x.numpy(), y.numpy()), atol=1e-12)


@given(seed=seeds, size=sizes)
def test_convolution_and_correlation_are_products_with_circ(seed: int, size: int) -> None:
    x, y = normal(seed, 2, size)
    torch.testing.assert_close(circular_convolution(x, y), circ(x) @ y)
    torch.testing.assert_close(circular_correlation(x, y), circ(x).T @ y)


def test_every_row_of_a_batch_is_taken_by_itself() -> None:
    x, y = normal(3, 2, 3, 2, 5)
    for made, of in (
        (circular_convolution(x, y), circular_convolution),
        (circular_correlation(x, y), circular_correlation),
    ):
        assert made.shape == x.shape
        for i, j in np.ndindex(3, 2):
            torch.testing.assert_close(made[i, j], of(x[i, j], y[i, j]))
            torch.testing.assert_close(reverse(x)[i, j], reverse(x[i, j]))
            torch.testing.assert_close(circ(x)[i, j], circ(x[i, j]))
    blocks = normal(4, 2, 3, 3, 5)
    torch.testing.assert_close(block_circulant(blocks)[1], block_circulant(blocks[1]))


@given(seed=seeds, size=sizes)
def test_the_fourier_matrix_diagonalises_circ(seed: int, size: int) -> None:
    v = normal(seed, size).numpy()
    fourier = np.fft.fft(np.eye(size))
    diagonalised = np.linalg.inv(fourier) @ np.diag(fourier @ v) @ fourier
    np.testing.assert_allclose(circ(torch.from_numpy(v)), diagonalised.real, atol=1e-10)
    np.testing.assert_allclose(diagonalised.imag, 0, atol=1e-10)


@given(seed=seeds, size=sizes)
def test_a_convolution_moves_to_the_other_side_as_a_correlation(seed: int, size: int) -> None:
    x, y, z = normal(seed, 3, size)
    torch.testing.assert_close(x @ circular_convolution(y, z), y @ circular_correlation(z, x))


@pytest.mark.parametrize("size", [3, 4, 5, 8])
def test_the_identity_as_the_paper_prints_it_does_not_hold(size: int) -> None:
    x, y, z = normal(2, 3, size)
    printed = y @ circular_correlation(x, z)
    assert not torch.isclose(x @ circular_convolution(y, z), printed)
    torch.testing.assert_close(z @ circular_convolution(y, x), printed)


@given(seed=seeds, size=sizes)
def test_reversing_a_vector_transposes_its_matrix(seed: int, size: int) -> None:
    v = normal(seed, size)
    torch.testing.assert_close(circ(reverse(v)), circ(v).T)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("size", SIZES)
def test_block_circulant_puts_each_circulant_in_its_place(blocks: int, size: int) -> None:
    w = normal(3, 2, blocks, blocks, size)
    dense = block_circulant(w)
    for index in range(2):
        rows = [[circ(w[index, i, j]).numpy() for j in range(blocks)] for i in range(blocks)]
        np.testing.assert_array_equal(dense[index], np.block(rows))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("size", SIZES)
def test_fourier_hop_is_a_row_vector_times_the_block_matrix(parts: int, blocks: int, size: int) -> None:
    vector = normal(4, 6, parts, blocks, size)
    matrix = normal(5, 6, parts, blocks, blocks, size)
    moved = fourier_hop(vector, matrix)
    if parts == 1:
        vector, matrix, moved = (torch.cat((x, torch.zeros_like(x)), dim=1) for x in (vector, matrix, moved))
    q, w = to_complex(vector, 1), to_complex(matrix, 1)
    expected = [q[row].reshape(-1) @ dense_blocks(w[row]) for row in range(6)]
    np.testing.assert_allclose(to_complex(moved, 1).reshape(6, -1), expected, atol=1e-12)


@given(seed=seeds, blocks=block_counts, size=sizes)
def test_hops_compose_as_the_matrix_product(seed: int, blocks: int, size: int) -> None:
    vector = normal(seed, 1, 2, blocks, size)
    first, second = normal(seed + 1, 2, 1, 2, blocks, blocks, size)
    product = dense_blocks(to_complex(first[0], 0)) @ dense_blocks(to_complex(second[0], 0))
    moved = to_complex(fourier_hop(fourier_hop(vector, first), second), 1).reshape(-1)
    np.testing.assert_allclose(moved, to_complex(vector, 1).reshape(-1) @ product, atol=1e-9)


@given(seed=seeds, blocks=block_counts, size=sizes)
def test_the_product_of_block_circulant_matrices_is_block_circulant(seed: int, blocks: int, size: int) -> None:
    """Composing three relations is associative, and stays in the family: its first columns determine it."""
    a, b, c = (block_circulant(w) for w in normal(seed, 3, blocks, blocks, size))
    product = (a @ b) @ c
    torch.testing.assert_close(product, a @ (b @ c))
    first_columns = product.reshape(blocks, size, blocks, size)[:, :, :, 0].permute(0, 2, 1)
    torch.testing.assert_close(block_circulant(first_columns), product)


@pytest.mark.parametrize("parts", [1, 2])
@given(seed=seeds, blocks=block_counts, size=sizes)
def test_adjoint_moves_a_matrix_to_the_other_side(parts: int, seed: int, blocks: int, size: int) -> None:
    x, y = normal(seed, 2, 1, parts, blocks, size)
    matrix = normal(seed + 1, 1, parts, blocks, blocks, size)
    there = (fourier_hop(x, matrix) * y).sum()
    back = (x * fourier_hop(y, adjoint(matrix))).sum()
    torch.testing.assert_close(there, back)
    torch.testing.assert_close(adjoint(adjoint(matrix)), matrix)
