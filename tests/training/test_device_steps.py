"""Steps that a GPU records, run on the CPU: draws by key, whole tables, corruptions checked beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from blockhole.errors import ConfigError
from blockhole.fitting import train
from blockhole.queries.answer_masks import hold_by_masks
from blockhole.queries.exact import answers, holds
from blockhole.queries.paths import PathQueries
from blockhole.training.batches import Batch, PathTensors
from blockhole.training.draws import KeyedDraws, Purpose
from blockhole.training.negatives import KnownCorruptions, corrupt_once
from blockhole.training.positives import StoredPositives
from blockhole.training.steppers import AutogradStepper

from .worlds import config, random_data, random_queries, random_split, tiny_model

SPLIT = random_split()
GRAPH = SPLIT.graph("train")
CPU = torch.device("cpu")
PATHS = PathTensors.of(PathQueries.concatenate([random_queries(SPLIT, 40, hops, hops) for hops in (1, 2, 3)]), CPU)
CORRUPTED = {"loss__corrupted_paths": 2, "loss__corrupt": "once"}


def batches(corrupted: bool) -> list[Batch]:
    corruptions = corrupt_once(PATHS, config(**CORRUPTED).loss, GRAPH) if corrupted else None
    plan = StoredPositives(PATHS, 0, 16, corruptions=corruptions).plan(0)
    return [plan.batch(index) for index in range(len(plan))]


@pytest.mark.parametrize("corrupted", [False, True])
@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise_adagrad"])
@pytest.mark.parametrize("name", ["blockhole", "complex", "distmult", "rescal"])
def test_a_step_on_the_whole_table_equals_one_on_gathered_rows(name: str, optimizer: str, corrupted: bool) -> None:
    settings = config(optimizer__kind=optimizer, penalty__l2=0.01, **(CORRUPTED if corrupted else {}))
    seen = np.array([entity for entity in range(GRAPH.num_entities) if entity != 5])
    models = [tiny_model(SPLIT, name), tiny_model(SPLIT, name)]
    engines = [
        AutogradStepper(model, settings, GRAPH, seen, whole_table=whole)
        for model, whole in zip(models, (False, True), strict=True)
    ]
    assert [engine.recordable for engine in engines] == [False, True]
    for batch in batches(corrupted):
        gathered, whole = (engine.step(batch) for engine in engines)
        torch.testing.assert_close(whole, gathered, rtol=1e-9, atol=1e-12)
    for mine, theirs in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "asked",
    [
        {"penalty__n3": 0.05, "loss__relation_weight": 2.0},
        {"penalty__dura": 0.02, "loss__query_dropout": 0.3, "loss__rare_weight": 0.5},
        {"penalty__l2": 0.01, "training__members": 3},
    ],
)
@pytest.mark.parametrize("name", ["blockhole", "complex"])
def test_a_step_with_ends_apart_equals_one_on_the_table(name: str, asked: dict[str, object]) -> None:
    settings = config(loss__kind="softmax", **asked)
    # As rows are gathered where only some take part, in another order than they are stored.
    seen = np.random.default_rng(0).permutation(GRAPH.num_entities)
    models = [tiny_model(SPLIT, name), tiny_model(SPLIT, name)]
    engines = [
        AutogradStepper(model, settings, GRAPH, seen, ends_apart=apart)
        for model, apart in zip(models, (False, True), strict=True)
    ]
    for batch in batches(corrupted=False):
        together, apart = (engine.step(batch) for engine in engines)
        torch.testing.assert_close(apart, together, rtol=1e-9, atol=1e-12)
    for mine, theirs in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-10)


def test_a_step_that_asks_the_host_is_not_recorded() -> None:
    for kind in ("logistic", "sampled_softmax"):
        for asked in ({"loss__corrupted_paths": 1}, {"loss__mask_known_answers": True}, {"loss__typed_share": 0.5}):
            settings = config(loss__kind=kind, **asked)
            assert not AutogradStepper(tiny_model(SPLIT), settings, GRAPH, whole_table=True).recordable
    assert AutogradStepper(tiny_model(SPLIT), config(loss__kind="softmax"), GRAPH).recordable


def test_corruptions_drawn_once_are_false_where_they_count_and_differ_from_their_positives() -> None:
    found = corrupt_once(PATHS, config(**CORRUPTED).loss, GRAPH)
    kinds = set()
    for row in range(len(PATHS)):
        hops = int(PATHS.length[row])
        own = PATHS.path[row, :hops].tolist()
        for path, false in zip(found.paths[row], found.false[row], strict=True):
            changed = path[:hops].tolist()
            true = int(PATHS.target[row]) in answers(GRAPH, int(PATHS.source[row]), changed)
            assert bool(false) == (not true and changed != own)
            assert path[hops:].tolist() == [0] * (PATHS.path.shape[1] - hops)
            kinds.add((sorted(changed) == sorted(own), changed == own[::-1]))
    assert len(kinds) == 3


def test_batches_carry_the_corruptions_of_their_positives() -> None:
    found = corrupt_once(PATHS, config(**CORRUPTED).loss, GRAPH)
    plan = StoredPositives(PATHS, 0, 16, corruptions=found).plan(3)
    members = iter(plan.members.tolist())
    for batch in (plan.batch(index) for index in range(len(plan))):
        assert batch.corruptions is not None
        copy = batch.clone()
        for row in range(len(batch.source)):
            member, hops = next(members), batch.path.shape[1]
            assert batch.corruptions.paths[row].tolist() == found.paths[member, :, :hops].tolist()
            assert batch.corruptions.false[row].tolist() == found.false[member].tolist()
        for mine, theirs in zip(copy.tensors(), batch.tensors(), strict=True):
            assert torch.equal(mine, theirs)
            assert mine.data_ptr() != theirs.data_ptr()


def test_known_corruptions_are_kept_for_the_same_positives_alone() -> None:
    known, loss = KnownCorruptions(), config(**CORRUPTED).loss
    first = known.of(PATHS, loss, GRAPH)
    again = PathTensors.of(
        PathQueries(*(ids.numpy().copy() for ids in (PATHS.source, PATHS.path, PATHS.length, PATHS.target))), CPU
    )
    assert known.of(again, loss, SPLIT.graph("train")) is first
    assert known.of(PATHS.take(torch.arange(9)), loss, GRAPH) is not first
    one = loss.model_copy(update={"corrupted_paths": 1})
    assert known.of(PATHS, one, GRAPH).false.shape == (len(PATHS), 1)


def test_corrupting_once_needs_stored_positives() -> None:
    settings = {"loss.corrupted_paths": 1, "loss.corrupt": "once", "training.walks": "fresh", "training.epochs": 1}
    with pytest.raises(ConfigError, match=r"loss.corrupt = 'once' needs stored positives; set training.walks"):
        train(random_data(), settings={**settings, "training.device": "cpu"})


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_masks_hold_what_loops_do(hops: int) -> None:
    queries = random_queries(SPLIT, 300, hops, seed=hops)
    found = hold_by_masks(GRAPH, queries, "cpu", batch_size=64)
    assert 0 < found.sum() < len(queries)
    assert (found == holds(GRAPH, queries)).all()


def test_keyed_draws_are_functions_of_their_names_and_uniform() -> None:
    def numbers(seed: int = 0, purpose: Purpose = Purpose.NEGATIVES, epoch: int = 0, index: int = 0) -> list[int]:
        draws = KeyedDraws(seed, purpose)
        draws.begin(CPU, epoch, index)
        first, second = draws.draw(7, 500, 2), draws.draw(7, 1000)
        assert first.flatten().tolist() != second.tolist()
        return [*first.flatten().tolist(), *second.tolist()]

    drawn = numbers()
    assert drawn == numbers()
    places = [numbers(seed=1), numbers(purpose=Purpose.CORRUPTION), numbers(epoch=1), numbers(index=1)]
    assert drawn not in places
    counts = np.bincount(drawn, minlength=7)
    assert ((counts - 2000 / 7) ** 2 / (2000 / 7)).sum() < 22.5  # χ² of 6 degrees: one in a thousand


def test_a_batch_without_its_corruptions_draws_them() -> None:
    settings = config(loss__corrupted_paths=2)
    engine = AutogradStepper(tiny_model(SPLIT), settings, GRAPH)
    other = AutogradStepper(tiny_model(SPLIT), settings, GRAPH)
    batch = batches(corrupted=True)[-1]
    assert engine.step(batch) != other.step(replace(batch, corruptions=None))
