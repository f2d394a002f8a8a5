"""metrics.jsonl, TensorBoard and MLflow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from blockhole.errors import ConfigError, DamagedRun, MissingExtra, RunError
from blockhole.fitting import train
from blockhole.runs.tracking import Figures, MetricsFile, read_metrics
from tests.training.worlds import SMALL, random_data

SHORT = SMALL | {"training.epochs": 2, "training.on": "base"}


def test_metrics_are_one_json_object_a_line(tmp_path: Path) -> None:
    run = train(random_data(), settings=SHORT | {"early_stop.metric": "mq"}, out=tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == run.metrics()
    assert [(line["event"], line["epoch"]) for line in run.metrics()] == [
        ("epoch", 1), ("validation", 1), ("epoch", 2), ("validation", 2),
    ]  # fmt: skip
    assert set(run.metrics()[0]) == {"event", "epoch", "loss", "paths", "seconds"}
    assert {"mq", "p_at_10"} <= set(run.metrics()[1])


def test_an_unfinished_line_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"event": "epoch", "epoch": 1}\n{"event": "epo', encoding="utf-8")
    assert read_metrics(file) == [{"event": "epoch", "epoch": 1}]
    assert read_metrics(tmp_path / "none") == []


def test_a_line_that_is_no_json_is_damage(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"event": "epoch", "epoch": 1}\n\0\0\0\0\n')
    with pytest.raises(DamagedRun, match=r"metrics\.jsonl cannot be read \(.*\); restore it from a copy\.$"):
        read_metrics(file)


def test_trackers_are_closed_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Recorder:
        def __init__(self, folder: Path) -> None:
            self.folder = folder

        def log(self, event: str, figures: Figures) -> None:
            raise AssertionError("nothing is trained here")

        def close(self) -> None:
            closed.append(self.folder)

    train(random_data(), settings=SHORT, out=tmp_path / "run")
    monkeypatch.setattr("blockhole.fitting.TensorBoardTracker", Recorder)
    with pytest.raises(RunError, match="was trained on other data"):
        train(random_data(seed=1), out=tmp_path / "run", resume=True, track=["tensorboard"])
    assert closed == [tmp_path / "run"]


def test_lines_beyond_the_checkpoint_are_written_again(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"a": 1}\n{"b": 2}\n{"c"', encoding="utf-8")
    metrics = MetricsFile(file, keep_bytes=9)
    metrics.log("epoch", {"epoch": 7})
    metrics.close()
    assert read_metrics(file) == [{"a": 1}, {"event": "epoch", "epoch": 7}]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

    run = train(random_data(), settings=SHORT, out=tmp_path / "run", track=["tensorboard"])
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    losses = [line["loss"] for line in run.metrics()]
    assert [event.step for event in events.Scalars("epoch/loss")] == [1, 2]
    assert [event.value for event in events.Scalars("epoch/loss")] == pytest.approx(losses)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own, about its database
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = train(random_data(), settings=SHORT, out=tmp_path / "run", track=["mlflow"])
    client = MlflowClient(tracking_uri=f"sqlite:///{(tmp_path / 'run' / 'mlflow.db').resolve()}")
    experiment = client.get_experiment_by_name("blockhole")
    assert experiment is not None
    (logged,) = client.search_runs([experiment.experiment_id])
    assert logged.data.params["model.block_size"] == "3"
    losses = client.get_metric_history(logged.info.run_id, "epoch_loss")
    assert [(point.step, point.value) for point in losses] == [(line["epoch"], line["loss"]) for line in run.metrics()]


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow.tracking")]
)
def test_a_missing_extra_says_what_to_install(
    name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'blockhole\[tracking\]'"):
        train(random_data(), settings=SHORT, out=tmp_path / "run", track=[name])


def test_unknown_trackers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot log to 'wandb'; the trackers are tensorboard and mlflow"):
        train(random_data(), settings=SHORT, out=tmp_path / "run", track=["wandb"])
