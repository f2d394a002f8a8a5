"""The fused stepper against an independent dense oracle in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.blockhole import BlockHolE
from blockhole.models.complex import ComplEx
from blockhole.models.distmult import DistMult
from blockhole.models.rescal import RESCAL
from blockhole.models.transe import TransE
from blockhole.runs.config import LossConfig, OptimizerConfig, PenaltyConfig, TrainConfig, TrainingConfig
from blockhole.training.batches import Batch, Corruptions
from blockhole.training.draws import KeyedDraws, Purpose, draw_key
from blockhole.training.kernels.fused import KEPT, TRIED, FusedStepper, Trial
from blockhole.training.kernels.loops import (
    Rows,
    count_occurrences,
    count_passes,
    draw_objects,
    logistic,
    sort_occurrences,
)
from blockhole.training.steppers import AutogradStepper, fuses
from tests.sweep import WHOLE, first_quick

ENTITIES, RELATIONS, SEED = 40, 3, 7
OptimizerKind = Literal["adagrad", "rowwise_adagrad"]

GEOMETRIES: dict[str, Callable[[], BlockBilinear]] = {
    "b3 m5": lambda: BlockHolE(ENTITIES, RELATIONS, blocks=3, block_size=5, seed=1),
    "complex 50": lambda: ComplEx(ENTITIES, RELATIONS, dim=50, seed=1),
    "rescal 7": lambda: RESCAL(ENTITIES, RELATIONS, dim=7, seed=1),
    "distmult 5": lambda: DistMult(ENTITIES, RELATIONS, dim=5, seed=1),
}
"""Each is compiled for seconds. Real or complex, one block or several, one frequency or several: every pair."""
if WHOLE:
    GEOMETRIES["b4 m8"] = lambda: BlockHolE(ENTITIES, RELATIONS, blocks=4, block_size=8, seed=1)
    GEOMETRIES["b2 m25"] = lambda: BlockHolE(ENTITIES, RELATIONS, blocks=2, block_size=25, seed=1)


COMPILED = first_quick(GEOMETRIES)


def make_batch(count: int, hops: int, index: int = 0, corrupted: int = 0) -> Batch:
    """A batch of few entities, so that sources, targets and negatives repeat and meet."""
    rng = np.random.default_rng(100 * hops + index)
    corruptions = Corruptions(
        torch.from_numpy(rng.integers(2 * RELATIONS, size=(count, corrupted, hops))),
        torch.from_numpy(rng.random((count, corrupted)) < 0.7),
    )
    return Batch(
        source=torch.from_numpy(rng.integers(12, size=count)),
        path=torch.from_numpy(rng.integers(2 * RELATIONS, size=(count, hops))),
        target=torch.from_numpy(rng.integers(12, size=count)),
        epoch=3,
        index=index,
        corruptions=corruptions if corrupted else None,
    )


def draw_negatives(batch: Batch, negatives: int) -> NDArray[np.int64]:
    draws = KeyedDraws(SEED, Purpose.NEGATIVES)
    draws.begin(batch.source.device, batch.epoch, batch.index)
    return draws.draw(ENTITIES, len(batch.source), negatives).numpy()


class DenseOracle:
    """Complex einsum in float64, autograd, and Adagrad written out over whole tables."""

    def __init__(self, model: BlockBilinear, kind: OptimizerKind, rate: float, l2: float, start: float) -> None:
        self.geometry = model.geometry
        self.tables = [p.detach().double().clone().requires_grad_() for p in (model.entity, model.relation)]
        self.kind, self.rate, self.l2 = kind, rate, l2
        self.totals = [torch.full_like(table, start, requires_grad=False) for table in self.tables]

    def loss(self, batch: Batch, objects: Tensor) -> Tensor:
        entity, relation = self.tables
        e = self._complex(entity, self.geometry.entity_shape)
        w = self._complex(relation, self.geometry.relation_shape)
        total = torch.zeros((), dtype=torch.float64)
        for x in range(len(batch.source)):
            s, o = batch.source[x], batch.target[x]
            for r in batch.path[x]:
                total = total + self.l2 * relation[r].square().sum()
            total = total + self.l2 * (entity[s].square().sum() + entity[o].square().sum())
            judged = [(1, batch.path[x], o)] + [(-1, batch.path[x], n) for n in objects[x]]
            if batch.corruptions is not None:
                judged += [(-1, path, o) for path in batch.corruptions.paths[x][batch.corruptions.false[x]]]
            for y, path, candidate in judged:
                query = e[s]
                for r in path:
                    query = torch.einsum("if,ijf->jf", query, w[r])
                score = (query * e[candidate].conj()).sum().real
                total = total + torch.log1p(torch.exp(-y * score))
        return total / len(batch.source)

    def step(self, batch: Batch, objects: Tensor) -> float:
        loss = self.loss(batch, objects)
        gradients = torch.autograd.grad(loss, self.tables)
        with torch.no_grad():
            for table, total, gradient in zip(self.tables, self.totals, gradients, strict=True):
                square = gradient.square()
                total += square.mean(dim=1, keepdim=True) if self.kind == "rowwise_adagrad" else square
                table -= self.rate * gradient / (total.sqrt() + 1e-10)
        return float(loss.detach())

    @staticmethod
    def _complex(table: Tensor, shape: Sequence[int]) -> Tensor:
        parts = table.reshape(len(table), *shape)
        imaginary = parts[:, 1] if shape[0] == 2 else torch.zeros_like(parts[:, 0])
        return torch.complex(parts[:, 0], imaginary)


def settings_of(kind: OptimizerKind = "adagrad", l2: float = 0.0, **loss: Any) -> TrainConfig:
    return TrainConfig(
        loss=LossConfig(**loss),
        penalty=PenaltyConfig(l2=l2),
        optimizer=OptimizerConfig(kind=kind, learning_rate=0.05, initial_accumulator=1e-4),
        training=TrainingConfig(seed=SEED),
    )


def build_fused(
    model: BlockBilinear, kind: OptimizerKind = "adagrad", l2: float = 0.0, threads: int = 1
) -> FusedStepper:
    return FusedStepper(model, settings_of(kind, l2), threads=threads)


def small_model(tied: bool = False) -> BlockHolE:
    return BlockHolE(ENTITIES, RELATIONS, blocks=3, block_size=5, tied=tied, seed=1)


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("kind", ["adagrad", "rowwise_adagrad"])
@pytest.mark.parametrize("corrupted", [0, 2])
def test_steps_equal_the_dense_oracle(name: str, kind: OptimizerKind, corrupted: int) -> None:
    model = GEOMETRIES[name]()
    engine = build_fused(model, kind, l2=0.01)
    oracle = DenseOracle(model, kind, rate=0.05, l2=0.01, start=1e-4)
    for index, hops in enumerate([1, 2, 3, 4, 5, 1]):
        batch = make_batch(count=21, hops=hops, index=index, corrupted=corrupted)
        expected = oracle.step(batch, torch.from_numpy(draw_negatives(batch, 5)))
        assert float(engine.step(batch)) == pytest.approx(expected, rel=1e-5)
        for table, parameter in zip(oracle.tables, (model.entity, model.relation), strict=True):
            torch.testing.assert_close(parameter.detach().double(), table.detach(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("corrupted", "balanced"), [(0, False), (1, False), (2, True)])
def test_steps_equal_those_of_the_autograd_stepper(corrupted: int, balanced: bool) -> None:
    config = settings_of(l2=0.01, corrupted_paths=corrupted, corrupt="once", balanced=balanced)
    names = Vocabulary([f"e{i}" for i in range(ENTITIES)]), Vocabulary([f"r{i}" for i in range(RELATIONS)], "relation")
    graph = KnowledgeGraph(*names, np.zeros((0, 3), dtype=np.int32))
    fused_model, autograd_model = small_model(), small_model()
    fused = FusedStepper(fused_model, config)
    autograd = AutogradStepper(autograd_model, config, graph)
    for index in range(4):
        batch = make_batch(count=50, hops=1 + index, index=index, corrupted=corrupted)
        torch.testing.assert_close(fused.step(batch), autograd.step(batch), rtol=1e-5, atol=0)
    torch.testing.assert_close(fused_model.entity, autograd_model.entity, rtol=2e-4, atol=2e-5)
    torch.testing.assert_close(fused_model.relation, autograd_model.relation, rtol=2e-4, atol=2e-5)
    for name, total in autograd.optimizer_state().items():
        torch.testing.assert_close(fused.optimizer_state()[name], total, rtol=2e-4, atol=1e-7)


def uneven_batches() -> list[Batch]:
    """Batches larger than a chunk and than a piece, of sizes that divide neither, some with corrupted paths."""
    return [make_batch(301 + 7 * index, hops=1 + index % 3, index=index, corrupted=index % 2) for index in range(6)]


def train(threads: int, kind: OptimizerKind = "adagrad") -> tuple[BlockHolE, list[float]]:
    model = small_model()
    engine = build_fused(model, kind, l2=0.001, threads=threads)
    losses = [float(engine.step(batch)) for batch in uneven_batches()]
    return model, losses


@pytest.mark.parametrize("helpers_are_faster", [True, False])
def test_helpers_are_called_where_they_were_faster(helpers_are_faster: bool) -> None:
    trial = Trial()
    for _ in range(2):
        called = []
        for _ in range(TRIED + KEPT):
            called.append(trial.calls_helpers())
            trial.note(called[-1], 1.0 if called[-1] == helpers_are_faster else 2.0)
        assert called[:TRIED] == [True, False] * (TRIED // 2)
        assert called[TRIED:] == [helpers_are_faster] * KEPT


@pytest.mark.parametrize("threads", [2, 3, 20])
def test_weights_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    alone, together = train(1), train(threads)
    assert torch.equal(alone[0].entity, together[0].entity)
    assert torch.equal(alone[0].relation, together[0].relation)
    assert alone[1] == together[1]


def test_training_lowers_the_loss() -> None:
    model = small_model()
    engine = build_fused(model)
    batch = make_batch(count=100, hops=2)
    losses = [float(engine.step(batch)) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("kind", ["adagrad", "rowwise_adagrad"])
def test_a_loaded_state_continues_bit_for_bit(kind: OptimizerKind) -> None:
    whole, _ = train(1, kind)
    model = small_model()
    first = build_fused(model, kind, l2=0.001)
    batches = uneven_batches()
    for batch in batches[:2]:
        first.step(batch)
    saved = {name: value.clone() for name, value in first.optimizer_state().items()}
    second = build_fused(model, kind, l2=0.001)
    second.load_optimizer_state(saved)
    for batch in batches[2:]:
        second.step(batch)
    assert torch.equal(model.entity, whole.entity)
    assert torch.equal(model.relation, whole.relation)


def test_rows_outside_the_batch_do_not_move() -> None:
    model = small_model()
    before = model.entity.detach().clone(), model.relation.detach().clone()
    batch = make_batch(count=4, hops=1)
    build_fused(model, l2=0.1).step(batch)
    met = {*batch.source.tolist(), *batch.target.tolist(), *draw_negatives(batch, 5).flatten().tolist()}
    assert set((model.entity != before[0]).any(dim=1).nonzero().flatten().tolist()) == met
    assert set((model.relation != before[1]).any(dim=1).nonzero().flatten().tolist()) == set(
        batch.path.flatten().tolist()
    )


def test_a_diverged_model_has_a_loss_that_shows_it() -> None:
    model = small_model()
    with torch.no_grad():
        model.entity.fill_(float("nan"))
    assert not build_fused(model).step(make_batch(count=3, hops=1)).isfinite()


@pytest.mark.parametrize(("source", "relation"), [(ENTITIES, 0), (-1, 0), (0, 2 * RELATIONS), (0, -1)])
def test_ids_outside_the_tables_are_refused(source: int, relation: int) -> None:
    batch = Batch(torch.tensor([source]), torch.tensor([[relation]]), torch.tensor([0]), epoch=0, index=0)
    with pytest.raises(ValueError, match="ids within the model's tables"):
        build_fused(small_model()).step(batch)


def test_corrupted_paths_outside_the_tables_are_refused() -> None:
    ids = torch.tensor([0])
    corruptions = Corruptions(torch.tensor([[[2 * RELATIONS]]]), torch.tensor([[True]]))
    with pytest.raises(ValueError, match="ids within the model's tables"):
        build_fused(small_model()).step(Batch(ids, ids[:, None], ids, epoch=0, index=0, corruptions=corruptions))


def test_tied_inverses_are_refused() -> None:
    with pytest.raises(ValueError, match="tied inverse relations need the autograd stepper"):
        build_fused(small_model(tied=True))


def test_supports_says_what_the_engine_can_train() -> None:
    plain = TrainConfig()
    assert fuses(small_model(), plain)
    assert fuses(RESCAL(ENTITIES, RELATIONS, dim=4), plain)
    assert fuses(small_model(), TrainConfig(loss=LossConfig(corrupted_paths=1, corrupt="once")))
    assert not fuses(small_model(tied=True), plain)
    assert not fuses(TransE(ENTITIES, RELATIONS, dim=4), plain)
    unsupported = [
        TrainConfig(loss=LossConfig(kind="softmax")),
        TrainConfig(loss=LossConfig(corrupted_paths=1)),
        TrainConfig(loss=LossConfig(self_adversarial=1.0)),
        TrainConfig(loss=LossConfig(typed_share=0.5)),
        TrainConfig(loss=LossConfig(mask_known_answers=True)),
        TrainConfig(penalty=PenaltyConfig(n3=0.1)),
        TrainConfig(penalty=PenaltyConfig(dura=0.1)),
        TrainConfig(optimizer=OptimizerConfig(kind="adam")),
    ]
    assert not any(fuses(small_model(), config) for config in unsupported)


def test_the_logistic_function_is_accurate_to_single_precision() -> None:
    margins = np.concatenate([np.linspace(-79, 79, 20001), np.linspace(-2, 2, 4001)]).astype(np.float32)
    exact = margins.astype(np.float64)
    slopes = margins.copy()
    total = logistic(slopes, np.float32(1))
    np.testing.assert_allclose(slopes, 1 / (1 + np.exp(exact)), rtol=2e-5, atol=0)
    np.testing.assert_allclose(slopes, 1 / (1 + np.exp(exact)), rtol=0, atol=2e-7)
    assert total == pytest.approx(np.logaddexp(0, -exact).sum(), rel=1e-5)
    for margin in (-30.0, -3.0, -0.1, 0.0, 0.4, 2.0, 9.0):
        value = logistic(np.array([margin], dtype=np.float32), np.float32(1))
        assert value == pytest.approx(np.logaddexp(0, -margin), rel=2e-6)


@given(entities=st.integers(1, 5000), count=st.integers(1, 30), negatives=st.integers(1, 6), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_objects_are_drawn_as_by_keyed_draws(entities: int, count: int, negatives: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    among, target = rng.permutation(2 * entities)[:entities], rng.integers(entities, size=count)
    draws = KeyedDraws(seed, Purpose.NEGATIVES)
    draws.begin(torch.device("cpu"), epoch=seed, batch=count)
    objects = np.empty((count, 1 + negatives), np.int64)
    draw_objects(draw_key(seed, Purpose.NEGATIVES, seed, count), among, target, objects)
    assert (objects[:, 0] == target).all()
    assert (objects[:, 1:] == among[draws.draw(entities, count, negatives).numpy()]).all()


@given(
    entities=st.integers(1, 5000),
    count=st.integers(1, 30),
    others=st.integers(0, 30),
    slots=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=40)
def test_occurrences_are_sorted_by_entity(entities: int, count: int, others: int, slots: int, seed: int) -> None:
    rng, rows = np.random.default_rng(seed), count + others
    source, objects = rng.integers(entities, size=rows), rng.integers(entities, size=(rows, slots))
    keys, spare = np.empty((2, count_occurrences(rows, count, slots)), np.uint64)
    order = sort_occurrences(Rows(source, np.zeros((rows, 1), np.int64), objects, count), keys, spare, entities)
    places = [(objects[x, slot], x, slot) for x in range(rows) for slot in range(slots if x < count else 1)]
    expected = sorted(places + [(source[x], x, slots) for x in range(rows)])
    bits = slots.bit_length()
    assert order.tolist() == [(int(entity) << 32) | (x << bits) | slot for entity, x, slot in expected]
    # Where they ended is known without sorting, to threads that did not sort them.
    assert order.tolist() == (spare if count_passes(entities) % 2 else keys).tolist()
