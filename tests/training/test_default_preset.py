"""Which preset a run gets that names none."""

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
from blockhole.runs.config import gather, validate

SHORT = {"training.epochs": 1}


def chain(entities: int) -> SplitGraph:
    """A graph of so many entities and ten facts."""
    source = np.arange(10, dtype=np.int32)
    return SplitGraph(
        Vocabulary([f"e{i}" for i in range(entities)]),
        Vocabulary(["next"], "relation"),
        train=np.column_stack([source, np.zeros_like(source), source + 1]),
    )


def test_small_graphs_get_a_preset_of_their_own() -> None:
    run = train(chain(2000), settings=SHORT)
    small = validate(gather(preset="small"))
    assert (run.config.model, run.config.loss, run.config.optimizer) == (small.model, small.loss, small.optimizer)
    assert run.config.training.walks == "fresh"


def test_large_graphs_get_the_fast_one() -> None:
    run = train(chain(2001), settings=SHORT)
    assert (run.config.loss.kind, run.config.training.walks) == ("sampled_softmax", "stored")


@pytest.mark.parametrize("settings", [{"loss.rare_weight": 0.5}, {"loss.kind": "logistic"}])
def test_a_setting_of_the_loss_changes_that_setting_alone(settings: dict[str, Any]) -> None:
    run = train(chain(20), settings={**SHORT, **settings})
    small = validate(gather(preset="small", overrides=settings))
    assert (run.config.model, run.config.loss, run.config.training.walks) == (small.model, small.loss, "fresh")


def test_data_with_paths_of_its_own_is_trained_on_them() -> None:
    run = train(DataSet("toy", chain(20), splits=build_paths(chain(20))), settings=SHORT)
    assert run.config.training.walks == "stored"


@pytest.mark.parametrize("settings", [{"model.block_size": 3}, {"model.name": "transe"}])
def test_a_model_that_is_named_has_no_size_of_the_preset(settings: dict[str, Any]) -> None:
    run = train(chain(20), settings={**SHORT, **settings})
    assert run.config.model.blocks is None
    assert run.config.loss.mask_known_answers


def test_a_preset_that_is_named_is_taken() -> None:
    assert train(chain(20), preset="fast", settings=SHORT).config.loss.kind == "sampled_softmax"
    assert train(chain(2001), preset="small", settings=SHORT).config.loss.kind == "softmax"


def test_a_run_is_resumed_with_the_preset_it_began_with(tmp_path: Path) -> None:
    begun = train(chain(20), settings={"training.epochs": 1}, out=tmp_path / "run")
    resumed = train(chain(20), settings={"training.epochs": 2}, out=tmp_path / "run", resume=True)
    assert (resumed.config.model, resumed.config.loss) == (begun.config.model, begun.config.loss)
    assert resumed.state.epoch == 2


def test_memory_is_planned_for_the_preset_that_is_taken() -> None:
    assert plan_memory(chain(20)) == plan_memory(chain(20), preset="small")
    assert plan_memory(chain(2001)) == plan_memory(chain(2001), preset="fast")
