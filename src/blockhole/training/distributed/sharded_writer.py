"""Writing a run that several processes train: sharded checkpoints on the way, plain files at the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.tensor import DTensor

from blockhole.errors import RunError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.runs.checkpoint import (
    SHARDS,
    Checkpoint,
    Record,
    TrainingState,
    commit_shards,
    explaining_failed_save,
    load_checkpoint,
    read_record,
    recover,
    save_checkpoint,
)
from blockhole.runs.config import TrainConfig
from blockhole.runs.folder import CONFIG
from blockhole.runs.run import check_weights
from blockhole.runs.shards import load_shards, write_shards
from blockhole.runs.tracking import Figures, MetricsFile, Tracker
from blockhole.runs.writer import Optimizing, begin_folder, check_optimizer, check_same_data, resume_folder

if TYPE_CHECKING:
    from blockhole.training.distributed.group import Group


@final
class ShardedRunWriter:
    """Saves what each process holds; a Writer. Process 0 keeps the folder, and commits a checkpoint once all wrote it.

    A checkpoint is the folder shards/PLACE, named after its place in the run, and state.json, which names it. It is
    written while training goes on; until state.json is replaced, the one before is the valid one.
    """

    def __init__(
        self, folder: Path, model: Model, optimizing: Optimizing, group: Group, trackers: Sequence[Tracker]
    ) -> None:
        self._folder = folder
        self._model = model
        self._optimizing = optimizing
        self._group = group
        self._trackers = [*trackers]
        self._metrics: MetricsFile | None = None
        self._last: str | None = None
        self._plain: TrainingState | None = None
        self._under_way: Future[Any] | None = None
        self._committed: Future[None] | None = None

    def begin(self, config: TrainConfig, graph: KnowledgeGraph) -> None:
        """See Writer."""
        with self._group.together():
            if self._group.speaks:
                self._metrics = begin_folder(self._folder, config, graph)
                self._trackers.append(self._metrics)
                shutil.rmtree(self._folder / SHARDS, ignore_errors=True)
        with self._group.together():
            if not (self._folder / CONFIG).is_file():
                raise RunError(
                    f"{self._folder} is not the folder that process 0 writes to; "
                    "give one on a file system that all hosts share."
                )

    def resume(self, config: TrainConfig, graph: KnowledgeGraph) -> Checkpoint:
        """See Writer."""
        with self._group.together():
            if self._group.speaks:
                recover(self._folder)
                check_same_data(self._folder, graph)
        with self._group.together():
            record = read_record(self._folder)
            checkpoint = load_checkpoint(self._folder) if record.shards is None else None
        checkpoint = self._load_shards(record) if checkpoint is None else self._take_rows(checkpoint)
        self._last = record.shards
        self._plain = record.training.model_copy() if record.shards is None else None
        with self._group.together():
            if self._group.speaks:
                self._clear(keep=record.shards)
                self._metrics = resume_folder(self._folder, config, checkpoint.metrics_bytes)
                self._trackers.append(self._metrics)
        return checkpoint

    def log(self, event: str, figures: Figures) -> None:
        """See Writer; process 0 alone has metrics and trackers."""
        for tracker in self._trackers:
            tracker.log(event, figures)

    def close(self) -> None:
        """See Writer."""
        if self._metrics is not None:
            self._metrics.close()

    def save(self, state: TrainingState, best: dict[str, Tensor] | None, *, best_changed: bool) -> None:
        """See Writer; returns when the tensors are copied, and waits for the save before."""
        self.wait()
        place = f"{state.epoch}-{state.batch}"
        # Nothing has moved since; a committed folder is never written to again, nor are plain files.
        if place == self._last or state == self._plain:
            return
        tensors = self._tensors(best)
        self._under_way = write_shards(self._folder / SHARDS / place, tensors, self._group.saving)
        before, self._last = self._last, place
        if self._metrics is not None:
            self._committed, then, size = Future(), state.model_copy(), self._metrics.size()
            self._under_way.add_done_callback(lambda written: self._commit(written, place, before, then, size))

    def wait(self) -> None:
        """Wait until the save under way is on disk and committed.

        A failed write is raised here in every process, a failed commit in process 0, whose end the others notice.
        """
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        try:
            with explaining_failed_save(self._folder), _causes():
                under_way.result()
                if self._committed is not None:
                    self._committed.result()
        except CheckpointException as failure:
            reason = str(failure).strip().splitlines()[0]
            raise RunError(f"cannot save the run in {self._folder}: {reason}; continue it with --resume.") from None

    def finish(self, *, complete: bool) -> None:
        """Wait for the last save; of a complete run, put the shards together into plain files."""
        self.wait()
        with self._group.together():
            if complete and self._group.speaks and read_record(self._folder).shards is not None:
                save_checkpoint(self._folder, load_checkpoint(self._folder), best_changed=True)

    def _commit(
        self, written: Future[Any], place: str, before: str | None, state: TrainingState, metrics_bytes: int
    ) -> None:
        """In the thread that wrote: make the checkpoint the valid one, if all wrote it, and remove the one before.

        No other is touched: processes that do not commit may have made the folder of the next one already.
        """
        assert self._committed is not None
        if written.exception() is not None:
            self._committed.set_result(None)
            return
        try:
            commit_shards(self._folder, place, state, metrics_bytes)
            if before is not None:
                shutil.rmtree(self._folder / SHARDS / before, ignore_errors=True)
        except OSError as failure:
            self._committed.set_exception(failure)
        else:
            self._committed.set_result(None)

    def _tensors(self, best: dict[str, Tensor] | None) -> dict[str, Tensor]:
        sections = {"weights": self._model.state_dict(), "optimizer": self._optimizing.optimizer_state(), "best": best}
        return {
            f"{section}.{name}": value
            for section, tensors in sections.items()
            for name, value in (tensors or {}).items()
        }

    def _load_shards(self, record: Record) -> Checkpoint:
        """Fill model and optimizer from a sharded checkpoint of any mesh."""
        best = None
        if record.training.best_epoch is not None:
            best = {name: torch.empty_like(value) for name, value in self._model.state_dict().items()}
        tensors = self._tensors(best)
        load_shards(self._folder / SHARDS / str(record.shards), tensors, self._group.saving)
        optimizer = {name: tensors[f"optimizer.{name}"] for name in self._optimizing.optimizer_state()}
        self._optimizing.load_optimizer_state(optimizer)
        return Checkpoint(record.training, dict(self._model.state_dict()), optimizer, best, record.metrics_bytes)

    @torch.no_grad()
    def _take_rows(self, whole: Checkpoint) -> Checkpoint:
        """Fill model and optimizer from a plain checkpoint, each process with what it holds."""
        weights, optimizer = dict(self._model.state_dict()), self._optimizing.optimizer_state()
        check_weights(weights, whole.weights, self._folder)
        check_optimizer(optimizer, whole.optimizer, self._folder)
        for name, parameter in weights.items():
            parameter.copy_(self._held(parameter, whole.weights[name]))
        self._optimizing.load_optimizer_state(
            {name: self._held(value, whole.optimizer[name]) for name, value in optimizer.items()}
        )
        best = None
        if whole.best is not None:
            best = {name: self._held(parameter, whole.best[name]) for name, parameter in weights.items()}
        return Checkpoint(whole.state, weights, self._optimizing.optimizer_state(), best, whole.metrics_bytes)

    def _held(self, own: Tensor, whole: Tensor) -> Tensor:
        """What this process holds of a tensor that is `whole` on disk and `own` here."""
        return self._group.mesh.of_whole(whole) if isinstance(own, DTensor) else whole.to(own.device)

    def _clear(self, keep: str | None) -> None:
        """Remove the sharded checkpoints that a crash left behind beside the valid one, while none is written."""
        for left_over in (self._folder / SHARDS).glob("*"):
            if left_over.name != keep:
                shutil.rmtree(left_over, ignore_errors=True)


@contextmanager
def _causes() -> Iterator[None]:
    """Raise what made a process fail in its write, such as a full disk, instead of the report on all processes."""
    try:
        yield
    except CheckpointException as failure:
        for cause, _ in failure.failures.values():
            if isinstance(cause, OSError):
                raise cause from None
        raise
