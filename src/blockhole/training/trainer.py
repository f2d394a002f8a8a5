"""The training loop: epochs, batches, validation, checkpoints. It knows neither model nor loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import NoReturn, Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.errors import TrainingDiverged
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.machine import torch_threads
from blockhole.models.contract import Model
from blockhole.runs.checkpoint import TrainingState
from blockhole.runs.config import TrainConfig
from blockhole.runs.tracking import Tracker
from blockhole.runs.writer import Saver
from blockhole.training.batches import Batch, Plan
from blockhole.training.engines import AveragedEngine, Engine
from blockhole.training.positives import Positives

# Entities that training never meets, and the row they get.


_TOGETHER = 1 << 20
"""Facts that are looked at in one go; the graph may be larger than memory."""
_ROWS_TOGETHER = 1 << 17
"""Rows that are added up in one go."""


def seen_entities(graph: KnowledgeGraph, positives: Positives) -> NDArray[np.int64] | None:
    """The entities of the train facts and of the positives, ascending; absent where these are all there are."""
    met = np.zeros(graph.num_entities, dtype=bool)
    for first in range(0, len(graph), _TOGETHER):
        met[graph.triples[first : first + _TOGETHER, [0, 2]]] = True
    met[positives.ends().cpu().numpy()] = True
    return None if met.all() else np.flatnonzero(met)


@torch.no_grad()
def give_mean_to_unseen(model: Model, seen: NDArray[np.int64]) -> None:
    """Set the row of every other entity to the mean row of those `seen` [count].

    As a source or an answer such an entity then counts as an average one: under a bilinear model its score is the mean
    of theirs. No step reads these rows (an engine that is told `seen` contrasts with no others), so writing
    them disturbs neither training nor its optimizer.
    """
    rows = torch.from_numpy(seen).to(model.entity.device)
    set_other_rows(model.entity, rows, sum_of_rows(model.entity, rows) / len(seen))


def sum_of_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Σ table[rows]: [width], a block of rows at a time, since all of them at once may be as large as the table."""
    total = table.new_zeros(table.shape[1])
    for block in torch.split(rows, _ROWS_TOGETHER):
        total += table.index_select(0, block).sum(dim=0)
    return total


def set_other_rows(table: Tensor, rows: Tensor, row: Tensor) -> None:
    """Write `row` [width] over all rows of `table` but `rows`."""
    others = torch.ones(len(table), dtype=torch.bool, device=table.device)
    others[rows] = False
    table[others] = row


# The training loop: epochs, batches, validation, checkpoints. It knows neither model nor loss.


Validate = Callable[[Model], Mapping[str, float]]
"""Figures of a model on the validation queries, among them the one early stopping looks at."""

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
    """Takes a model from `state` to the last epoch, early stop, or interruption.

    `best` holds the weights of the best validation figure, where one is measured; an engine that averages is measured,
    and kept as `best`, by its average. Several trainers of one run, each in its process, `agree` on when to save and to
    stop (a yes of any is a yes of all). Where only some entities are `seen` (absent: all), the others have the mean of
    their rows whenever the model is measured or saved.
    """

    def __init__(
        self,
        model: Model,
        engine: Engine,
        positives: Positives,
        config: TrainConfig,
        state: TrainingState,
        best: dict[str, Tensor] | None = None,
        *,
        seen: NDArray[np.int64] | None = None,
        validate: Validate | None = None,
        saver: Saver | None = None,
        trackers: Sequence[Tracker] = (),
        progress: Progress | None = None,
        interrupted: Callable[[], bool] = lambda: False,
        agree: Callable[[bool], bool] = lambda mine: mine,
        average_unseen: Callable[[Model, NDArray[np.int64]], None] = give_mean_to_unseen,
    ) -> None:
        if config.training.epochs is None:
            raise ValueError("the number of epochs must be settled before training begins")
        self._epochs = config.training.epochs
        self.state = state
        self.best = best
        self._best_changed = False
        self._model = model
        self._engine = engine
        self._average = engine if isinstance(engine, AveragedEngine) else None
        self._positives = positives
        self._config = config
        self._seen = seen
        self._validate = validate
        self._saver = saver
        self._trackers = trackers
        self._progress = progress
        self._interrupted = interrupted
        self._agree = agree
        self._average_unseen = average_unseen
        self._device = model.entity.device
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
            if self._agree(self._save_is_due()):
                self._save()
        self._save()
        return True

    def _finish_epoch(self) -> bool:
        """Do the batches that are left of the epoch under way; False if interrupted on the way."""
        started = perf_counter()
        plan = self._positives.plan(self.state.epoch)
        if self._progress:
            self._progress.epoch_begins(self.state.epoch + 1, self._epochs, plan.positives)
        together = 1 if self._device.type == "cpu" else LOSSES_READ_TOGETHER
        while self.state.batch < len(plan):
            last = min(self.state.batch + together, len(plan))
            losses = [self._engine.step(self._batch(plan, index)) for index in range(self.state.batch, last)]
            self._account(plan, losses)
            self.state.seconds += perf_counter() - started
            if self._agree(self._interrupted() or self._save_is_due()):
                if self._agree(self._interrupted()):
                    return False
                self._save()
            started = perf_counter()
        self._close_epoch()
        return True

    def _batch(self, plan: Plan, index: int) -> Batch:
        if self._device.type != "cpu":
            return plan.batch(index)
        with torch_threads(1):  # torch's others would go on spinning for a while, on the cores of the engine's own
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
        if self._average:
            self._settle_unseen()
            self._average.close_epoch(state.epoch)
        self._log("epoch", {"loss": state.last_loss, "paths": state.paths, "seconds": state.seconds})

    def _measure(self) -> None:
        """Measure the model, or its average, if it is time to; an average that is not measured is kept as it comes."""
        metric, every = self._config.early_stop.metric, self._config.early_stop.every
        if self._validate is None or metric is None:
            if self._average:
                with self._average.averaged():
                    self._keep()
        elif self.state.epoch % every == 0:
            self._settle_unseen()
            with self._average.averaged() if self._average else nullcontext():
                self._judge(self._validate(self._model), metric)

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
        """Take the weights of the model for those that answer for the run."""
        self.state.best_epoch = self.state.epoch
        self.best = {name: value.detach().clone() for name, value in self._model.state_dict().items()}
        self._best_changed = True

    def _settle_unseen(self) -> None:
        if self._seen is not None:
            self._average_unseen(self._model, self._seen)

    def _log(self, event: str, figures: Mapping[str, float | int | None]) -> None:
        for tracker in self._trackers:
            tracker.log(event, {"epoch": self.state.epoch, **figures})

    def _save_is_due(self) -> bool:
        due = perf_counter() - self._last_save >= self._config.training.checkpoint_seconds
        return self._saver is not None and due

    def _save(self) -> None:
        self._settle_unseen()
        if self._saver is None:
            return
        # A finite loss comes before its step, which may still have spoiled the weights; those must not be saved.
        if self._agree(not all(bool(parameter.isfinite().all()) for parameter in self._model.parameters())):
            self._diverged("the weights became infinite or NaN")
        self._saver.save(self.state, self.best, best_changed=self._best_changed)
        self._best_changed = False
        self._last_save = perf_counter()

    def _diverged(self, what: str) -> NoReturn:
        kept = "the last checkpoint is kept" if self._saver else "nothing was saved"
        raise TrainingDiverged(
            f"{what} in epoch {self.state.epoch + 1}, batch {self.state.batch + 1}; {kept}. "
            f"Train again with a smaller optimizer.learning_rate than {self._config.optimizer.learning_rate:g}, "
            "or a larger penalty."
        )
