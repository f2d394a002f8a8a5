"""Experiments that are trained on the words of entity names too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from blockhole.data.dataset import load, sample_queries, store
from blockhole.data.words import WORD, Words, count_words, words_of
from blockhole.errors import DataError
from blockhole.fitting import fit
from blockhole.models.merging import merge_models
from blockhole.queries.path_sets import PATH_PARTS
from blockhole.runs.config import TrainConfig, overlay, validate
from experiments import material
from experiments.declared import Experiment
from experiments.material import Material
from experiments.records import Commit, Record, read_record
from experiments.runner import Runner, measure
from experiments.word_rows import lean_on_words

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
    worded = plain.model_copy(update={"words": 1})
    file = tmp_path / "completion" / "family" / "tried-seed0-dev.json"

    assert runner.run([plain]) == []
    before = read_record(file)
    assert runner.run([worded]) == []
    after = read_record(file)
    assert "tried-seed0-dev: settings have changed, once more" in "\n".join(said)
    assert (before.words, after.words) == (0, 1)
    rows = len(Words.of_names(load("family").split.entities).words)
    assert before.parameters is not None
    assert after.parameters is not None
    # Each word is an entity of 2·b·m numbers; the relation and its inverse have 2·b²·m each.
    assert after.parameters - before.parameters == rows * 12 + 2 * 24
    assert runner.run([worded]) == []
    assert said[-1].endswith("there already")


def test_rows_lean_on_words_after_training(tmp_path: Path) -> None:
    config = TrainConfig.model_validate(SETTINGS)
    tried = Experiment(table="completion", data="family", column="tried", split="dev", config=config, words=1, lean=0.7)
    Runner(Material(), tmp_path, "cpu", Commit(None, None), lambda line: None, threads=1).run([tried])
    record = read_record(tmp_path / "completion" / "family" / "tried-seed0-dev.json")
    assert record.lean == 0.7

    data = Material().open("family", paths=False, words=1)
    training = config.training.model_copy(update={"threads": 1})
    model = fit(data, config.model_copy(update={"training": training})).model
    lean_on_words(model, words_of(data.split), 0.7)
    assert record.figures == measure("completion", model, data, "dev", torch.device("cpu"))
    with pytest.raises(ValidationError, match="lean on the words of names only where words are trained on"):
        Experiment(table="completion", data="family", column="tried", split="dev", config=config, lean=0.7)


def test_queries_are_asked_of_the_graph_without_words(tmp_path: Path) -> None:
    family = load("family")
    sets = [sample_queries(family, split="test", types=("1p", "2i"), count=4)]
    store(family.split, tmp_path / "asked", origin={}, queries=sets)
    settings, beside = SETTINGS | {"data": str(tmp_path / "asked")}, {"model": {"block_size": 2}}
    tried = Experiment(
        table="queries", data=str(tmp_path / "asked"), column="tried", split="test", words=2, beside=beside,
        config=TrainConfig.model_validate(settings),
    )  # fmt: skip
    assert Runner(Material(), tmp_path, "cpu", Commit(None, None), lambda line: None, threads=1).run([tried]) == []
    record = read_record(tmp_path / "queries" / "asked" / "tried-seed0.json")

    plain, worded = (Material().open(tried.data, paths=False, words=words) for words in (0, 2))
    here = {"threads": 1}
    own = validate(overlay(settings, {"training": here, "words": count_words(worded.split)}))
    other = validate(overlay(settings, beside | {"training": here | {"seed": 1}}))
    models = [fit(worded, own).without_words().model, fit(plain, other).model]
    merged = merge_models(models, [0.5, 0.5])
    assert merged.num_entities == len(family.split.entities) < len(worded.split.entities)
    assert (record.words, record.parameters) == (2, merged.parameter_count())
    assert record.figures == measure("queries", merged, plain, "test", torch.device("cpu"))
    with pytest.raises(ValidationError, match="models beside others do without words"):
        Experiment.model_validate(tried.model_dump() | {"table": "completion"})
    with pytest.raises(ValidationError, match="rows cannot lean on words where queries are asked"):
        Experiment.model_validate(tried.model_dump() | {"lean": 0.5})


def test_words_reach_a_machine_without_names(tmp_path: Path) -> None:
    assert material.main([str(tmp_path), "family"]) == 0
    with pytest.raises(DataError, match=r"write it with: python -m experiments.material --words .* family"):
        Material(tmp_path).open("family", paths=False, words=1)
    assert material.main(["--words", str(tmp_path), "family"]) == 0
    expected = Material().open("family", paths=True, words=4)
    data = Material(tmp_path).open("family", paths=True, words=4)
    assert data.split.train.tolist() == expected.split.train.tolist()
    assert WORD in data.split.relations
    assert list(data.split.entities)[-1] == list(expected.split.entities)[-1]
    for part in PATH_PARTS:
        for field in ("source", "path", "length", "target"):
            assert np.array_equal(getattr(data.paths(part), field), getattr(expected.paths(part), field))
    plain = Material().open("family", paths=True)
    facts = len(data.split.train) - len(plain.split.train)
    assert len(data.paths("train")) == len(plain.paths("train")) + 4 * facts

    (tmp_path / "family-words.npz.xz").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"family-words.npz.xz is damaged .*experiments.material --words"):
        Material(tmp_path).open("family", paths=False, words=1)


def test_records_from_when_words_were_yes_or_no() -> None:
    fields = dict.fromkeys(("parameters", "epochs", "best_epoch", "loss", "commit", "dirty", "truth"))
    names = {"table": "triples", "data": "d", "column": "c", "split": "test", "device": "cpu", "torch": "2"}
    text = json.dumps(fields | names | {"seed": 0, "settings": {}, "seconds": 1, "training_seconds": 1, "figures": {}})
    assert Record.model_validate_json(text[:-1] + ', "words": true}').words == 1
    assert Record.model_validate_json(text[:-1] + ', "words": false}').words == 0
