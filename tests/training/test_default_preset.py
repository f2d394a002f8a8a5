"""What a run gets that names no preset, where there is no look at the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blockhole.data.dataset import DataSet
from blockhole.fitting import plan_memory, train
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.path_sets import build_paths
from blockhole.runs.config import flatten

SHORT = {"training.epochs": 1}


def chain(entities: int) -> SplitGraph:
    """A graph of so many entities and ten facts."""
    source = np.arange(10, dtype=np.int32)
    return SplitGraph(
        Vocabulary([f"e{i}" for i in range(entities)]),
        Vocabulary(["next"], "relation"),
        train=np.column_stack([source, np.zeros_like(source), source + 1]),
    )


def test_graphs_of_few_facts_are_trained_on_edges_and_as_many_walks() -> None:
    small = train(chain(2000), settings=SHORT).config
    assert (small.loss.kind, small.training.walks, small.training.walks_per_edge) == ("softmax", "fresh", 1)
    assert not small.loss.mask_known_answers
    assert small.choice == "edges and as many walks, by the size of the graph"


def test_larger_graphs_say_how_long_they_take() -> None:
    run = train(chain(2001), settings=SHORT)
    assert (run.config.loss.kind, run.config.training.walks) == ("softmax", "fresh")
    assert run.config.choice == (
        "edges and as many walks against all entities, by the size of the graph: 1 epoch at most, "
        "some 1 minute on two cores"
    )


@pytest.mark.parametrize("settings", [{"loss.rare_weight": 0.5}, {"loss.kind": "logistic"}])
def test_a_setting_of_the_loss_changes_that_setting_alone(settings: dict[str, Any]) -> None:
    run, plain = (train(chain(20), settings={**SHORT, **each}).config for each in (settings, {}))
    assert flatten(run.model_dump()).items() - flatten(plain.model_dump()).items() == settings.items()


def test_data_with_paths_of_its_own_is_trained_on_them() -> None:
    run = train(DataSet("toy", chain(20), splits=build_paths(chain(20))), settings=SHORT)
    assert run.config.training.walks == "stored"


@pytest.mark.parametrize("settings", [{"model.block_size": 3}, {"model.name": "transe"}, {"model.name": "simple"}])
def test_the_rest_fits_a_model_that_is_named(settings: dict[str, Any]) -> None:
    config = train(chain(20), settings={**SHORT, **settings}).config
    assert config.model.blocks == (None if "model.name" in settings else 4)
    assert config.training.on == ("base" if config.model.name == "simple" else "paths")


def test_a_penalty_per_entity_goes_before_ours() -> None:
    config = train(chain(20), settings={**SHORT, "penalty.dura_per_entity": 0.01}).config
    assert config.penalty.dura == pytest.approx(0.01 * 20 / 30)


def test_family_keeps_its_preset_whose_size_gives_way() -> None:
    plain = train("family", settings=SHORT).config
    assert (plain.model.block_size, plain.training.walks_per_edge) == (16, 20)
    assert train("family", settings={**SHORT, "model.block_size": 3}).config.model.blocks is None


def test_a_preset_that_is_named_is_taken() -> None:
    assert train(chain(20), preset="fast", settings=SHORT).config.loss.kind == "sampled_softmax"
    assert train(chain(2001), preset="small", settings=SHORT).config.loss.kind == "softmax"


def test_a_run_is_resumed_with_the_preset_it_began_with(tmp_path: Path) -> None:
    begun = train(chain(20), settings={"training.epochs": 1}, out=tmp_path / "run")
    resumed = train(chain(20), settings={"training.epochs": 2}, out=tmp_path / "run", resume=True)
    assert (resumed.config.model, resumed.config.loss) == (begun.config.model, begun.config.loss)
    assert resumed.state.epoch == 2


def test_memory_is_planned_for_what_is_taken() -> None:
    assert plan_memory("family") == plan_memory("family", preset="small")
    assert plan_memory(chain(2001)).held > plan_memory(chain(20)).held
