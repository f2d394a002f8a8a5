"""The compiled hop of the CPU against torch's own operations in float64, with gradients."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor

from blockhole.models.blockhole import BlockHolE
from blockhole.models.blocks import BlockGeometry
from blockhole.models.circulant import fourier_hop
from blockhole.models.hop_compiled import compiled_hop

SIZES: list[tuple[int, int, Literal[1, 2]]] = [
    (1, 1, 1), (1, 7, 1), (1, 7, 2), (2, 25, 2), (3, 5, 2), (4, 8, 1), (5, 2, 2), (7, 1, 1), (5, 1, 2), (8, 3, 2),
]  # fmt: skip
GEOMETRIES = [BlockGeometry(*size) for size in SIZES]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def exact(vector: Tensor, table: Tensor, relation: Tensor, geometry: BlockGeometry) -> Tensor:
    blocks = vector.reshape(len(vector), *geometry.entity_shape)
    return fourier_hop(blocks, table[relation].view(len(vector), *geometry.relation_shape)).flatten(1)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_hops_and_gradients_equal_those_of_torch(geometry: BlockGeometry) -> None:
    """Relations repeat, one does not occur, and one hop follows another."""
    vector, table = draw(9, geometry.entity_width, seed=0), draw(5, geometry.relation_width, seed=1)
    weight = draw(9, geometry.entity_width, seed=2)
    path = torch.tensor([[0, 3], [3, 3], [1, 0], [4, 1], [0, 4], [0, 0], [1, 3], [4, 4], [3, 1]])
    found: list[Tensor] = []
    wanted: list[Tensor] = []
    for hop, dtype, into in ((compiled_hop, torch.float32, found), (exact, torch.float64, wanted)):
        leaves = [each.to(dtype).requires_grad_() for each in (vector, table)]
        moved = leaves[0]
        for step in range(2):
            moved = hop(moved, leaves[1], path[:, step], geometry)
        into += [moved, *torch.autograd.grad((moved * weight).sum(), leaves)]
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)
    assert not found[2][2].any()


def test_rows_that_do_not_lie_together_are_read_as_they_are() -> None:
    geometry = BlockGeometry(2, 3, 2)
    wide, table = draw(4, 24, seed=0), draw(3, geometry.relation_width, seed=1)
    relation = torch.tensor([[0, 9], [2, 9], [1, 9], [2, 9]])[:, 0]
    found = compiled_hop(wide[:, ::2], table, relation, geometry)
    torch.testing.assert_close(found, exact(wide[:, ::2], table, relation, geometry))


@pytest.mark.parametrize("relation", [-1, 3])
def test_ids_outside_the_table_are_refused(relation: int) -> None:
    geometry = BlockGeometry(2, 3, 2)
    with pytest.raises(IndexError, match="relation ids must be in 0 … 2"):
        compiled_hop(draw(1, 12, seed=0), draw(3, 24, seed=1), torch.tensor([relation]), geometry)


def test_a_model_compiles_what_it_learns_from_and_nothing_else() -> None:
    model = BlockHolE(6, 2, blocks=2, block_size=3, seed=0)
    source, path = torch.tensor([0, 5]), torch.tensor([[0, 3], [1, 2]])
    learned = model.embed_paths(source, path)
    with torch.no_grad():
        asked = model.embed_paths(source, path)
    assert type(learned.grad_fn).__name__ == "_HopBackward"
    assert asked.grad_fn is None
    torch.testing.assert_close(learned, asked)
    tied = BlockHolE(6, 2, blocks=2, block_size=3, tied=True, seed=0).embed_paths(source, path)
    assert type(tied.grad_fn).__name__ != "_HopBackward"
