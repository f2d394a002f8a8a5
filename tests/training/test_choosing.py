"""What `train` chooses where nothing is asked of it: when it looks, what it tries, and what it makes of the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from blockhole import choosing
from blockhole.choosing import WAYS, Judged, as_preset, can_look, look, without_look
from blockhole.data.dataset import DataSet, load
from blockhole.errors import NOTES
from blockhole.evaluation.completion import both_sides, inverted, log_likelihood
from blockhole.fitting import plan_memory, train
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.queries.path_sets import build_paths
from blockhole.runs.config import Settings, TrainConfig, flatten, gather, overlay, validate
from experiments.graphs import generate

EDGES = next(way for way in WAYS if way.name == "edges")
EDGES_ONLY = sum(way.on == "base" for way in WAYS)


@pytest.fixture(scope="module")
def dense() -> DataSet:
    return generate("dense")


class Judge:
    """Gives each way the likelihoods that a test wants it to have, told apart by the order in which they come."""

    def __init__(self, likelihoods: dict[str, NDArray[np.float64]], best_epoch: int | None = 7) -> None:
        self.likelihoods = likelihoods
        self.best_epoch = best_epoch
        self.seen: list[tuple[DataSet, TrainConfig]] = []

    def __call__(self, data: DataSet, config: TrainConfig) -> Judged:
        way = WAYS[len(self.seen)]
        self.seen.append((data, config))
        return Judged(self.likelihoods.get(way.name, np.full(100, -4.0)), 0.25, self.best_epoch)


@pytest.mark.parametrize(
    ("settings", "ways"),
    [
        ({"training.seed": 3, "training.threads": 1}, len(WAYS)),
        ({"model.dim": 50}, len(WAYS)),
        ({"model.dim": 32, "model.block_size": 2}, len(WAYS)),
        ({"training.batch_size": 64, "early_stop.metric": "mq", "early_stop.every": 3}, len(WAYS)),
        ({"optimizer.kind": "adam"}, len(WAYS)),
        ({"model.name": "transe"}, len(WAYS)),
        ({"training.on": "base"}, EDGES_ONLY),
        ({"model.name": "simple"}, EDGES_ONLY),  # which has no paths
        ({"penalty.dura": 0.1}, 5),  # walks, edges, from near zero, and under the cubic penalty, in blocks or not
        ({"penalty.dura": 0.1, "penalty.n3": 0.0, "training.on": "paths"}, 1),
    ],
)
def test_what_is_asked_for_holds_in_every_way_and_the_rest_is_chosen(
    dense: DataSet, settings: dict[str, Any], ways: int
) -> None:
    asked = gather(overrides=settings)
    judge = Judge({})
    chosen = look(dense, asked, judge)
    assert len(judge.seen) == ways
    assert len({config.model_dump_json() for _, config in judge.seen}) == ways
    judged = {key: value for key, value in settings.items() if not key.startswith("early_stop")}
    for config in (config for _, config in judge.seen):
        assert judged.items() <= flatten(config.model_dump()).items()
    assert settings.items() <= flatten(chosen.model_dump()).items()
    assert settings.items() <= flatten(without_look(dense, asked).model_dump()).items()


def test_a_learning_rate_for_adagrad_is_not_given_to_adam(dense: DataSet) -> None:
    adam = gather(overrides={"optimizer.kind": "adam"})
    assert look(dense, adam, Judge({})).optimizer.learning_rate == 0.01
    fast = gather(overrides={"optimizer.kind": "adam", "optimizer.learning_rate": 0.3})
    assert look(dense, fast, Judge({})).optimizer.learning_rate == 0.3


@pytest.mark.parametrize(
    ("model", "preset", "own"),
    [
        ({}, 0.5, 0.2),
        ({"name": "transe"}, 0.5, 0.2),
        ({"name": "complex", "dim": 400}, 0.5, 0.2),
        ({"name": "rescal", "dim": 25}, 0.2, 0.2),
        ({"name": "rescal", "dim": 400}, 0.05, 0.05),
        ({"name": "hole", "dim": 100}, 0.1, 0.1),
        ({"name": "blockhole-spatial", "blocks": 2, "block_size": 50}, 0.1, 0.1),
    ],
)
def test_a_rate_is_not_larger_than_the_numbers_of_relations_that_a_hop_adds_up(
    dense: DataSet, model: dict[str, object], preset: float, own: float
) -> None:
    asked: Settings = {"model": model}
    assert as_preset("small", asked).optimizer.learning_rate == pytest.approx(preset)
    assert without_look(dense, asked).optimizer.learning_rate == pytest.approx(own)
    named = overlay(asked, {"optimizer": {"learning_rate": 0.4}})
    assert as_preset("small", named).optimizer.learning_rate == 0.4
    assert without_look(dense, named).optimizer.learning_rate == 0.4


def test_graphs_that_a_look_cannot_serve(dense: DataSet) -> None:
    assert can_look(dense)
    assert not can_look(load("family"))  # its preset is named beside it
    assert not can_look(DataSet("tiny", replace(dense.split, train=dense.split.train[:199])))
    assert not can_look(dense.with_paths(build_paths(dense.split)))


@pytest.mark.parametrize("named", ["preset", "config"])
def test_a_preset_or_a_file_of_settings_says_it_all_and_a_line_says_so(
    dense: DataSet, tmp_path: Path, caplog: pytest.LogCaptureFixture, named: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[training]\nsteps = 1\n")
    given = {"preset": "small"} if named == "preset" else {"config": file}
    with caplog.at_level("INFO", logger=NOTES):
        run = train(dense, epochs=1, device="cpu", **given)
    assert [record.message for record in caplog.records if "look" in record.message] == [
        f"no look at the graph: {'small' if named == 'preset' else file} says how to train; "
        "leave it out, and a look chooses what you do not set"
    ]
    # Walks drown a dense graph's edges in the preset, which nobody gets who does not name it.
    assert run.config.training.walks_per_edge == (20 if named == "preset" else 1)


def test_the_first_way_is_taken_unless_another_is_better_by_more_than_chance(dense: DataSet) -> None:
    draw = np.random.default_rng(0)
    noise = draw.normal(size=100)
    alike = {WAYS[0].name: np.full(100, -2.0), EDGES.name: -1.99 + noise - noise.mean()}
    chosen = look(dense, {}, Judge(alike))
    assert chosen.training.on == "paths"
    assert chosen.choice is not None
    assert chosen.choice.endswith("ways tried within chance")
    better = {WAYS[0].name: np.full(100, -2.0), EDGES.name: np.log(0.6) + 0.1 * (noise - noise.mean())}
    chosen = look(dense, {}, Judge(better))
    assert (chosen.training.on, chosen.penalty.dura) == ("base", 0.05)
    assert chosen.choice == (
        "edges: held-out facts have a likelihood of 60.0% and an MRR of 0.250 after a short training, "
        f"the best of {len(WAYS)} ways tried"
    )


def test_every_way_is_tried_for_as_many_steps_with_the_seed_that_is_asked_for(dense: DataSet) -> None:
    judge = Judge({})
    chosen = look(dense, gather(overrides={"training.seed": 5, "training.epochs": 3}), judge)
    assert len(judge.seen) == len(WAYS)
    for data, config in judge.seen:
        assert data is dense
        assert (config.training.seed, config.training.epochs) == (5, None)
        assert config.training.steps == choosing.LOOK_STEPS * (4 if config.training.batch_size == 128 else 1)
    assert (chosen.training.seed, chosen.training.epochs, chosen.early_stop.metric) == (5, 3, "likelihood")


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


def large_graph(entities: int, facts: int, relations: int = 1) -> DataSet:
    draw = np.random.default_rng(0)
    drawn = (draw.integers(high, size=facts, dtype=np.int32) for high in (entities, relations, entities))
    names, kinds = Vocabulary([f"e{i}" for i in range(entities)]), Vocabulary([f"r{i}" for i in range(relations)])
    return DataSet("large", SplitGraph(names, kinds, train=np.stack(list(drawn), axis=1)))


@pytest.mark.parametrize(
    ("graph", "chosen"),
    [
        ((2001, 300), ("softmax", "paths", 0.1, 0.0)),
        ((10_000, 160_000, 60), ("softmax", "base", 0.03, 1.0)),
        ((60_000, 200_000), ("sampled_softmax", "paths", 0.1, 0.0)),
        ((60_000, 4_000_000), ("sampled_softmax", "base", 0.05, 0.0)),
    ],
)
def test_larger_graphs_are_trained_by_what_their_size_lets_the_budget_pay_for(
    graph: tuple[int, ...], chosen: tuple[str, str, float, float]
) -> None:
    judge, data = Judge({}), large_graph(*graph)
    config = look(data, {}, judge)
    assert not judge.seen
    assert (config.loss.kind, config.training.on, config.penalty.dura, config.loss.relation_weight) == chosen
    assert config.training.share_queries == (config.loss.kind == "softmax")
    assert config.early_stop.metric is None  # there is nothing to stop by
    assert config.choice is not None
    assert "on two cores" in config.choice
    asked = look(data, gather(overrides={"loss.kind": "softmax", "training.epochs": 3}), judge)
    assert (asked.loss.kind, asked.training.epochs) == ("softmax", 3)
    assert "3 epochs at most" in str(asked.choice)


def test_the_estimate_counts_operations() -> None:
    config = validate(
        {"model": {"blocks": 1, "block_size": 4}, "loss": {"kind": "softmax"}, "training": {"on": "base"}}
    )
    data = large_graph(100, 40)
    assert choosing.core_seconds(config, data) == pytest.approx(6 * 80 * 100 * 8 / choosing.CORE)
    facts = np.zeros((40, 3), dtype=np.int32)
    facts[:, 2] = np.arange(40)
    star = DataSet("star", replace(data.split, train=facts))
    shared = config.model_copy(update={"training": config.training.model_copy(update={"share_queries": True})})
    # Forty answers to one question are three bunches of at most sixteen; backwards each asks for itself.
    assert choosing.core_seconds(shared, star) == pytest.approx(6 * 43 * 100 * 8 / choosing.CORE)


def test_small_graphs_are_trained_by_several_members_unless_a_size_is_asked_for(dense: DataSet) -> None:
    several = look(dense, {}, Judge({}))
    assert (several.training.members, several.model.block_size) == (4, 128)
    for settings in ({"model.dim": 50}, {"model.name": "transe"}, {"training.members": 1}, {"loss.kind": "logistic"}):
        assert look(dense, gather(overrides=settings), Judge({})).training.members == 1
    cubic = {WAYS[2].name: np.full(100, -1.0)}
    assert look(dense, {}, Judge(cubic)).penalty.n3 == 0.01
    assert look(dense, gather(overrides={"penalty.n3": 0.03}), Judge({})).penalty.n3 == 0.03
    judge = Judge({})
    assert look(dense, gather(overrides={"model.name": "complex"}), judge).model.dim == 512
    assert {config.training.members for _, config in judge.seen} == {1}


def test_facts_that_are_missing_move_ranks_and_leave_likelihoods_alone() -> None:
    """Of ten equal answers nine are known to a test only: whoever ranks them by chance loses nothing."""
    names, relations = Vocabulary([f"e{i}" for i in range(12)]), Vocabulary(["r"], "relation")
    graph = KnowledgeGraph(names, relations, np.array([[0, 0, 11]], dtype=np.int32))
    queries = both_sides(np.array([[0, 0, 1]], dtype=np.int32), 1).take(slice(0, 1))
    model = build_model(ModelSettings(name="distmult", dim=1), 12, 1, 0)
    with torch.no_grad():
        model.relation.fill_(1.0)
        model.entity.fill_(1.0)
        for true in (1.0, 1.001, 0.999):
            model.entity[1] = true
            assert log_likelihood(model, queries, graph) == pytest.approx(np.log(1 / 11), abs=0.05)


def test_a_likelihood_is_the_best_softmax_over_what_is_not_known(dense: DataSet) -> None:
    split = dense.split
    graph, queries = split.graph("train", "valid"), both_sides(split.valid, len(split.relations))
    model = build_model(ModelSettings(name="complex", dim=6, entity_scale=0.5), 14, len(split.relations), 1)
    known = {tuple(fact) for fact in np.concatenate([graph.triples, inverted(graph.triples, 55)]).tolist()}
    means = []
    for beta in 2.0 ** np.arange(-3, 5.5, 0.5):
        shares = []
        for place in range(len(queries)):
            source, relation, target = queries.source[place], queries.path[place, 0], queries.target[place]
            vector = model.embed_paths(torch.tensor([source]), torch.tensor([[relation]]))
            scores = beta * (vector @ model.candidates().T).detach().numpy()[0].astype(np.float64)
            counted = [e for e in range(14) if e == target or (source, relation, e) not in known]
            shares.append(scores[target] - np.logaddexp.reduce(scores[counted]))
        means.append(shares)
    best = max(means, key=np.mean)
    assert log_likelihood(model, queries, graph) == pytest.approx(np.array(best), abs=1e-4)


def test_memory_is_planned_without_a_look(dense: DataSet) -> None:
    assert plan_memory(dense).held > 0
