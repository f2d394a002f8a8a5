"""Runs that were trained on the words of entity names: they answer like any other, and go on where they stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from blockhole import Engine, Run, merge, train
from blockhole.data.dataset import DataSet
from blockhole.errors import ConfigError
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.runs.verification import verify

COLOURS, THINGS = ("red", "green", "blue", "grey"), ("ball", "cube", "cone", "ring")
SETTINGS = {"model.blocks": 2, "model.block_size": 4, "training.on": "base", "training.threads": 1, "training.seed": 0}


@pytest.fixture(scope="module")
def data() -> DataSet:
    """Things of one colour are near each other, and no fact says what colour they have but their names."""
    names = [f"{colour}_{thing}" for colour in COLOURS for thing in THINGS]
    facts = [(s, 0, o) for s in range(16) for o in range(16) if s != o and s // 4 == o // 4]
    rows = np.random.default_rng(0).permutation(np.array(facts, dtype=np.int32))
    relations = Vocabulary(["near"], "relation")
    return DataSet("things", SplitGraph(Vocabulary(names), relations, rows[:30], rows[30:44], rows[44:]))


def trained(data: DataSet, out: Path | None, epochs: int = 2, **more: object) -> Run:
    return train(data, names=True, preset="fast", settings=SETTINGS | {"training.epochs": epochs}, out=out, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(data: DataSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("names") / "run"
    trained(data, place)
    return place


@pytest.mark.parametrize("inverses", ["own", "tied"])
def test_words_are_trained_on_and_answers_have_none(data: DataSet, tmp_path: Path, inverses: str) -> None:
    run = train(
        data, names=True, preset="fast", out=tmp_path / "run",
        settings=SETTINGS | {"training.epochs": 2, "model.inverses": inverses},
    )  # fmt: skip
    assert run.config.words == len(COLOURS) + len(THINGS)
    opened = Run.open(tmp_path / "run")
    for each in (run, opened):
        assert (each.entities, each.relations) == (data.split.entities, data.split.relations)
        assert each.graph == data.split.graph("train")
        assert each.model.num_entities == 16
    for name, parameter in run.model.state_dict().items():
        assert torch.equal(parameter, opened.model.state_dict()[name])
    answers = Engine.open(tmp_path / "run").ask("red_ball/near", top=20)
    assert {answer.entity for answer in answers} <= set(data.split.entities)
    without = train(data, preset="fast", settings=SETTINGS | {"training.epochs": 2, "model.inverses": inverses})
    assert not torch.equal(without.model.entity, run.model.entity)


def test_the_same_in_memory(data: DataSet, folder: Path) -> None:
    run = trained(data, None)
    assert torch.equal(run.model.entity, Run.open(folder).model.entity)
    assert run.entities == data.split.entities


def test_a_run_goes_on_with_its_words(data: DataSet, folder: Path, tmp_path: Path) -> None:
    trained(data, tmp_path / "run")
    further = trained(data, tmp_path / "run", epochs=4, resume=True)
    assert further.state.epoch == 4
    assert torch.equal(further.model.entity, trained(data, None, epochs=4).model.entity)
    with pytest.raises(ConfigError, match="was trained with names = True, not False"):
        train(data, out=tmp_path / "run", settings={"names": False}, resume=True)


def test_it_can_be_checked_and_merged(folder: Path, tmp_path: Path) -> None:
    assert set(verify(folder).values()) == {"intact"}
    merged = merge([folder, folder], tmp_path / "merged")
    assert merged.config.words == 0
    one, two = Run.open(folder), Run.open(tmp_path / "merged")
    assert two.entities == one.entities
    source, path = torch.tensor([0]), torch.tensor([[0]])
    scores = [run.model.embed_paths(source, path) @ run.model.candidates().T for run in (one, two)]
    assert torch.allclose(2 * scores[0], scores[1], atol=1e-5)
