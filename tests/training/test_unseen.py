"""Entities without a positive: they rival nobody, and are read out as an average entity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet
from blockhole.fitting import train
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.contract import Model
from blockhole.runs.checkpoint import load_checkpoint
from blockhole.runs.run import Run
from blockhole.training import learner as module
from blockhole.training.batches import Batch, PathTensors
from blockhole.training.kernels.fused import FusedStepper
from blockhole.training.learner import give_mean_to_unseen, seen_entities
from blockhole.training.positives import FreshWalks, StoredPositives
from blockhole.training.steppers import AutogradStepper, Stepper, build_stepper

from .worlds import config, random_queries, random_split, tiny_model

SMALL = random_split(entities=9)
"""A graph in which every entity has a fact."""

SEEN = np.array([0, 1, 3, 4, 6, 7, 8, 9, 11])
"""Where those entities stand in a vocabulary with three more."""

LOSSES: dict[str, dict[str, Any]] = {
    "logistic": {"loss__kind": "logistic"},
    "logistic, typed, masked": {"loss__kind": "logistic", "loss__typed_share": 0.5, "loss__mask_known_answers": True},
    "softmax": {"loss__kind": "softmax", "penalty__dura": 0.1},
    "softmax, masked, corrupted paths": {
        "loss__kind": "softmax",
        "loss__mask_known_answers": True,
        "loss__corrupted_paths": 2,
    },
    "sampled": {"loss__kind": "sampled_softmax", "loss__negatives": 5},
    "sampled, typed": {"loss__kind": "sampled_softmax", "loss__negatives": 5, "loss__typed_share": 0.5},
}


def widened() -> SplitGraph:
    """SMALL with three entities that have no fact, its other ids moved to SEEN."""
    entities = Vocabulary([f"x{i}" for i in range(12)])

    def moved(triples: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.column_stack([SEEN[triples[:, 0]], triples[:, 1], SEEN[triples[:, 2]]]).astype(np.int32)

    return SplitGraph(entities, SMALL.relations, train=moved(SMALL.train), valid=moved(SMALL.valid))


WIDE = widened()


def twins(shape: tuple[int, int] = (2, 3)) -> tuple[Model, Model]:
    """A model over SMALL, and one over WIDE with the same rows."""
    small, wide = tiny_model(SMALL, shape=shape), tiny_model(WIDE, seed=1, shape=shape)
    with torch.no_grad():
        wide.entity[torch.from_numpy(SEEN)] = small.entity
        wide.relation.copy_(small.relation)
    return small, wide


def batches(hops: int) -> tuple[Batch, Batch]:
    queries = random_queries(SMALL, 6, hops, seed=hops)
    source, path, target = (ids.astype(np.int64) for ids in (queries.source, queries.path, queries.target))
    path[:, -1] = path[0, -1]
    small = Batch(torch.from_numpy(source), torch.from_numpy(path), torch.from_numpy(target), epoch=1, index=2)
    wide = Batch(torch.from_numpy(SEEN[source]), small.path, torch.from_numpy(SEEN[target]), epoch=1, index=2)
    return small, wide


def assert_same_steps(small: Model, wide: Model, steppers: tuple[Stepper, Stepper]) -> None:
    before = wide.entity.detach().clone()
    for hops in (1, 3, 2):
        small_batch, wide_batch = batches(hops)
        assert steppers[1].step(wide_batch) == steppers[0].step(small_batch)
    assert torch.equal(wide.entity[torch.from_numpy(SEEN)], small.entity)
    assert torch.equal(wide.relation, small.relation)
    unseen = [2, 5, 10]
    assert torch.equal(wide.entity[unseen], before[unseen])
    assert not wide.entity[torch.from_numpy(SEEN)].equal(before[torch.from_numpy(SEEN)])


@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise_adagrad", "adam"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_is_the_one_of_a_world_without_them(loss: str, optimizer: str) -> None:
    settings = config(**LOSSES[loss], optimizer__kind=optimizer)
    small, wide = twins()
    plain = AutogradStepper(small, settings, SMALL.graph("train"))
    told = AutogradStepper(wide, settings, WIDE.graph("train"), SEEN)
    assert_same_steps(small, wide, (plain, told))


def test_the_fused_stepper_leaves_them_out_too() -> None:
    settings = config(loss__kind="logistic", penalty__l2=0.01)
    small, wide = (model.float() for model in twins((3, 5)))  # as test_fused.py has compiled it
    plain = build_stepper(small, settings, SMALL.graph("train"), threads=1)
    told = build_stepper(wide, settings, WIDE.graph("train"), threads=1, seen=SEEN)
    assert isinstance(told, FusedStepper)
    assert_same_steps(small, wide, (plain, told))


def test_entities_of_facts_and_of_positives_are_seen() -> None:
    graph = WIDE.graph("train")
    walked = seen_entities(graph, FreshWalks(graph, 0, "none", 8, torch.device("cpu")))
    assert walked is not None
    assert walked.tolist() == SEEN.tolist()
    further = random_queries(WIDE, 1, hops=2).take(np.array([0]))
    further = type(further)(np.array([2], np.int32), further.path, further.length, np.array([5], np.int32))
    stored = StoredPositives(PathTensors.of(further, torch.device("cpu")), 0, 8)
    seen = seen_entities(graph, stored)
    assert seen is not None
    assert set(range(12)) - set(seen.tolist()) == {10}
    known = random_queries(SMALL, 3, hops=2)
    stored = StoredPositives(PathTensors.of(known, torch.device("cpu")), 0, 8)
    assert seen_entities(SMALL.graph("train"), stored) is None


@pytest.mark.parametrize("together", [1 << 17, 4])
@pytest.mark.parametrize("name", ["blockhole", "rescal", "transe"])
def test_the_others_mean_by_hand(name: str, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS_TOGETHER", together)
    model = tiny_model(WIDE, name)
    before = model.entity.detach().clone()
    give_mean_to_unseen(model, SEEN)
    for entity in range(12):
        expected = before[entity] if entity in SEEN else sum(before[e] for e in SEEN.tolist()) / len(SEEN)
        torch.testing.assert_close(model.entity[entity].detach(), expected)


def test_a_bilinear_score_is_the_mean_of_the_others() -> None:
    model = tiny_model(WIDE)
    give_mean_to_unseen(model, SEEN)
    source, path = torch.tensor([3]), torch.tensor([[1, 4, 0]])
    scores = (model.embed_paths(source, path) @ model.candidates().T)[0]
    torch.testing.assert_close(scores[[2, 5, 10]], scores[torch.from_numpy(SEEN)].mean().expand(3))


SETTINGS: dict[str, Any] = {
    "model.blocks": 2,
    "model.block_size": 3,
    "training.threads": 1,
    "training.device": "cpu",
    "training.batch_size": 64,
    "training.unseen_entities": "mean",
}


def trained(epochs: int, out: Path | None = None, *, resume: bool = False, **settings: Any) -> Run:
    chosen = {**SETTINGS, "training.epochs": epochs}
    chosen |= {key.replace("__", "."): value for key, value in settings.items()}
    return train(DataSet("wide", WIDE), settings=chosen, out=out, resume=resume)


def assert_averages(entity: torch.Tensor) -> None:
    mean = entity[torch.from_numpy(SEEN)].mean(dim=0)
    assert torch.equal(entity[[2, 5, 10]], mean.expand(3, -1))


@pytest.mark.parametrize("kind", ["logistic", "softmax", "sampled_softmax"])
def test_a_run_reads_them_out_as_the_mean(kind: str, tmp_path: Path) -> None:
    run = trained(2, tmp_path / "run", loss__kind=kind, early_stop__metric="mq")
    assert_averages(run.model.entity.detach())
    assert_averages(Run.open(tmp_path / "run").model.entity.detach())
    assert_averages(load_checkpoint(tmp_path / "run").weights["entity"])
    assert_averages(trained(2, loss__kind=kind).model.entity.detach())
    own = trained(2, loss__kind=kind, training__unseen_entities="own").model.entity
    assert not torch.equal(own[2], own[5])


@pytest.mark.parametrize("kind", ["logistic", "softmax", "sampled_softmax"])
def test_saving_and_resuming_change_nothing(kind: str, tmp_path: Path) -> None:
    straight = trained(4, loss__kind=kind)
    trained(2, tmp_path / "run", loss__kind=kind, training__checkpoint_seconds=0)
    resumed = trained(4, tmp_path / "run", resume=True, loss__kind=kind, training__checkpoint_seconds=0)
    for name, value in straight.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name])


def test_a_graph_without_such_entities_trains_as_ever() -> None:
    settings = {**SETTINGS, "training.epochs": 2}
    mean = train(SMALL, settings=settings)
    own = train(SMALL, settings={**settings, "training.unseen_entities": "own"})
    assert torch.equal(mean.model.entity, own.model.entity)
