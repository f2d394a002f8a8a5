"""Experiments that are trained on the words of entity names too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from blockhole.data.load import load
from blockhole.data.words import WORD, with_words, words_of
from blockhole.errors import DataError
from blockhole.fitting import fit
from blockhole.models.word_rows import lean_on_words
from blockhole.paper import encoded
from blockhole.paper.experiment import Experiment
from blockhole.paper.material import Material
from blockhole.paper.measures import measure
from blockhole.paper.provenance import Commit
from blockhole.paper.record import read_record
from blockhole.paper.runner import Runner
from blockhole.training.config import TrainConfig

SETTINGS = {
    "data": "family",
    "model": {"name": "blockhole", "blocks": 2, "block_size": 3},
    "training": {"on": "base", "epochs": 1, "batch_size": 4096, "device": "cpu"},
}


def test_an_experiment_with_words_is_another_experiment(tmp_path: Path) -> None:
    said: list[str] = []
    runner = Runner(Material(), tmp_path, "cpu", Commit(None, None), said.append, threads=1)
    config = TrainConfig.model_validate(SETTINGS)
    plain = Experiment(table="completion", data="family", column="tried", split="dev", config=config)
    worded = plain.model_copy(update={"words": True})
    file = tmp_path / "completion" / "family" / "tried-seed0-dev.json"

    assert runner.run([plain]) == []
    before = read_record(file)
    assert runner.run([worded]) == []
    after = read_record(file)
    assert "tried-seed0-dev: settings have changed, once more" in "\n".join(said)
    assert (before.words, after.words) == (False, True)
    split = with_words(load("family").split)
    rows = len(split.entities) - len(load("family").split.entities)
    assert before.parameters is not None
    assert after.parameters is not None
    # Each word is an entity of 2·b·m numbers; the relation and its inverse have 2·b²·m each.
    assert after.parameters - before.parameters == rows * 12 + 2 * 24
    assert runner.run([worded]) == []
    assert said[-1].endswith("there already")


def test_rows_lean_on_words_after_training(tmp_path: Path) -> None:
    config = TrainConfig.model_validate(SETTINGS)
    tried = Experiment(
        table="completion", data="family", column="tried", split="dev", config=config, words=True, lean=0.7
    )
    Runner(Material(), tmp_path, "cpu", Commit(None, None), lambda line: None, threads=1).run([tried])
    record = read_record(tmp_path / "completion" / "family" / "tried-seed0-dev.json")
    assert record.lean == 0.7

    data = Material().open("family", paths=False, words=True)
    training = config.training.model_copy(update={"threads": 1})
    model = fit(data, config.model_copy(update={"training": training})).model
    lean_on_words(model, words_of(data.split), 0.7)
    assert record.figures == measure("completion", model, data, "dev", torch.device("cpu"))
    with pytest.raises(ValidationError, match="lean on the words of names only where words = true"):
        Experiment(table="completion", data="family", column="tried", split="dev", config=config, lean=0.7)


def test_words_reach_a_machine_without_names(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"write it with: python -m blockhole.paper.encoded --words .* family"):
        Material(tmp_path).open("family", paths=False, words=True)
    assert encoded.main(["--words", str(tmp_path), "family"]) == 0
    data = Material(tmp_path).open("family", paths=False, words=True)
    expected = with_words(load("family").split)
    assert data.split.train.tolist() == expected.train.tolist()
    assert WORD in data.split.relations
    assert len(data.split.entities) == len(expected.entities)
