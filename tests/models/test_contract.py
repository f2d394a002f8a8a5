"""What training, evaluation and the index rely on, for every model and both kinds of inverses."""

from __future__ import annotations

from functools import partial
from inspect import isabstract
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from blockhole.errors import UndefinedPath
from blockhole.machine import torch_threads
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blocks import BLOCK_MODELS, BlockArrays
from blockhole.models.catalogue import MODELS, ModelSettings, build_model, find_model, known_models
from blockhole.models.circulant import fourier_hop
from blockhole.models.contract import Model, TorchArrays
from blockhole.models.hole import HolE

E, R, BATCH, HOPS = 11, 3, 24, 4

Inverses = Literal["own", "tied"]


def build(name: str, inverses: Inverses, seed: int = 0, size: int = 6) -> Model:
    if find_model(name).sized_by_blocks:
        return build_model(ModelSettings(name=name, blocks=2, block_size=-(-size // 2), inverses=inverses), E, R, seed)
    return build_model(ModelSettings(name=name, dim=size, inverses=inverses), E, R, seed)


@pytest.fixture(params=[(name, inverses) for name in known_models() for inverses in ("own", "tied")], ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[str, Inverses]:
    name, inverses = request.param
    return name, inverses


@pytest.fixture
def model(case: tuple[str, Inverses]) -> Model:
    return build(*case).double()


def draw_queries(model: Model, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries of mixed lengths; what stands in a path beyond its length is noise."""
    generator = torch.Generator().manual_seed(seed)
    hops = 1 if model.why_no_paths else HOPS
    source, target = torch.randint(E, (2, BATCH), generator=generator)
    path = torch.randint(2 * R, (BATCH, hops), generator=generator)
    length = torch.randint(1, hops + 1, (BATCH,), generator=generator)
    return source, path, length, target


def test_every_class_is_abstract_or_final() -> None:
    assert isabstract(Model)
    assert isabstract(BlockBilinear)
    for name in known_models():
        assert getattr(find_model(name), "__final__", False), name


def test_a_score_is_the_inner_product_of_query_and_candidate(model: Model) -> None:
    source, path, length, target = draw_queries(model)
    queries = model.embed_query(source, path, length)
    candidates = model.candidates()
    assert queries.shape == (BATCH, candidates.shape[1])
    expected = (queries @ candidates.T)[torch.arange(BATCH), target]
    torch.testing.assert_close(model.score(source, path, length, target), expected)


def test_a_batch_equals_its_rows_one_by_one(model: Model) -> None:
    source, path, length, target = draw_queries(model)
    together = model.score(source, path, length, target)
    alone = [
        model.score(source[i : i + 1], path[i : i + 1, : length[i]], length[i : i + 1], target[i : i + 1])
        for i in range(BATCH)
    ]
    torch.testing.assert_close(together, torch.cat(alone))


def test_padding_has_no_meaning(model: Model) -> None:
    source, path, length, target = draw_queries(model)
    padded = torch.nn.functional.pad(path, (0, 2))
    torch.testing.assert_close(model.score(source, padded, length, target), model.score(source, path, length, target))


def test_embed_paths_equals_embed_query_at_one_length(model: Model) -> None:
    source, path, _, _ = draw_queries(model)
    length = torch.full((BATCH,), path.shape[1])
    torch.testing.assert_close(model.embed_paths(source, path), model.embed_query(source, path, length))


def test_hops_make_the_walk(model: Model) -> None:
    source, path, _, _ = draw_queries(model)
    vector = model.entity[source]
    for step in range(path.shape[1]):
        vector = model.hop(vector, path[:, step])
    assert vector.shape == model.entity[source].shape
    torch.testing.assert_close(model.finish_query(vector), model.embed_paths(source, path))


def test_candidates_of_a_subset_are_rows_of_all(model: Model) -> None:
    subset = torch.tensor([7, 0, 7, 3])
    torch.testing.assert_close(model.candidates(subset), model.candidates()[subset])


def test_candidates_hold_the_rows_of_their_entities(model: Model) -> None:
    """What a database walks from; a model that can do without one need not."""
    torch.testing.assert_close(model.restore_row(model.candidates()), model.entity)


def test_an_empty_batch_gives_an_empty_answer(model: Model) -> None:
    none = torch.empty(0, dtype=torch.long)
    path = torch.empty(0, 1, dtype=torch.long)
    width = model.candidates().shape[1]
    assert model.embed_query(none, path, none).shape == (0, width)
    assert model.embed_paths(none, path).shape == (0, width)


def test_ids_of_either_integer_type_do(model: Model) -> None:
    queries = draw_queries(model)
    narrow = [tensor.int() for tensor in queries]
    torch.testing.assert_close(model.score(*narrow), model.score(*queries))


def test_inverses(case: tuple[str, Inverses], model: Model) -> None:
    """Tied: φ(o, r⁻¹, s) = φ(s, r, o). Own: not, and the relation table has twice as many rows."""
    source, path, _, target = draw_queries(model)
    named, one = path[:, :1] % R, torch.ones(BATCH, dtype=torch.long)
    forward = model.score(source, named, one, target)
    backward = model.score(target, named + R, one, source)
    tied = case[1] == "tied"
    assert len(model.relation) == (R if tied else 2 * R)
    assert torch.allclose(forward, backward) == tied


@pytest.mark.parametrize("name", known_models())
def test_a_tied_path_can_be_walked_backwards(name: str) -> None:
    """φ(o, rk⁻¹/…/r1⁻¹, s) = φ(s, r1/…/rk, o) when inverses are tied."""
    model = build(name, "tied").double()
    source, path, _, target = draw_queries(model)
    length = torch.full((BATCH,), path.shape[1])
    backwards = (path.flip(1) + R) % (2 * R)
    torch.testing.assert_close(
        model.score(target, backwards, length, source), model.score(source, path, length, target)
    )


def test_one_seed_gives_one_model_and_another_seed_another(case: tuple[str, Inverses]) -> None:
    torch.manual_seed(1)
    first = build(*case, seed=5)
    torch.manual_seed(2)
    second, other = build(*case, seed=5), build(*case, seed=6)
    assert first.entity.dtype is torch.float32
    assert torch.equal(first.entity, second.entity)
    assert torch.equal(first.relation, second.relation)
    assert not torch.equal(first.entity, other.entity)
    assert not torch.equal(first.relation, other.relation)


def test_building_a_model_leaves_global_randomness_alone(case: tuple[str, Inverses]) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    build(*case)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_state_dict_carries_the_whole_model(case: tuple[str, Inverses]) -> None:
    saved, loaded = build(*case, seed=1), build(*case, seed=2)
    state = saved.state_dict()
    assert set(state) == {"entity", "relation"}
    loaded.load_state_dict(state)
    queries = draw_queries(saved)
    assert torch.equal(loaded.score(*queries), saved.score(*queries))


def test_paths_of_one_length_never_read_the_device_back(case: tuple[str, Inverses]) -> None:
    """A meta tensor has no values: whatever looks at one, as a CUDA graph must not, fails here."""
    model = build(*case).to("meta")
    source, path, _, _ = (tensor.to("meta") for tensor in draw_queries(model))
    loss = (model.embed_paths(source, path) @ model.candidates().T).logsumexp(dim=1).sum()
    gradients = torch.autograd.grad(loss, [model.entity, model.relation])
    assert [gradient.shape for gradient in gradients] == [model.entity.shape, model.relation.shape]


def test_every_relation_and_source_gets_a_gradient(model: Model) -> None:
    source = torch.zeros(2 * R, dtype=torch.long)
    path = torch.arange(2 * R)[:, None]
    target = torch.ones(2 * R, dtype=torch.long)
    total = model.score(source, path, torch.ones(2 * R, dtype=torch.long), target).sum()
    entity, relation = torch.autograd.grad(total, [model.entity, model.relation])
    assert (entity.abs().sum(dim=1) > 0).tolist() == [True, True] + [False] * (E - 2)
    assert (relation.abs().sum(dim=1) > 0).all()


def test_bilinear_rows_are_read_by_their_geometry() -> None:
    shapes = {
        name: (geometry.blocks, geometry.freqs, geometry.parts)
        for name in MODELS
        if (geometry := build(name, "own").geometry) is not None
    }
    assert shapes == {
        "blockhole": (2, 3, 2),
        "rescal": (6, 1, 1),
        "distmult": (1, 6, 1),
        "complex": (1, 6, 2),
    }


@pytest.mark.parametrize("name", ["blockhole", "blockhole-spatial", "rescal", "distmult", "complex", "hole"])
def test_a_hop_keeps_the_norm_of_bilinear_vectors_on_average(name: str) -> None:
    size = {"blocks": 4, "block_size": 8} if find_model(name).sized_by_blocks else {"dim": 32}
    model = build_model(ModelSettings.model_validate({"name": name, **size}), 400, 200, seed=0)
    before = model.entity.detach()
    after = model.hop(before, torch.arange(400)).detach()
    assert float(after.square().sum() / before.square().sum()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize("name", known_models())
@given(size=st.integers(1, 9))
def test_matrices_are_the_hops_in_other_coordinates(name: str, inverses: Inverses, size: int) -> None:
    """Re(xᵀȳ) is the inner product, and x of a walked vector is x_sᵀ W_{r1} … W_{rk}, inverses included."""
    model = build(name, inverses, size=size).double()
    if not model.has_matrices:
        one = torch.tensor([0])
        for asked in (
            model.path_operator,
            lambda path: model.retrace(one, path),
            lambda _: model.score_relations(one, one),
        ):
            with pytest.raises(NotImplementedError, match="are not matrices"):
                asked(torch.tensor([[0]]))
        return
    source, path, _, _ = draw_queries(model)
    entity = model.coordinates(model.entity)
    torch.testing.assert_close(entity.flatten(1) @ entity.flatten(1).T, model.entity @ model.entity.T)
    walked = fourier_hop(entity[source], model.path_operator(path))
    torch.testing.assert_close(walked, model.coordinates(model.embed_paths(source, path)))


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize("name", [name for name in known_models() if find_model(name).has_matrices])
@given(size=st.integers(1, 9))
def test_backwards_and_from_both_ends_scores_are_the_same(name: str, inverses: Inverses, size: int) -> None:
    """⟨e_s, target moved back⟩ and the scores of all relations at once are φ; over arrays as in torch."""
    model = build(name, inverses, size=size).double().requires_grad_(False)
    source, path, _, target = draw_queries(model)
    length = torch.full((BATCH,), HOPS)
    close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)
    close((model.entity[source] * model.retrace(target, path)).sum(dim=1), model.score(source, path, length, target))
    units, arrays = torch.eye(model.entity.shape[1], dtype=torch.float64), TorchArrays(model)
    for relation in range(2 * R):
        ids = torch.full((len(units),), relation)
        back = model.hop_back(units, ids)
        close(back, model.hop(units, ids).T)
        np.testing.assert_array_equal(arrays.hop_back(units.numpy(), ids.numpy()), back)
        scores = model.score(source, torch.full((BATCH, 1), relation), length // HOPS, target)
        close(model.score_relations(source, target)[0, :, relation], scores)


def test_answers_are_computed_in_one_thread_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several would wait for each other at every transform."""
    model, hop, threads = build("hole", "own").double().requires_grad_(False), HolE.hop, []

    def watched(model: HolE, vector: Tensor, relation: Tensor) -> Tensor:
        threads.append(torch.get_num_threads())
        return hop(model, vector, relation)

    monkeypatch.setattr(HolE, "hop", watched)
    with torch_threads(2):
        TorchArrays(model).hop(model.entity.numpy(), np.zeros(E, dtype=np.int64))
        assert (threads, torch.get_num_threads()) == ([1], 2)


def test_all_models_but_two_have_matrices() -> None:
    assert {name for name in MODELS if not find_model(name).has_matrices} == {"transe", "simple"}


@pytest.mark.parametrize("hops", [2, 5])
def test_simple_explains_why_it_has_no_paths(hops: int) -> None:
    model = build("simple", "own")
    source, path = torch.tensor([0]), torch.zeros(1, hops, dtype=torch.long)
    message = (
        f"SimplE scores single relations, not a path of {hops} hops: it keeps subjects and objects in different vector "
        "spaces, so the product of two relations is not defined; use blockhole for paths."
    )
    with pytest.raises(UndefinedPath) as by_query:
        model.embed_query(source, path, torch.tensor([hops]))
    with pytest.raises(UndefinedPath) as by_paths:
        model.embed_paths(source, path)
    assert str(by_query.value) == str(by_paths.value) == message


def test_what_is_known_without_torch_is_what_the_classes_say() -> None:
    for name in known_models():
        kind = find_model(name)
        assert (name in BLOCK_MODELS) == issubclass(kind, BlockBilinear)
        if name in BLOCK_MODELS:
            known = BLOCK_MODELS[name]
            assert known.sized_by_blocks == kind.sized_by_blocks
            assert known.has_matrices == kind.has_matrices
            assert known.distance == kind.distance
            assert kind.why_no_paths is None


@pytest.mark.parametrize(("blocks", "block_size"), [(3, 4), (1, 5), (4, 1)])
@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize("name", list(BLOCK_MODELS))
def test_hops_over_arrays_are_those_of_torch(name: str, inverses: Inverses, blocks: int, block_size: int) -> None:
    if BLOCK_MODELS[name].sized_by_blocks:
        settings = ModelSettings(name=name, blocks=blocks, block_size=block_size, inverses=inverses)
    else:
        settings = ModelSettings(name=name, dim=blocks + block_size, inverses=inverses)
    model = build_model(settings, E, R, 0).double().requires_grad_(False)
    assert model.geometry is not None
    assert settings.block_geometry == model.geometry
    arrays, own = BlockArrays(model.geometry, model.relation.numpy(), R, model.tied), TorchArrays(model)
    source, path, length, _ = (each.numpy() for each in draw_queries(model))
    start = model.entity.numpy()[source]
    ids = np.arange(2 * R)
    for one, other in (
        (arrays.coordinates(start), own.coordinates(start)),
        (arrays.operators(ids), own.operators(ids)),
        (arrays.hop(start, path[:, 0]), own.hop(start, path[:, 0])),
        (arrays.hop_back(start, path[:, 0]), own.hop_back(start, path[:, 0])),
        (arrays.walk(start, path, length), own.walk(start, path, length)),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)
    assert arrays.plain_candidates == own.plain_candidates
    together = arrays.walk(start, path, length)
    for i in range(BATCH):
        alone = arrays.walk(start[[i]], path[[i]], length[[i]])
        np.testing.assert_array_equal(alone[0], together[i])
