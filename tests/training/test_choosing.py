"""What `train` chooses where nothing is asked of it: when it looks, what it tries, and what it makes of the figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from blockhole import choosing
from blockhole.choosing import WAYS, Judged, is_open, look
from blockhole.data.dataset import DataSet, load
from blockhole.fitting import plan_memory, train
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.path_sets import build_paths
from blockhole.runs.config import TrainConfig, gather
from experiments.graphs import generate

EDGES = next(way for way in WAYS if way.name == "edges")


@pytest.fixture(scope="module")
def dense() -> DataSet:
    return generate("dense")


class Judge:
    """Gives each way the reciprocal ranks that a test wants it to have, told apart by its settings."""

    def __init__(self, ranks: dict[str, NDArray[np.float64]], best_epoch: int | None = 7) -> None:
        self.ranks = ranks
        self.best_epoch = best_epoch
        self.seen: list[tuple[DataSet, TrainConfig]] = []

    def __call__(self, data: DataSet, config: TrainConfig) -> Judged:
        way = WAYS[len(self.seen)]
        self.seen.append((data, config))
        return self.ranks.get(way.name, np.full(100, 0.1)), self.best_epoch


def test_a_graph_without_settings_is_looked_at(dense: DataSet) -> None:
    asked = gather(overrides={"training.seed": 3, "training.epochs": 2, "training.threads": 1})
    assert is_open(dense, {})
    assert is_open(dense, asked)


@pytest.mark.parametrize("settings", [{"training.on": "base"}, {"model.dim": 50}, {"penalty.dura": 0.1}])
def test_who_names_a_setting_that_matters_has_chosen(dense: DataSet, settings: dict[str, Any]) -> None:
    assert not is_open(dense, gather(overrides=settings))


def test_graphs_that_a_look_cannot_serve_have_a_preset(dense: DataSet) -> None:
    assert not is_open(load("family"), {})  # its preset is named beside it
    assert not is_open(DataSet("tiny", replace(dense.split, train=dense.split.train[:199])), {})
    assert not is_open(dense.with_paths(build_paths(dense.split)), {})


def test_the_first_way_is_taken_unless_another_is_better_by_more_than_chance(dense: DataSet) -> None:
    draw = np.random.default_rng(0)
    noise = draw.normal(size=100)
    alike = {WAYS[0].name: np.full(100, 0.5), EDGES.name: 0.501 + noise - noise.mean()}
    assert look(dense, {}, Judge(alike)).training.on == "paths"
    better = {WAYS[0].name: np.full(100, 0.5), EDGES.name: 0.6 + 0.1 * (noise - noise.mean())}
    chosen = look(dense, {}, Judge(better))
    assert (chosen.training.on, chosen.penalty.dura) == ("base", 0.05)
    assert chosen.choice == "edges: MRR 0.600 of held-out facts after a short training, the best of 6 ways tried"


def test_every_way_is_tried_for_as_many_steps_with_the_seed_that_is_asked_for(dense: DataSet) -> None:
    judge = Judge({})
    chosen = look(dense, gather(overrides={"training.seed": 5, "training.epochs": 3}), judge)
    assert len(judge.seen) == len(WAYS)
    for data, config in judge.seen:
        assert data is dense
        assert (config.training.seed, config.training.epochs) == (5, None)
        assert config.training.steps == choosing.LOOK_STEPS * (4 if config.training.batch_size == 128 else 1)
    assert (chosen.training.seed, chosen.training.epochs, chosen.early_stop.metric) == (5, 3, "mrr")


def test_without_validation_facts_a_tenth_of_train_is_held_out_for_the_look_alone(dense: DataSet) -> None:
    bare = DataSet("bare", replace(dense.split, valid=dense.split.valid[:0]))
    judge = Judge({})
    chosen = look(bare, {}, judge)
    held_out = judge.seen[0][0].split
    assert len(held_out.valid) == pytest.approx(len(bare.split.train) / 10, abs=1)
    assert len(held_out.valid) + len(held_out.train) == len(bare.split.train)
    assert (chosen.early_stop.metric, chosen.training.epochs) == (None, 7)
    assert look(bare, {}, Judge({}, best_epoch=None)).training.epochs is None


@pytest.mark.slow
def test_training_takes_what_the_look_chose_and_keeps_the_sentence(
    dense: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "LOOK_STEPS", 10)
    run = train(dense, epochs=2, device="cpu")
    assert run.config.choice is not None
    assert run.config.choice.startswith(tuple(way.name for way in WAYS))
    assert run.state.epoch == 2
    assert run.state.best_figure is not None
    again = train(dense, epochs=2, device="cpu")
    assert again.config == run.config
    assert np.array_equal(again.model.entity.detach().numpy(), run.model.entity.detach().numpy())


def test_larger_graphs_are_trained_by_their_size_without_a_look() -> None:
    draw = np.random.default_rng(0)
    facts = draw.integers(2001, size=(300, 3)).astype(np.int32) % np.array([2001, 1, 2001], dtype=np.int32)
    names, relations = Vocabulary([f"e{i}" for i in range(2001)]), Vocabulary(["r"], "relation")
    large = DataSet("large", SplitGraph(names, relations, train=facts))
    judge = Judge({})
    chosen = look(large, {}, judge)
    assert not judge.seen
    assert (chosen.loss.kind, chosen.penalty.dura, chosen.loss.relation_weight) == ("sampled_softmax", 0.1, 0.0)
    assert (chosen.training.on, chosen.training.walks_per_edge, chosen.early_stop.metric) == ("paths", 1, None)


def test_memory_is_planned_without_a_look(dense: DataSet) -> None:
    assert plan_memory(dense).held > 0
