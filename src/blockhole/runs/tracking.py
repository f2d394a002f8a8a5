"""Where the figures of a run go while it trains: metrics.jsonl always, TensorBoard and MLflow if asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Protocol, final

from blockhole.errors import DamagedRun, MissingExtra, RunError, why
from blockhole.saving import parse_json, remedy

Figures = Mapping[str, float | int | str | None]

TENSORBOARD = "tensorboard"
MLFLOW = "mlflow.db"


class Tracker(Protocol):
    """Receives the figures of each epoch and each validation."""

    def log(self, event: str, figures: Figures) -> None:
        """Record the figures of an `event`, "epoch" or "validation"; they hold the key "epoch"."""

    def close(self) -> None:
        """Finish writing."""


@final
class MetricsFile:
    """metrics.jsonl: one JSON object a line, appended as training goes."""

    def __init__(self, path: Path, keep_bytes: int = 0) -> None:
        """Continue after `keep_bytes`: what a crashed run wrote beyond its checkpoint is written again."""
        self._path = path
        self._file = path.open("ab")
        os.truncate(path, min(keep_bytes, path.stat().st_size))

    def log(self, event: str, figures: Figures) -> None:
        """See Tracker."""
        line = json.dumps({"event": event, **figures}, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as failure:
            with suppress(OSError):  # the line it still holds cannot be written either
                self._file.close()
            again = f"blockhole train --out {quote(str(self._path.parent))} --resume"
            raise RunError(
                f"cannot write {self._path}: {failure.strerror}; {remedy(failure)} and continue with `{again}`."
            ) from failure

    def size(self) -> int:
        """Bytes written so far."""
        return self._path.stat().st_size

    def close(self) -> None:
        """See Tracker."""
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, float | int | str | None]]:
    """The lines of metrics.jsonl; an unfinished last line, being written or cut by a crash, is left out."""
    if not path.exists():
        return []
    try:
        complete, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
        return [parse_json(line) for line in complete.splitlines()]
    except (OSError, ValueError) as failure:
        raise DamagedRun(f"{path} cannot be read ({why(failure)}); restore it from a copy.") from None


@final
class TensorBoardTracker:
    """Scalars for TensorBoard, in RUN/tensorboard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("writing TensorBoard logs", "tracking") from None
        self._writer = SummaryWriter(log_dir=str(folder / TENSORBOARD))

    def log(self, event: str, figures: Figures) -> None:
        """See Tracker."""
        for name, value in _numbers(figures).items():
            self._writer.add_scalar(f"{event}/{name}", value, _epoch(figures))
        self._writer.flush()

    def close(self) -> None:
        """See Tracker."""
        self._writer.close()


@final
class MlflowTracker:
    """Metrics for MLflow: to where MLFLOW_TRACKING_URI says, else to the database RUN/mlflow.db."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise MissingExtra("logging to MLflow", "tracking") from None
        address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / MLFLOW}"
        self._client = MlflowClient(tracking_uri=address)
        experiment = self._client.get_experiment_by_name("blockhole")
        identity = experiment.experiment_id if experiment else self._client.create_experiment("blockhole")
        self._run = self._client.create_run(identity, run_name=folder.name).info.run_id
        for key, value in settings.items():
            self._client.log_param(self._run, key, value)

    def log(self, event: str, figures: Figures) -> None:
        """See Tracker."""
        for name, value in _numbers(figures).items():
            self._client.log_metric(self._run, f"{event}_{name}", value, step=_epoch(figures))

    def close(self) -> None:
        """See Tracker."""
        self._client.set_terminated(self._run)


def _numbers(figures: Figures) -> dict[str, float]:
    return {name: float(value) for name, value in figures.items() if isinstance(value, int | float) and name != "epoch"}


def _epoch(figures: Figures) -> int:
    epoch = figures["epoch"]
    assert isinstance(epoch, int)
    return epoch
