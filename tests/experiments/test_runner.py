"""Running experiments: several in one call, and those that merge several models into one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from blockhole.answering.calibrating import calibrate
from blockhole.data.dataset import load
from blockhole.errors import EvaluationError
from blockhole.fitting import fit
from blockhole.measuring import evaluate
from blockhole.models.merging import merge_models
from blockhole.runs.config import TrainConfig, overlay, validate
from experiments import records
from experiments.declared import Experiment, find_experiments, read_declaration
from experiments.material import Material
from experiments.records import Commit, current_commit, read_record
from experiments.run_experiments import main
from experiments.runner import Runner, measure

OVERRIDES = {"training.epochs": 1, "training.batch_size": 256}
MEMBER = {
    "data": "family",
    "model": {"name": "blockhole", "blocks": 2, "block_size": 3},
    "loss": {"kind": "softmax"},
    "training": {"epochs": 1, "batch_size": 4096, "seed": 1, "device": "cpu", "walks": "fresh"},
}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were trained, in order."""
    names: list[str] = []

    def counted(data: Any, config: Any, **more: Any) -> Any:
        names.append(config.model.name)
        return fit(data, config, **more)

    monkeypatch.setattr("experiments.runner.fit", counted)
    return names


def test_tables_that_measure_the_same_models_share_the_training(town: Path, tmp_path: Path, trained: list[str]) -> None:
    chosen = find_experiments([f"classification/{town}/*-50-corrupted"], seeds=[0], overrides=OVERRIDES)
    (twin,) = [experiment for experiment in chosen if experiment.column == "complex-50-corrupted"]
    chosen.insert(0, twin.model_copy(update={"table": "order"}))
    lines: list[str] = []
    runner = Runner(Material(), tmp_path, "cpu", Commit("c" * 40, False), lines.append, threads=1)
    assert runner.run(chosen) == []
    assert trained == ["complex", "rescal", "distmult"]
    order = read_record(tmp_path / "order/town/complex-50-corrupted-seed0.json")
    classification = read_record(tmp_path / "classification/town/complex-50-corrupted-seed0.json")
    assert order.settings == classification.settings
    assert order.figures["positives"] != classification.figures["positives"]

    lines.clear()
    assert runner.run(chosen) == []
    assert len(lines) == len(chosen)
    assert all(line.endswith("there already") for line in lines)


def test_a_training_on_edges_is_measured_on_paths_too_whichever_table_comes_first(town: Path, tmp_path: Path) -> None:
    overrides = OVERRIDES | {"model.blocks": 2, "model.block_size": 4}
    (completion,) = find_experiments([f"completion/{town}/blockhole"], seeds=[0], overrides=overrides)
    ranking = completion.model_copy(update={"table": "ranking"})
    runner = Runner(Material(), tmp_path, "cpu", Commit("c" * 40, False), lambda line: None, threads=1)
    assert runner.run([completion, ranking]) == []
    assert read_record(tmp_path / "ranking/town/blockhole-seed0.json").figures["all"]["queries"] > 0


def tried(members: int) -> Experiment:
    config = TrainConfig.model_validate(MEMBER)
    return Experiment(table="completion", data="family", column="tried", split="dev", config=config, members=members)


def test_experiments_of_a_column_share_no_seed() -> None:
    config = TrainConfig.model_validate(MEMBER)
    seeds: list[int] = []
    for seed in range(3):
        of_seed = config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})
        seeds += tried(4).model_copy(update={"config": of_seed}).member_seeds
    assert seeds == list(range(12))
    assert list(tried(1).member_seeds) == [1]


def test_members_are_trained_from_their_seeds_and_merged(tmp_path: Path) -> None:
    said: list[str] = []
    runner = Runner(Material(None), tmp_path, "cpu", Commit(None, None), said.append, threads=1)
    both = tried(2)
    assert runner.run([both]) == []
    record = read_record(tmp_path / "completion" / "family" / "tried-seed1-dev.json")
    assert record.members == 2

    data = Material(None).open("family", paths=True)
    models = []
    for seed in (2, 3):
        training = both.config.training.model_copy(update={"seed": seed, "threads": 1})
        models.append(fit(data, both.config.model_copy(update={"training": training})).model)
    merged = merge_models(models, [0.5, 0.5])
    assert record.parameters == merged.parameter_count() == 2 * models[0].parameter_count()
    assert record.figures == measure("completion", merged, data, "dev", torch.device("cpu"))

    runner.run([both])
    assert said[-1].endswith("there already")
    runner.run([tried(1)])
    assert any(line.endswith("once more") for line in said)
    assert read_record(tmp_path / "completion" / "family" / "tried-seed1-dev.json").members == 1


def test_what_is_beside_has_its_own_settings_and_seeds_and_is_merged(queried_town: Path, tmp_path: Path) -> None:
    settings = MEMBER | {"data": str(queried_town), "training": MEMBER["training"] | {"on": "base"}}  # type: ignore[operator]
    config = TrainConfig.model_validate(settings)
    beside = {"model": {"block_size": 2}, "training": {"on": "paths", "epochs": 2}}
    pair = Experiment(
        table="queries", data=str(queried_town), column="tried", split="test", config=config, members=2, beside=beside
    )
    assert list(pair.member_seeds) == [4, 5, 6, 7]
    runner = Runner(Material(), tmp_path, "cpu", Commit(None, None), lambda line: None, threads=1)
    assert runner.run([pair]) == []
    record = read_record(tmp_path / "queries/queried/tried-seed1.json")
    assert (record.members, record.beside, record.epochs, record.truth) == (2, beside, 1, None)

    data, models = load(queried_town), []
    for seed, size, on, epochs in ((4, 3, "base", 1), (5, 3, "base", 1), (6, 2, "paths", 2), (7, 2, "paths", 2)):
        training = {"seed": seed, "on": on, "epochs": epochs, "threads": 1}
        own = overlay(settings, {"model": {"block_size": size}, "training": training})
        models.append(fit(data, validate(own)).model)
    merged = merge_models(models, [0.25] * 4)
    assert record.parameters == merged.parameter_count()
    assert record.figures == measure("queries", merged, data, "test", torch.device("cpu"))


def test_queries_have_the_figures_that_evaluate_gives(queried_town: Path, tmp_path: Path) -> None:
    (best,) = find_experiments(
        [f"queries/{queried_town}/best"], seeds=[0], overrides=OVERRIDES | {"model.block_size": 4}
    )
    assert Runner(Material(), tmp_path, "cpu", Commit(None, None), lambda line: None, threads=1).run([best]) == []
    found = read_record(tmp_path / "queries/queried/best-seed0.json").figures["sampled"]
    settings = overlay(best.settings, {"training": {"device": "cpu", "threads": 1}})
    fit(load(queried_town), validate(settings), tmp_path / "run")
    calibrate(tmp_path / "run", device="cpu")
    report = evaluate(tmp_path / "run", task="queries", queries="sampled", device="cpu").to_dict()
    assert found == {name: report[name] for name in found}


def test_queries_need_scipy_which_is_said_before_a_training(
    queried_town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: list[str]
) -> None:
    monkeypatch.setattr("experiments.runner.find_spec", lambda name: None)
    chosen = find_experiments([f"queries/{queried_town}/best"], seeds=[0], overrides=OVERRIDES)
    with pytest.raises(EvaluationError, match=r"the table queries needs SciPy, for curves"):
        Runner(Material(), tmp_path, "cpu", Commit(None, None), lambda line: None, threads=1).run(chosen)
    assert trained == []


def test_the_best_columns_declare_their_members() -> None:
    ranking = read_declaration("ranking")
    assert ranking.beside_settings_of("wn11", "best")["members"] > 1
    assert ranking.beside_settings_of("wn11", "complex-50") == {}
    assert "members" not in ranking.settings_of("wn11", "best")


def test_the_light_entry_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path), "rankin"]) == 1
    assert capsys.readouterr().err == "error: rankin: there is no table 'rankin'; did you mean ranking?\n"
    assert main(["--out", str(tmp_path), "--encoded", str(tmp_path), "ranking/wn11/best", "--device", "cpu"]) == 1
    assert capsys.readouterr().err == (
        f"error: there is no {tmp_path}/wn11.npz.xz; write it with: python -m experiments.material {tmp_path} wn11\n"
    )
    (tmp_path / "wn11.npz.xz").write_bytes(b"cut short")
    assert main(["--out", str(tmp_path), "--encoded", str(tmp_path), "ranking/wn11/best", "--device", "cpu"]) == 1
    assert "wn11.npz.xz is damaged or of another version (" in capsys.readouterr().err
    assert main(["--out", str(tmp_path), "ranking/wn11/best", "--seed", "-1"]) == 1
    assert capsys.readouterr().err.startswith("error: training.seed = -1 cannot be used")


def test_commits_are_read_as_git_describes_them() -> None:
    assert Commit.parse("a" * 40) == ("a" * 40, False)
    assert Commit.parse("a" * 40 + "-dirty") == ("a" * 40, True)
    commit = current_commit()
    assert commit.hash is None or len(commit.hash) == 40


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_of_a_repository_that_only_surrounds_the_package_is_not_taken_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        name = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    module = tmp_path / "provenance.py"
    module.touch()
    monkeypatch.setattr(records, "__file__", str(module))
    git("init")
    git("commit", "--allow-empty", "-m", "a project with an environment in it")
    assert current_commit() == Commit(None, None)
    git("add", module.name)
    git("commit", "-m", "the package itself")
    commit = current_commit()
    assert commit.hash is not None
    assert not commit.dirty
    module.write_text("changed")
    assert current_commit() == Commit(commit.hash, True)
