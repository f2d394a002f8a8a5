"""`blockhole train` and `blockhole show` as their users meet them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blockhole.cli.main import main
from blockhole.cli.train import sparkline
from tests.outcomes import Command, command

KEYS = {"run", "model", "parameters", "epochs", "seconds", "paths_per_second", "loss", "peak_rss_mb"}
SMALL = ("--blocks", "2", "--block-size", "3", "--threads", "1", "--device", "cpu")


@pytest.fixture
def blockhole(capsys: pytest.CaptureFixture[str]) -> Command:
    return command(main, capsys)


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    file = tmp_path / "facts.tsv"
    lines = [
        f"p{i}\t{relation}\tp{(i * step + 1) % 25}\n"
        for relation, step in (("knows", 3), ("likes", 7))
        for i in range(25)
    ]
    file.write_text("".join(lines), encoding="utf-8")
    return file


def test_train_reports_json_alone(blockhole: Command, facts: Path, tmp_path: Path) -> None:
    outcome = blockhole("train", "--data", facts, "--out", tmp_path / "run", *SMALL, "--epochs", 2, "--json")
    assert outcome.status == 0, outcome.err
    report = outcome.json()
    assert set(report) >= KEYS
    assert report["run"] == str(tmp_path / "run")
    assert (report["model"], report["epochs"], report["complete"]) == ("blockhole", 2, True)
    assert report["parameters"] == 25 * 12 + 4 * 24
    assert report["seconds"] > 0
    assert report["paths_per_second"] > 0
    assert report["peak_rss_mb"] > 50


def test_train_says_what_it_did(blockhole: Command, facts: Path, tmp_path: Path) -> None:
    outcome = blockhole("train", "--data", facts, "--out", tmp_path / "run", *SMALL, "--epochs", 1, "--on", "base")
    assert outcome.status == 0
    assert "blockhole with 396 parameters: epoch 1 in" in outcome.out
    assert f"run: {tmp_path / 'run'}" in outcome.out


@pytest.mark.parametrize("model", ["rescal", "distmult", "complex", "hole", "transe", "analogy"])
def test_every_model_trains_on_paths(model: str, blockhole: Command, facts: Path, tmp_path: Path) -> None:
    options = ("--model", model, "--dim", 4, "--threads", 1, "--epochs", 1, "--json")
    report = blockhole("train", "--data", facts, "--out", tmp_path / "run", *options).json()
    assert report["model"] == model


def test_simple_trains_on_edges_and_says_why_not_on_paths(blockhole: Command, facts: Path, tmp_path: Path) -> None:
    options = ("--model", "simple", "--dim", 4, "--threads", 1, "--epochs", 1)
    assert "chosen: edges, by the size" in blockhole("train", "--data", facts, "--out", tmp_path / "a", *options).out
    failure = blockhole("train", "--data", facts, "--out", tmp_path / "b", *options, "--on", "paths").failure()
    assert failure.startswith("SimplE scores single relations, not paths: it keeps subjects and objects in ")
    assert "train it on edges with --on base" in failure
    assert not (tmp_path / "b").exists()


def test_options_go_over_the_config_file(blockhole: Command, facts: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "training: {epochs: 9, batch_size: 7, on: base}\noptimizer: {learning_rate: 0.3}\n", encoding="utf-8"
    )
    outcome = blockhole(
        "train", "--data", facts, "--out", tmp_path / "run", *SMALL, "--config", file, "--epochs", 1, "--seed", 5,
        "--batch-size", 11, "--set", "penalty.dura=0.25", "--set", "optimizer.kind=adam",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    config = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert config["data"] == str(facts)
    assert config["training"] | {"epochs": 1, "batch_size": 11, "seed": 5, "on": "base"} == config["training"]
    assert config["optimizer"] | {"learning_rate": 0.3, "kind": "adam"} == config["optimizer"]
    assert config["penalty"]["dura"] == 0.25


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--learning-rate", "-1"), "optimizer.learning_rate = -1.0 cannot be used: it must be more than 0"),
        (("--learning-rate", "nan"), "optimizer.learning_rate = nan cannot be used: it must be a finite number"),
        (("--set", "penalty.l2=-1"), "penalty.l2 = -1 cannot be used: it must be at least 0"),
        (("--set", "penalty.l2=nan"), "penalty.l2 = nan cannot be used: it must be a finite number"),
        (("--model", "blokhole"), "unknown model 'blokhole'; did you mean blockhole?"),
        (("--dim", "7"), "b·m does not fit dim: 2 blocks of size 3 make 6, not 7; leave one of the three out."),
        (("--set", "optimizer.rate=1"), "there is no setting optimizer.rate; "),
        (("--preset", "quick"), "unknown preset 'quick'; the presets are paper, small, fast, best, best-wn11, best-"),
        (
            ("--config", "none.toml"),
            "cannot read the config file none.toml (No such file or directory); name",
        ),
        (("--track", "wandb"), "cannot log to 'wandb'; the trackers are tensorboard and mlflow."),
        (("--threads", "100000"), "training.threads = 100000 cannot be used: it must be at most 1024"),
        (("--threads", "0"), "training.threads = 0 cannot be used: it must be at least 1"),
        (("--device", "gpu"), "'gpu' is not a device; use auto, cpu, cuda, cuda:N or mps."),
    ],
)
def test_bad_options(options: tuple[str, ...], said: str, blockhole: Command, facts: Path, tmp_path: Path) -> None:
    assert said in blockhole("train", "--data", facts, "--out", tmp_path / "run", *SMALL, *options).failure()
    assert not list((tmp_path / "run").glob("*"))


def test_wrong_usage(blockhole: Command) -> None:
    assert blockhole("train", "--data", "umls").status == 2
    assert blockhole("train", "--out", "x", "--epochs", "many").status == 2


def test_resume_and_refusals(blockhole: Command, facts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = blockhole("train", "--data", facts, "--out", run, *SMALL, "--epochs", 1, "--json").json()
    again = blockhole("train", "--data", facts, "--out", run, *SMALL).failure()
    assert again == f"{run} already holds a run, at epoch 1; add --resume to continue it, or choose another folder."
    other = blockhole("train", "--out", run, "--resume", "--seed", 9).failure()
    assert other.startswith(f"{run} was trained with training.seed = 0, not 9;")
    resumed = blockhole("train", "--out", run, "--resume", "--epochs", 3, "--json").json()
    assert (first["epochs"], resumed["epochs"]) == (1, 3)


def test_show(blockhole: Command, facts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    blockhole("train", "--data", facts, "--out", run, *SMALL, "--epochs", 3)
    report = blockhole("show", run, "--json").json()
    assert (report["model"], report["epochs"], report["entities"], report["relations"]) == ("blockhole", 3, 25, 2)
    assert [line["epoch"] for line in report["metrics"]] == [1, 2, 3]
    assert report["config"]["model"]["block_size"] == 3
    text = blockhole("show", run).out
    assert "blockhole, 396 parameters" in text
    assert "3 of 3 (complete)" in text
    assert "█" in text
    assert blockhole("show", tmp_path).failure().startswith(f"{tmp_path} holds no run")


def test_sparkline() -> None:
    assert sparkline([3.0, 2.0, 1.0, 0.0, 7.0]) == "▄▃▂▁█"
    assert sparkline([5.0, 5.0]) == "▁▁"
    assert len(sparkline([float(i) for i in range(1000)])) <= 60


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(facts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ["train", "--data", facts, "--out", run, *SMALL, "--on", "base", "--epochs", "1000000", "--json"]
    training = subprocess.Popen(
        [sys.executable, "-c", "from blockhole.cli.main import main; main()", *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").stat().st_size:
        assert training.poll() is None
        time.sleep(0.05)
    training.send_signal(signal.SIGINT)
    out, err = training.communicate()
    assert training.returncode == 1
    report = json.loads(out)
    assert not report["complete"]
    assert 0 < report["epochs"] < 1000000
    assert err.strip().splitlines()[-1].startswith("interrupted after epoch ")
    assert err.strip().endswith(f"continue with: blockhole train --out {run} --resume")
    state = json.loads((run / "state.json").read_text(encoding="utf-8"))
    assert state["training"]["epoch"] == report["epochs"]
