"""A merged model scores as its parts together, along paths of every length."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from blockhole.answering.vectors import Vectors
from blockhole.errors import ConfigError
from blockhole.models.blockhole import BlockHolE
from blockhole.models.catalogue import ModelSettings
from blockhole.models.complex import ComplEx
from blockhole.models.contract import Model
from blockhole.models.distmult import DistMult
from blockhole.models.merging import merge_models, merged_settings
from blockhole.models.rescal import RESCAL
from blockhole.models.transe import TransE
from tests.sweep import draws

E, R = 7, 3


def build(kind: str, blocks: int, size: int, *, tied: bool, seed: int) -> Model:
    """A part in float64; `size` is m for BlockHolE and n for the others."""
    match kind:
        case "blockhole":
            model: Model = BlockHolE(E, R, blocks=blocks, block_size=size, tied=tied, entity_scale=1.0, seed=seed)
        case "complex":
            model = ComplEx(E, R, dim=size, tied=tied, entity_scale=1.0, seed=seed)
        case "distmult":
            model = DistMult(E, R, dim=size, tied=tied, entity_scale=1.0, seed=seed)
        case _:
            model = RESCAL(E, R, dim=size, tied=tied, entity_scale=1.0, seed=seed)
    return model.double()


def scores(model: Model, lengths: list[int], seed: int) -> Tensor:
    """φ of one random query for each length, against every entity: [count, E]."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(E, (len(lengths),), generator=generator)
    path = torch.randint(2 * R, (len(lengths), max(lengths)), generator=generator)
    with torch.no_grad():
        return model.embed_query(source, path, torch.tensor(lengths)) @ model.candidates().T


@settings(max_examples=draws(60))
@given(
    kind=st.sampled_from(["blockhole", "complex", "distmult", "rescal"]),
    blocks=st.integers(1, 5),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    tied=st.booleans(),
    weighted=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_score_is_the_sum_of_the_scores(
    kind: str, blocks: int, sizes: list[int], lengths: list[int], tied: bool, weighted: bool, seed: int
) -> None:
    parts = [build(kind, blocks, size, tied=tied, seed=seed + k) for k, size in enumerate(sizes)]
    weights = [0.3 + k for k in range(len(parts))] if weighted else None
    merged = merge_models(parts, weights)
    expected = sum(
        (
            weight * scores(part, lengths, seed)
            for part, weight in zip(parts, weights or [1.0] * len(parts), strict=True)
        ),
        start=torch.zeros(()),
    )
    found = scores(merged, lengths, seed)
    assert found.dtype == torch.float64
    assert (found - expected).abs().max() <= 1e-10 * expected.abs().max()
    assert (type(merged), merged.tied) == (type(parts[0]), tied)
    assert merged.geometry.dimension == sum(sizes) * (blocks if kind == "blockhole" else 1)


@settings(max_examples=draws(40))
@given(
    blocks=st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=3),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    tied=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_models_of_fewer_blocks_are_folded(blocks: list[int], lengths: list[int], tied: bool, seed: int) -> None:
    parts = [build("blockhole", b, 4 * (k + 1) // b or 4, tied=tied, seed=seed + k) for k, b in enumerate(blocks)]
    parts.append(build("complex", 1, 8, tied=tied, seed=seed))
    merged = merge_models([merge_models(parts[:2]), *parts[2:]])
    expected = torch.stack([scores(part, lengths, seed) for part in parts]).sum(dim=0)
    assert (scores(merged, lengths, seed) - expected).abs().max() <= 1e-10 * expected.abs().max()
    assert merged.geometry.blocks == max(blocks)
    # Each part can still be told apart, as those who weigh them need to.
    vectors = Vectors.of_model(merged)
    assert vectors.settings.merged_from == tuple(part.dim for part in parts)
    start, path = np.arange(E), [1, 2]
    for place, part in enumerate(parts):
        own = np.where(vectors.part == place, vectors.walk(vectors.rows(start), path), 0.0)
        alone = Vectors.of_model(part)
        np.testing.assert_allclose(
            own @ vectors.all_candidates().T,
            alone.walk(alone.rows(start), path) @ alone.all_candidates().T,
            rtol=1e-4,
            atol=1e-4,
        )


def test_a_golden_of_two_complex_numbers() -> None:
    first, second = ComplEx(2, 1, dim=1), ComplEx(2, 1, dim=1)
    with torch.no_grad():
        first.entity.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        second.entity.copy_(torch.tensor([[5.0, 6.0], [7.0, 8.0]]))
    merged = merge_models([first, second])
    assert merged.entity.tolist() == [[1.0, 5.0, 2.0, 6.0], [3.0, 7.0, 4.0, 8.0]]


def test_parts_are_left_as_they_are() -> None:
    parts = [build("blockhole", 2, 3, tied=False, seed=k) for k in range(2)]
    before = [part.entity.detach().clone() for part in parts]
    merge_models(parts, [2.0, 3.0])
    assert all(torch.equal(part.entity, rows) for part, rows in zip(parts, before, strict=True))


def test_the_settings_of_the_sum() -> None:
    parts = [build("blockhole", 4, size, tied=True, seed=0) for size in (3, 5)]
    found = merged_settings(parts)
    assert (found.name, found.blocks, found.block_size, found.inverses) == ("blockhole", 4, 8, "tied")
    assert found.merged_from == merge_models(parts).merged_from == (12, 20)
    more = merged_settings([merge_models(parts), parts[0]])
    assert (more.merged_from, more.block_size) == ((12, 20, 12), 11)
    with pytest.raises(ConfigError, match=r"12 \+ 20 is not its dimension, 36"):
        ModelSettings(blocks=4, block_size=9, merged_from=(12, 20))
    dims = merged_settings([build("rescal", 1, size, tied=False, seed=0) for size in (3, 5)])
    assert (dims.name, dims.dim, dims.inverses) == ("rescal", 8, "own")


def test_what_cannot_be_merged() -> None:
    def said(models: list[Model], weights: list[float] | None = None) -> str:
        with pytest.raises(ConfigError) as caught:
            merge_models(models, weights)
        return str(caught.value)

    two = [build("blockhole", 2, 3, tied=False, seed=k) for k in range(2)]
    wider, tied = build("blockhole", 3, 2, tied=False, seed=0), build("blockhole", 2, 3, tied=True, seed=0)
    alike = "models to merge must be alike in kind and inverses, not"
    beside = "cannot be merged with blockhole with b ="
    assert said([two[0], wider]) == (
        f"blockhole with b = 2 and n = 6 {beside} 3: its b must divide 3, and its n be a multiple of it."
    )
    assert said([two[0], ComplEx(E, R, dim=5)]) == (
        f"complex and n = 5 {beside} 2: its b must divide 2, and its n be a multiple of it."
    )
    assert said([two[0], tied]) == f"{alike} blockhole with b = 2 and blockhole with b = 2 (tied inverses)."
    assert said([ComplEx(E, R, dim=2), DistMult(E, R, dim=2)]) == f"{alike} complex and distmult."
    assert said([ComplEx(E, R, dim=2), ComplEx(E + 1, R, dim=2)]) == (
        "models to merge must be over the same entities and relations."
    )
    only = "only blockhole, complex, distmult and rescal models can be merged, not"
    assert said([two[0], TransE(E, R, dim=2)]) == f"{only} transe."
    assert said([]) == f"{only} none."
    assert said(two, [1.0]) == "2 models to merge need 2 weights, not 1."
    assert said(two, [1.0, -2.0]) == "the weight -2 of a model to merge must be a positive number."
    assert said(two, [1.0, float("nan")]) == "the weight nan of a model to merge must be a positive number."
