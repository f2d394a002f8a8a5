"""The training loop: epochs, batches, validation, checkpoints. It knows neither model nor loss."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import FrameType
from typing import NoReturn, Protocol, final

import torch
from torch import Tensor

from blockhole.errors import TrainingDiverged
from blockhole.machine import torch_threads
from blockhole.runs.checkpoint import TrainingState
from blockhole.runs.config import TrainConfig
from blockhole.runs.writer import Writer
from blockhole.training.batches import Batch, Plan
from blockhole.training.learner import Learner, Validation
from blockhole.training.positives import Positives
from blockhole.training.workers import Workers

LOSSES_READ_TOGETHER = 32
"""Batches between two looks at the losses on an accelerator, where each look waits for the device."""


class Progress(Protocol):
    """Is told how training goes, to show it."""

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        """Epoch number `epoch` (from 1) of `epochs` begins, over `paths` positives."""

    def batches_done(self, paths: int, loss: float) -> None:
        """`paths` positives of the epoch are done, at this mean loss."""

    def validated(self, figures: Mapping[str, float]) -> None:
        """The model was measured."""


@final
class Trainer:
    """Takes a learner from `state` to the last epoch, early stop, or interruption.

    Several trainers of one run, each in its process, agree through their `workers` on when to save and to stop.
    """

    def __init__(
        self,
        config: TrainConfig,
        workers: Workers,
        learner: Learner,
        positives: Positives,
        state: TrainingState | None = None,
        *,
        validation: Validation | None = None,
        writer: Writer | None = None,
        progress: Progress | None = None,
        interruption: Interruption | None = None,
    ) -> None:
        if config.training.epochs is None:
            raise ValueError("the number of epochs must be settled before training begins")
        self._epochs = config.training.epochs
        self.state = state or TrainingState()
        self._best_changed = False
        self._config = config
        self._workers = workers
        self._learner = learner
        self._positives = positives
        self._validation = validation
        self._writer = writer
        self._progress = progress
        self._interruption = interruption or Interruption()
        self._device = learner.model.entity.device
        self._last_save = perf_counter()

    def run(self) -> bool:
        """Train; whether it came to its end, rather than being interrupted."""
        if not self.state.paths:
            self._save()
        self._look_at_patience()  # a run that is resumed may have been given more of it
        while self.state.epoch < self._epochs and not self.state.stopped_early:
            if not self._finish_epoch():
                self._save()
                return False
            self._measure()
            if self._workers.agree(self._save_is_due()):
                self._save()
        self._save()
        return True

    def _finish_epoch(self) -> bool:
        """Do the batches that are left of the epoch under way; False if interrupted on the way."""
        started, workers = perf_counter(), self._workers
        plan = self._positives.plan(self.state.epoch)
        if self._progress:
            self._progress.epoch_begins(self.state.epoch + 1, self._epochs, plan.positives)
        together = 1 if self._device.type == "cpu" else LOSSES_READ_TOGETHER
        while self.state.batch < len(plan):
            last = min(self.state.batch + together, len(plan))
            losses = [self._learner.step(self._batch(plan, index)) for index in range(self.state.batch, last)]
            self._account(plan, losses)
            self.state.seconds += perf_counter() - started
            if workers.agree(self._interruption.requested or self._save_is_due()):
                if workers.agree(self._interruption.requested):
                    return False
                self._save()
            started = perf_counter()
        self._close_epoch()
        return True

    def _batch(self, plan: Plan, index: int) -> Batch:
        if self._device.type != "cpu":
            return plan.batch(index)
        with torch_threads(1):  # torch's others would go on spinning for a while, on the cores of the stepper's own
            return plan.batch(index)

    def _account(self, plan: Plan, losses: Sequence[Tensor]) -> None:
        """Count batches that are done; a loss that is not finite ends the run."""
        for loss in torch.stack(list(losses)).tolist():
            if not math.isfinite(loss):
                self._diverged(f"the loss became {loss}")
            size = plan.size(self.state.batch)
            self.state.epoch_loss += loss * size
            self.state.epoch_paths += size
            self.state.paths += size
            self.state.batch += 1
        if self._progress:
            self._progress.batches_done(self.state.epoch_paths, self.state.epoch_loss / self.state.epoch_paths)

    def _close_epoch(self) -> None:
        state = self.state
        state.last_loss = state.epoch_loss / state.epoch_paths
        state.epoch += 1
        state.batch, state.epoch_loss, state.epoch_paths = 0, 0.0, 0
        if self._learner.averages:
            self._settle_unseen()
            self._learner.close_epoch(state.epoch)
        self._log("epoch", {"loss": state.last_loss, "paths": state.paths, "seconds": state.seconds})

    def _measure(self) -> None:
        """Measure the model, or its average, if it is time to; an average that is not measured is kept as it comes."""
        metric, every = self._config.early_stop.metric, self._config.early_stop.every
        if self._validation is None or metric is None:
            if self._learner.averages:
                with self._learner.averaged():
                    self._keep()
        elif self.state.epoch % every == 0:
            self._settle_unseen()
            with self._learner.averaged():
                self._judge(self._workers.measure(self._validation, self._learner.model, self._config), metric)

    def _judge(self, figures: Mapping[str, float], metric: str) -> None:
        """Note whether the figures are the best so far, and stop when none has been for long."""
        state = self.state
        self._log("validation", figures)
        if self._progress:
            self._progress.validated(figures)
        if state.best_figure is None or figures[metric] > state.best_figure:
            state.best_figure, state.since_best = figures[metric], 0
            self._keep()
        else:
            state.since_best += 1
            self._look_at_patience()

    def _look_at_patience(self) -> None:
        self.state.stopped_early = self.state.since_best >= self._config.early_stop.patience

    def _keep(self) -> None:
        self.state.best_epoch = self.state.epoch
        self._learner.keep()
        self._best_changed = True

    def _settle_unseen(self) -> None:
        if self._learner.seen is not None:
            self._workers.average_unseen(self._learner.model, self._learner.seen)

    def _log(self, event: str, figures: Mapping[str, float | int | None]) -> None:
        if self._writer:
            self._writer.log(event, {"epoch": self.state.epoch, **figures})

    def _save_is_due(self) -> bool:
        due = perf_counter() - self._last_save >= self._config.training.checkpoint_seconds
        return self._writer is not None and due

    def _save(self) -> None:
        self._settle_unseen()
        if self._writer is None:
            return
        # A finite loss comes before its step, which may still have spoiled the weights; those must not be saved.
        parameters = self._learner.model.parameters()
        if self._workers.agree(not all(bool(parameter.isfinite().all()) for parameter in parameters)):
            self._diverged("the weights became infinite or NaN")
        self._writer.save(self.state, self._learner.best, best_changed=self._best_changed)
        self._best_changed = False
        self._last_save = perf_counter()

    def _diverged(self, what: str) -> NoReturn:
        kept = "the last checkpoint is kept" if self._writer else "nothing was saved"
        raise TrainingDiverged(
            f"{what} in epoch {self.state.epoch + 1}, batch {self.state.batch + 1}; {kept}. "
            f"Train again with a smaller optimizer.learning_rate than {self._config.optimizer.learning_rate:g}, "
            "or a larger penalty."
        )


# Ctrl-C as a request: the loop finishes its batch, saves, and stops; a second one stops at once.


@final
class Interruption:
    """Whether training was asked to stop."""

    requested = False

    def request(self, number: int, frame: FrameType | None) -> None:
        """Take the first signal for a request; the second ends the program."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Within the block, the first SIGINT or SIGTERM is only noted in what is yielded.

    Signals reach the main thread alone; in any other the handlers stay as they are.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    handlers = {number: signal.signal(number, interruption.request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
