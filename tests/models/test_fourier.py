"""From spatial to Fourier parameters and back, and the isomorphism of HolE and ComplEx."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from blockhole.models.analogy import ANALOGY
from blockhole.models.blockhole import BlockHolE
from blockhole.models.circulant import (
    Scaling,
    block_circulant,
    circular_correlation,
    entity_to_fourier,
    entity_to_spatial,
    relation_to_fourier,
    relation_to_spatial,
)
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.forms import (
    complex_form,
    fourier_form,
    holographic_form,
    spatial_form,
    widened_form,
)
from blockhole.models.hole import HolE
from blockhole.models.spatial import BlockHolESpatial

E, R = 7, 3
SCALINGS: list[Scaling] = ["paths", "paper"]

seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([1, 2, 3, 4, 5, 8])
block_counts = st.sampled_from([1, 2, 3])


def scores(model: Model, hops: int, seed: int = 0) -> Tensor:
    """φ of forty random queries of one length; the same queries for every model."""
    generator = torch.Generator().manual_seed(seed)
    source, target = torch.randint(E, (2, 40), generator=generator)
    path = torch.randint(2 * R, (40, hops), generator=generator)
    return model.score(source, path, torch.full((40,), hops), target).detach()


@pytest.mark.parametrize("scaling", SCALINGS)
@given(seed=seeds, blocks=block_counts, size=sizes)
def test_parameters_survive_the_round_trip(scaling: Scaling, seed: int, blocks: int, size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    entity = torch.randn(4, blocks, size, generator=generator, dtype=torch.float64)
    relation = torch.randn(2, blocks, blocks, size, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(entity_to_spatial(entity_to_fourier(entity, scaling), scaling), entity)
    torch.testing.assert_close(relation_to_spatial(relation_to_fourier(relation, scaling), scaling), relation)


def test_the_papers_scaling_is_the_papers_definition() -> None:
    """e' = conj(F e) and w' = F w / m, stored as real parts, then imaginary parts."""
    e = np.random.default_rng(1).normal(size=(2, 5))
    w = np.random.default_rng(2).normal(size=(2, 2, 5))
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(5), np.arange(5)) / 5)
    expected_entity = np.conj(e @ fourier)
    expected_relation = w @ fourier / 5
    entity = entity_to_fourier(torch.from_numpy(e), "paper")
    relation = relation_to_fourier(torch.from_numpy(w), "paper")
    np.testing.assert_allclose(entity, [expected_entity.real, expected_entity.imag], atol=1e-12)
    np.testing.assert_allclose(relation, [expected_relation.real, expected_relation.imag], atol=1e-12)


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 8])
def test_every_line_of_the_derivation_gives_one_score(blocks: int, size: int) -> None:
    """Eq. block-hole0 → Eq. block-hole1 → the four lines of Section 5.2 → Eq. block-hole → Section 5.3."""
    rng = np.random.default_rng(blocks * 10 + size)
    s, o = rng.normal(size=(2, blocks, size))
    w = rng.normal(size=(blocks, blocks, size))
    pairs = [(i, j) for i in range(blocks) for j in range(blocks)]
    F = np.fft.fft(np.eye(size))

    matrix = block_circulant(torch.from_numpy(w)).numpy()
    block_hole0 = s.reshape(-1) @ matrix @ o.reshape(-1)

    def correlation(i: int, j: int) -> Tensor:
        return circular_correlation(torch.from_numpy(o[j]), torch.from_numpy(s[i]))

    block_hole1 = sum(w[i, j] @ correlation(i, j).numpy() for i, j in pairs)
    second = sum(w[i, j] @ np.linalg.inv(F) @ (np.conj(F @ o[j]) * (F @ s[i])) for i, j in pairs)
    third = sum(np.conj(F @ w[i, j]) @ (np.conj(F @ o[j]) * (F @ s[i])) for i, j in pairs) / size
    fourth = sum(((F @ w[i, j]) * np.conj(F @ s[i]) * (F @ o[j])).sum().real for i, j in pairs) / size
    s_prime, o_prime, w_prime = np.conj(s @ F), np.conj(o @ F), w @ F / size
    block_hole = sum((w_prime[i, j] * s_prime[i] * np.conj(o_prime[j])).sum().real for i, j in pairs)
    W_prime = np.block([[np.diag(w_prime[i, j]) for j in range(blocks)] for i in range(blocks)])
    matrix_form = (s_prime.reshape(-1) @ W_prime @ np.conj(o_prime.reshape(-1))).real
    np.testing.assert_allclose([block_hole1, second, third, fourth, block_hole, matrix_form], block_hole0, atol=1e-10)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 3, 5])
@pytest.mark.parametrize(("blocks", "size"), [(1, 5), (2, 4), (3, 3), (2, 1)])
def test_both_forms_give_every_path_the_same_score(blocks: int, size: int, hops: int, tied: bool) -> None:
    spatial = BlockHolESpatial(E, R, blocks=blocks, block_size=size, tied=tied, relation_scale=1.0).double()
    fourier = fourier_form(spatial)
    torch.testing.assert_close(scores(fourier, hops), scores(spatial, hops))
    returned = spatial_form(fourier)
    torch.testing.assert_close(returned.entity, spatial.entity)
    torch.testing.assert_close(returned.relation, spatial.relation)


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_the_papers_factors_shrink_a_path_of_k_relations_by_m_to_the_k_minus_1(hops: int) -> None:
    spatial = BlockHolESpatial(E, R, blocks=2, block_size=5).double()
    fourier = fourier_form(spatial, "paper")
    torch.testing.assert_close(scores(fourier, hops) * 5.0 ** (hops - 1), scores(spatial, hops))
    torch.testing.assert_close(spatial_form(fourier, "paper").relation, spatial.relation)


def test_free_fourier_parameters_have_no_spatial_form_of_their_size() -> None:
    with pytest.raises(ValueError, match=r"not conjugate-symmetric.*widen them to size 2m \+ 1"):
        spatial_form(BlockHolE(E, R, blocks=2, block_size=4))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 4])
@pytest.mark.parametrize(("blocks", "size"), [(1, 4), (2, 3), (3, 1)])
def test_any_fourier_model_has_a_wider_spatial_one(blocks: int, size: int, hops: int, tied: bool) -> None:
    fourier = BlockHolE(E, R, blocks=blocks, block_size=size, tied=tied).double()
    spatial = widened_form(fourier)
    assert spatial.block_size == 2 * size + 1
    torch.testing.assert_close(scores(spatial, hops), scores(fourier, hops))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 4])
@pytest.mark.parametrize("dim", [1, 3, 4, 5, 8])
def test_an_analogy_is_a_complex(dim: int, hops: int, tied: bool) -> None:
    analogy = ANALOGY(E, R, dim=dim, tied=tied).double()
    torch.testing.assert_close(scores(complex_form(analogy), hops), scores(analogy, hops))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 4])
@pytest.mark.parametrize("dim", [1, 3, 4, 5, 8])
def test_hole_and_complex_are_isomorphic(dim: int, hops: int, tied: bool) -> None:
    hole = HolE(E, R, dim=dim, tied=tied, relation_scale=1.0).double()
    torch.testing.assert_close(scores(complex_form(hole), hops), scores(hole, hops))
    complex_ = ComplEx(E, R, dim=dim, tied=tied).double()
    torch.testing.assert_close(scores(holographic_form(complex_), hops), scores(complex_, hops))


def test_forms_keep_the_dtype() -> None:
    spatial = BlockHolESpatial(E, R, blocks=2, block_size=100)
    returned = spatial_form(fourier_form(spatial))
    assert returned.entity.dtype is torch.float32
    torch.testing.assert_close(returned.entity, spatial.entity)
