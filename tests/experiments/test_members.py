"""Experiments that merge several models into one."""

from __future__ import annotations

from pathlib import Path

import torch

from blockhole.fitting import fit
from blockhole.models.merging import merge
from blockhole.runs.config import TrainConfig
from experiments.declared import Experiment, read_declaration
from experiments.material import Material
from experiments.records import Commit, read_record
from experiments.runner import Runner, measure

SETTINGS = {
    "data": "family",
    "model": {"name": "blockhole", "blocks": 2, "block_size": 3},
    "loss": {"kind": "softmax"},
    "training": {"epochs": 1, "batch_size": 4096, "seed": 1, "device": "cpu", "walks": "fresh"},
}


def experiment(members: int) -> Experiment:
    config = TrainConfig.model_validate(SETTINGS)
    return Experiment(table="completion", data="family", column="tried", split="dev", config=config, members=members)


def test_experiments_of_a_column_share_no_seed() -> None:
    config = TrainConfig.model_validate(SETTINGS)
    seeds: list[int] = []
    for seed in range(3):
        of_seed = config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})
        seeds += experiment(4).model_copy(update={"config": of_seed}).member_seeds
    assert seeds == list(range(12))
    assert list(experiment(1).member_seeds) == [1]


def test_members_are_trained_from_their_seeds_and_merged(tmp_path: Path) -> None:
    said: list[str] = []
    runner = Runner(Material(None), tmp_path, "cpu", Commit(None, None), said.append, threads=1)
    tried = experiment(2)
    assert runner.run([tried]) == []
    record = read_record(tmp_path / "completion" / "family" / "tried-seed1-dev.json")
    assert record.members == 2

    data = Material(None).open("family", paths=True)
    models = []
    for seed in (2, 3):
        training = tried.config.training.model_copy(update={"seed": seed, "threads": 1})
        models.append(fit(data, tried.config.model_copy(update={"training": training})).model)
    merged = merge(models, [0.5, 0.5])
    assert record.parameters == merged.parameter_count() == 2 * models[0].parameter_count()
    assert record.figures == measure("completion", merged, data, "dev", torch.device("cpu"))

    runner.run([tried])
    assert said[-1].endswith("there already")
    runner.run([experiment(1)])
    assert any(line.endswith("once more") for line in said)
    assert read_record(tmp_path / "completion" / "family" / "tried-seed1-dev.json").members == 1


def test_the_best_columns_declare_their_members() -> None:
    ranking = read_declaration("ranking")
    assert ranking.beside_settings_of("wn11", "best")["members"] > 1
    assert ranking.beside_settings_of("wn11", "complex-50") == {}
    assert "members" not in ranking.settings_of("wn11", "best")
