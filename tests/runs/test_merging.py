"""Merged runs on disk: what they hold, what they refuse."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

from blockhole.errors import ConfigError, NotARun, RunError
from blockhole.fitting import train
from blockhole.runs.merging import merge_runs
from blockhole.runs.run import Run
from blockhole.saving import read_sealed
from tests.training.worlds import SMALL, random_data

pytestmark = pytest.mark.usefixtures("uncalibrated")


def trained(folder: Path, data_seed: int = 0, **settings: Any) -> Path:
    chosen = SMALL | {"training.epochs": 2} | {key.replace("__", "."): value for key, value in settings.items()}
    train(random_data(data_seed), settings=chosen, out=folder)
    return folder


@pytest.fixture(scope="module")
def both(uncalibrated: None, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs, one of them with best weights."""
    folder = tmp_path_factory.mktemp("both")
    first = trained(folder / "first", early_stop__metric="mq")
    return [first, trained(folder / "second", training__seed=1, model__block_size=4)]


@pytest.fixture
def parts(both: list[Path], tmp_path: Path) -> list[Path]:
    """Copies of them, to do anything with."""
    return [Path(shutil.copytree(run, tmp_path / run.name)) for run in both]


def scores(run: Run) -> torch.Tensor:
    source, path = torch.arange(20), torch.tensor([[0, 4, 1]]).expand(20, -1)
    with torch.no_grad():
        return run.model.embed_paths(source, path) @ run.model.candidates().T


def test_a_merged_run_opens_like_any_other(parts: list[Path], tmp_path: Path) -> None:
    made = merge_runs(parts, tmp_path / "sum")
    opened, runs = Run.open(tmp_path / "sum"), [Run.open(part) for part in parts]
    torch.testing.assert_close(scores(opened), scores(runs[0]) + scores(runs[1]))
    assert torch.equal(scores(made), scores(opened))
    assert (opened.config.model.block_shape, opened.config.training.epochs) == ((2, 7), 2)
    assert (opened.entities, opened.relations) == (runs[0].entities, runs[0].relations)
    assert opened.graph == runs[0].graph
    assert opened.complete
    assert opened.state.paths == sum(run.state.paths for run in runs)
    assert opened.metrics() == []


def test_a_merged_run_names_its_parts(parts: list[Path], tmp_path: Path) -> None:
    merge_runs(parts, tmp_path / "sum", weights=[1.0, 0.25])
    named = json.loads((tmp_path / "sum" / "parts.json").read_text(encoding="utf-8"))
    assert [part["run"] for part in named] == [str(part) for part in parts]
    assert [part["weight"] for part in named] == [1.0, 0.25]
    files = [parts[0] / "best.safetensors", parts[1] / "weights.safetensors"]
    assert [part["sha256"] for part in named] == [sha256(file.read_bytes()).hexdigest() for file in files]
    assert [part["config"]["training"]["seed"] for part in named] == [0, 1]
    weighted = scores(Run.open(parts[0])) + 0.25 * scores(Run.open(parts[1]))
    torch.testing.assert_close(scores(Run.open(tmp_path / "sum")), weighted)


def test_a_merged_run_has_the_epochs_of_its_parts_not_those_they_planned(tmp_path: Path) -> None:
    parts = [trained(tmp_path / "short"), trained(tmp_path / "long", training__epochs=3, training__seed=1)]
    config = read_sealed(parts[0] / "config.json")
    config["training"]["epochs"] = 100  # as if it had been interrupted
    (parts[0] / "config.json").write_text(json.dumps(config), encoding="utf-8")
    made = merge_runs(parts, tmp_path / "sum")
    for run in (made, Run.open(tmp_path / "sum")):
        assert (run.state.epoch, run.config.training.epochs, run.complete) == (3, 3, True)


def test_merged_runs_merge_again(parts: list[Path], tmp_path: Path) -> None:
    merge_runs(parts, tmp_path / "sum")
    merge_runs([tmp_path / "sum", parts[0]], tmp_path / "more")
    expected = 2 * scores(Run.open(parts[0])) + scores(Run.open(parts[1]))
    torch.testing.assert_close(scores(Run.open(tmp_path / "more")), expected)


def test_a_merged_run_is_not_resumed(parts: list[Path], tmp_path: Path) -> None:
    merge_runs(parts, tmp_path / "sum")
    with pytest.raises(RunError) as caught:
        train(random_data(), out=tmp_path / "sum", resume=True)
    assert str(caught.value) == (
        f"{tmp_path / 'sum'} was made from what its parts.json names and has no optimizer to go on with; "
        "resume that, and merge or compress again."
    )


def test_a_run_begun_where_a_merge_failed_is_resumed(parts: list[Path], tmp_path: Path) -> None:
    merge_runs(parts, tmp_path / "sum")
    (tmp_path / "sum" / "state.json").unlink()
    (tmp_path / "sum" / "weights.safetensors").unlink()
    (tmp_path / "sum" / "optimizer.safetensors").unlink()
    trained(tmp_path / "sum")
    assert train(random_data(), settings={"training.epochs": 3}, out=tmp_path / "sum", resume=True).state.epoch == 3


def test_what_is_refused(parts: list[Path], tmp_path: Path) -> None:
    elsewhere = trained(tmp_path / "elsewhere", data_seed=1)
    with pytest.raises(RunError) as caught:
        merge_runs([parts[0], elsewhere], tmp_path / "sum")
    assert str(caught.value) == (
        f"{parts[0]} and {elsewhere} were trained on different data: their facts differ; merge runs over the same data."
    )
    with pytest.raises(ConfigError, match="merging takes two runs or more, not 1"):
        merge_runs(parts[:1], tmp_path / "sum")
    with pytest.raises(ConfigError, match="2 models to merge need 2 weights, not 3"):
        merge_runs(parts, tmp_path / "sum", weights=[1, 2, 3])
    with pytest.raises(NotARun, match=r"already holds a run, at epoch \d+; choose another folder\.$"):
        merge_runs(parts, parts[0])
    with pytest.raises(NotARun, match="there is no run"):
        merge_runs([parts[0], tmp_path / "nowhere"], tmp_path / "sum")
    wider = trained(tmp_path / "wider", model__blocks=3)
    with pytest.raises(
        ConfigError, match="with b = 2 and n = 6 cannot be merged with blockhole with b = 3: its b must divide 3"
    ):
        merge_runs([parts[0], wider], tmp_path / "sum")
    state = read_sealed(wider / "state.json")
    (wider / "state.json").write_text(json.dumps(state | {"files": {}, "shards": "1-0"}), encoding="utf-8")
    with pytest.raises(
        RunError, match="lies in shards, as the processes that train it left them; resume it to its end"
    ):
        merge_runs([parts[0], wider], tmp_path / "sum")
    assert not (tmp_path / "sum").exists()
