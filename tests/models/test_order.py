"""Who can tell r1/r2 from r2/r1: BlockHolE with b ≥ 2 and RESCAL, nobody else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.models.contract import Model

E, R = 5, 4

BLIND = [
    ModelSettings(name="distmult", dim=6),
    ModelSettings(name="complex", dim=6),
    ModelSettings(name="hole", dim=6),
    ModelSettings(name="analogy", dim=6),
    ModelSettings(name="transe", dim=6),
    ModelSettings(name="blockhole", blocks=1, block_size=6),
    ModelSettings(name="blockhole-spatial", blocks=1, block_size=6),
]
SEEING = [
    ModelSettings(name="rescal", dim=6),
    ModelSettings(name="blockhole", blocks=2, block_size=3),
    ModelSettings(name="blockhole", blocks=3, block_size=1),
    ModelSettings(name="blockhole-spatial", blocks=2, block_size=3),
]


def name_case(value: object) -> str | None:
    return f"{value.name}-{value.blocks or value.dim}" if isinstance(value, ModelSettings) else None


def score_all(model: Model, path: list[int]) -> Tensor:
    """φ(s, path, o) for all s and o: [E, E]."""
    query = model.embed_paths(torch.arange(E), torch.tensor([path] * E))
    return (query @ model.candidates().T).detach()


@pytest.mark.parametrize("settings", BLIND, ids=name_case)
@given(data=st.data(), seed=st.integers(0, 1000), inverses=st.sampled_from(["own", "tied"]))
def test_a_permuted_path_has_the_same_score(
    settings: ModelSettings, data: st.DataObject, seed: int, inverses: str
) -> None:
    model = build_model(settings.model_copy(update={"inverses": inverses}), E, R, seed).double()
    path = data.draw(st.lists(st.integers(0, 2 * R - 1), min_size=2, max_size=5))
    permuted = data.draw(st.permutations(path))
    torch.testing.assert_close(score_all(model, permuted), score_all(model, path))


@pytest.mark.parametrize("settings", SEEING, ids=name_case)
@given(
    seed=st.integers(0, 1000),
    pair=st.lists(st.integers(0, R - 1), min_size=2, max_size=2, unique=True),
    inverses=st.sampled_from(["own", "tied"]),
)
def test_an_exchanged_pair_of_relations_has_another_score(
    settings: ModelSettings, seed: int, pair: list[int], inverses: str
) -> None:
    model = build_model(settings.model_copy(update={"inverses": inverses}), E, R, seed).double()
    there, back = score_all(model, pair), score_all(model, pair[::-1])
    assert (there - back).abs().max() > 1e-6
