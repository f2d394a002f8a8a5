"""BlockHolE becomes ComplEx, HolE, RESCAL and DistMult at the sizes the paper names."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from blockhole.models.blockhole import BlockHolE
from blockhole.models.circulant import reverse
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.distmult import DistMult
from blockhole.models.hole import HolE
from blockhole.models.rescal import RESCAL
from blockhole.models.spatial import BlockHolESpatial

E, R, N = 6, 2, 5

TIED = pytest.mark.parametrize("tied", [False, True])
HOPS = pytest.mark.parametrize("hops", [1, 2, 4])


def scores(model: Model, hops: int) -> Tensor:
    generator = torch.Generator().manual_seed(hops)
    source, target = torch.randint(E, (2, 30), generator=generator)
    path = torch.randint(2 * R, (30, hops), generator=generator)
    return model.double().score(source, path, torch.full((30,), hops), target).detach()


def set_parameters(model: Model, entity: Tensor, relation: Tensor) -> None:
    with torch.no_grad():
        model.entity.copy_(entity)
        model.relation.copy_(relation)


def with_zeros(real: Tensor) -> Tensor:
    """Real numbers as complex ones: all imaginary parts 0."""
    return torch.cat((real, torch.zeros_like(real)), dim=1)


@TIED
@HOPS
def test_one_block_is_complex(hops: int, tied: bool) -> None:
    complex_ = ComplEx(E, R, dim=N, tied=tied)
    blockhole = BlockHolE(E, R, blocks=1, block_size=N, tied=tied)
    set_parameters(blockhole, complex_.entity, complex_.relation)
    assert torch.equal(scores(blockhole, hops), scores(complex_, hops))


@TIED
@HOPS
def test_blocks_of_size_one_without_imaginary_parts_are_rescal(hops: int, tied: bool) -> None:
    rescal = RESCAL(E, R, dim=N, tied=tied)
    blockhole = BlockHolE(E, R, blocks=N, block_size=1, tied=tied)
    set_parameters(blockhole, with_zeros(rescal.entity), with_zeros(rescal.relation))
    torch.testing.assert_close(scores(blockhole, hops), scores(rescal, hops))


@TIED
@HOPS
def test_spatial_blocks_of_size_one_are_rescal(hops: int, tied: bool) -> None:
    rescal = RESCAL(E, R, dim=N, tied=tied)
    spatial = BlockHolESpatial(E, R, blocks=N, block_size=1, tied=tied)
    set_parameters(spatial, rescal.entity, rescal.relation)
    torch.testing.assert_close(scores(spatial, hops), scores(rescal, hops))


@TIED
@HOPS
def test_one_block_without_imaginary_parts_is_distmult(hops: int, tied: bool) -> None:
    distmult = DistMult(E, R, dim=N, tied=tied)
    blockhole = BlockHolE(E, R, blocks=1, block_size=N, tied=tied)
    set_parameters(blockhole, with_zeros(distmult.entity), with_zeros(distmult.relation))
    torch.testing.assert_close(scores(blockhole, hops), scores(distmult, hops))


@TIED
@HOPS
def test_one_spatial_block_is_hole_with_its_relations_reversed(hops: int, tied: bool) -> None:
    """Eq. block-hole1 has e_o ⋆ e_s where Eq. hole has e_s ⋆ e_o; reversing w exchanges the two."""
    hole = HolE(E, R, dim=N, tied=tied)
    spatial = BlockHolESpatial(E, R, blocks=1, block_size=N, tied=tied)
    set_parameters(spatial, hole.entity, reverse(hole.relation))
    torch.testing.assert_close(scores(spatial, hops), scores(hole, hops))


def test_one_spatial_block_is_hole_with_source_and_target_exchanged() -> None:
    hole = HolE(E, R, dim=N).double()
    spatial = BlockHolESpatial(E, R, blocks=1, block_size=N).double()
    set_parameters(spatial, hole.entity, hole.relation)
    source, target, one = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5]), torch.ones(3, dtype=torch.long)
    path = torch.tensor([[0], [1], [3]])
    torch.testing.assert_close(spatial.score(source, path, one, target), hole.score(target, path, one, source))
    assert not torch.allclose(spatial.score(source, path, one, target), hole.score(source, path, one, target))
