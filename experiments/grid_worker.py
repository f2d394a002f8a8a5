"""One training of the grid search, in a process of its own."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NoReturn, final

from blockhole.errors import BlockholeWarning, TrainingDiverged
from blockhole.fitting import fit
from blockhole.machine import choose_device
from experiments.grid import Point, point_config
from experiments.material import Material
from experiments.runner import measure

if TYPE_CHECKING:
    from optuna.trial import Trial

    from experiments.grid import GridSearch


def begin() -> None:
    """Prepare this process of the pool."""
    # Ctrl-C ends it: the pool would catch an exception, and give the process the next trial.
    signal.signal(signal.SIGINT, lambda number, frame: leave())
    # The search has read the same data, and has said what there is to say about them.
    warnings.simplefilter("ignore", BlockholeWarning)


def leave() -> NoReturn:
    """End this process at once; the trial under way is trained again when the search goes on."""
    os._exit(1)


@cache
def _material() -> Material:
    """The data, read once by each process."""
    return Material()


def train_next(search: GridSearch, model: str, parent: int) -> str:
    """Take a waiting trial of a model, train it, and tell its MQ on dev; one line about it.

    There are as many calls as waiting trials, so that there is one for each.
    """
    from optuna.exceptions import TrialPruned
    from optuna.trial import TrialState

    watch = _Watch(parent)
    watch.check()
    study = search.study(model)
    trial = search.ask(study, model)
    point = Point(**trial.params)
    config = point_config(
        search.data, model, point, quick=search.quick, overrides=search.overrides, device=search.device
    )
    data = _material().open(search.data, paths=True)
    watch.trial = trial if search.prune else None
    line = f"{model} {point.size}, λ = {point.l2}, η = {point.learning_rate}"
    try:
        run = fit(data, config, progress=watch)
    except (TrainingDiverged, TrialPruned) as failure:
        reason = "diverged" if isinstance(failure, TrainingDiverged) else "pruned"
        trial.set_user_attr("reason", reason)
        study.tell(trial, state=TrialState.PRUNED)
        return f"{line}: {reason}"
    if not run.complete:
        leave()
    figures = measure("ranking", run.model, data, "dev", choose_device(search.device))["all"]
    for name, value in (
        ("p_at_10", figures["p_at_10"]),
        ("epochs", run.state.epoch),
        ("seconds", round(run.state.seconds, 1)),
    ):
        trial.set_user_attr(name, value)
    study.tell(trial, figures["mq"])
    return f"{line}: dev MQ {figures['mq']:.2f}, P@10 {figures['p_at_10']:.2f}, {run.state.seconds:.0f} s"


@final
class _Watch:
    """Ends the process when the search that started it is gone; asks the pruner where pruning is wanted."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self.trial: Trial | None = None
        self._epoch = 0

    def check(self) -> None:
        if os.getppid() != self._parent:
            leave()

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        """See Progress."""
        self._epoch = epoch

    def batches_done(self, paths: int, loss: float) -> None:
        """See Progress."""
        self.check()

    def validated(self, figures: Mapping[str, float]) -> None:
        """See Progress."""
        if self.trial is None:
            return
        from optuna.exceptions import TrialPruned

        self.trial.report(figures["mq"], self._epoch)
        if self.trial.should_prune():
            raise TrialPruned
