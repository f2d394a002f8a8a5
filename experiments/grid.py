"""The paper's grid search over λ, η and n or (b, m), by MQ on dev: resumable, parallel, pruned only if asked.

A search is a SQLite file with one Optuna study for each model. Its points are queued there as waiting trials; every
task of the process pool takes one. A trial that a killed search left running is queued again when the search resumes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from itertools import product
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, final

from filelock import FileLock, Timeout

from blockhole.data.dataset import load
from blockhole.errors import BlockholeWarning, ConfigError, DataError, RunError, TrainingDiverged, nearest_or_all
from blockhole.evaluation.report import Table
from blockhole.fitting import fit
from blockhole.machine import choose_device
from blockhole.runs.config import TrainConfig, nested, overlay, read_preset, validate
from experiments.material import Material
from experiments.runner import measure

if TYPE_CHECKING:
    import optuna

PENALTIES = (0.0001, 0.0)
RATES = (0.005, 0.01, 0.025, 0.05)
SIZES = {
    "blockhole": ("2x25", "2x50", "2x100", "4x25", "4x50", "8x25"),
    "complex": ("50", "100", "150", "200"),
    "distmult": ("50", "100", "150", "200"),
    "rescal": ("50", "100", "150", "200"),
}
"""Of each model of the paper: the six (b, m) as bxm, or n."""

QUICK_RATES = (0.025, 0.05)
QUICK_SIZES = {"blockhole": ("2x25", "2x50", "4x25"), "complex": ("50",), "distmult": ("50",), "rescal": ("50",)}
QUICK_EPOCHS = 10
"""Instead of 500; with the quick rates and sizes 24 short trainings."""


class Point(NamedTuple):
    """One combination of the grid."""

    size: str
    l2: float
    learning_rate: float


def points(model: str, *, quick: bool) -> list[Point]:
    """The grid of a model."""
    sizes = QUICK_SIZES if quick else SIZES
    if model not in sizes:
        raise ConfigError(f"the paper's grid has no model {model!r}; {nearest_or_all(model, sizes, 'it has')}")
    return [Point(*each) for each in product(sizes[model], PENALTIES, QUICK_RATES if quick else RATES)]


def point_config(
    data: str, model: str, point: Point, *, quick: bool, overrides: Mapping[str, Any], device: str
) -> TrainConfig:
    """The paper's settings at a point; `overrides` (dotted key → value) go over all others but the point's own."""
    settings = read_preset("paper")
    if quick:
        settings = overlay(settings, {"training": {"epochs": QUICK_EPOCHS}, "early_stop": {"every": 2}})
    for key, value in overrides.items():
        settings = overlay(settings, nested(key, value))
    own = {
        "data": data,
        "model": {"name": model} | _size(point.size),
        "penalty": {"l2": point.l2},
        "optimizer": {"learning_rate": point.learning_rate},
        "training": {"threads": 1, "device": device},
    }
    return validate(overlay(settings, own))


def _size(size: str) -> dict[str, int]:
    blocks, separator, block_size = size.partition("x")
    return {"blocks": int(blocks), "block_size": int(block_size)} if separator else {"dim": int(size)}


_LOCK_SECONDS = 60.0
"""How long a process waits while others write to the file."""


@final
@dataclass(frozen=True, slots=True)
class GridSearch:
    """What is searched, and where it is kept."""

    data: str
    models: tuple[str, ...]
    file: Path
    quick: bool
    prune: bool
    overrides: dict[str, Any]
    device: str

    @classmethod
    def plan(
        cls,
        data: str,
        models: Sequence[str] | None,
        file: Path,
        *,
        quick: bool = False,
        prune: bool = False,
        overrides: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ) -> GridSearch:
        """A search whose every setting has been checked."""
        search = cls(data, tuple(models or SIZES), file, quick, prune, dict(overrides or {}), device)
        for model in search.models:
            for point in points(model, quick=quick):
                config = point_config(data, model, point, quick=quick, overrides=search.overrides, device=device)
                if prune and config.early_stop.metric != "mq":
                    raise ConfigError(
                        "--prune goes by MQ on dev queries; leave early_stop.metric = mq, or --prune out."
                    )
        return search

    def run(self, jobs: int, say: Callable[[str], None]) -> dict[str, Any]:
        """Train what is left of the grid, `jobs` trainings at a time; the report of all that is done."""
        load(self.data)  # what cannot be loaded is said here, once, and not by every process
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.file}.lock", timeout=0):
                waiting = [model for model in self.models for _ in range(self._queue(model))]
                self._train(waiting, jobs, say)
                return self._report()
        except Timeout:
            raise ConfigError(
                f"another process searches in {self.file}; wait for it, or name another --study."
            ) from None

    def study(self, model: str) -> optuna.Study:
        """The study of a model, made if it is not there."""
        try:
            import optuna
        except ImportError:
            raise RunError("the grid search needs Optuna; install it with: pip install --group experiments") from None
        import sqlalchemy.exc

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruner = optuna.pruners.MedianPruner() if self.prune else optuna.pruners.NopPruner()
        try:
            storage = optuna.storages.RDBStorage(
                f"sqlite:///{self.file}", engine_kwargs={"connect_args": {"timeout": _LOCK_SECONDS}}
            )
            return optuna.create_study(
                storage=storage, study_name=model, direction="maximize", pruner=pruner, load_if_exists=True
            )
        except sqlalchemy.exc.DatabaseError as failure:
            raise DataError(
                f"{self.file} is not a study of a grid search ({failure.orig}); name another --study."
            ) from None

    def ask(self, study: optuna.Study, model: str) -> optuna.Trial:
        """Take a waiting trial of a model's study."""
        from optuna.distributions import BaseDistribution, CategoricalDistribution

        grid = zip(Point._fields, zip(*points(model, quick=self.quick), strict=True), strict=True)
        choices: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(tuple(dict.fromkeys(values))) for name, values in grid
        }
        with FileLock(f"{self.file}.queue"):  # on SQLite, Optuna itself can hand one waiting trial to two processes
            return study.ask(choices)

    def _queue(self, model: str) -> int:
        """Queue the points that are not done; how many trials wait."""
        study = self.study(model)
        from optuna.trial import TrialState  # after `study`, which says what to install where Optuna is missing

        settings = json.loads(json.dumps({"data": self.data, "quick": self.quick, "overrides": self.overrides}))
        if study.user_attrs.get("settings", settings) != settings:
            raise ConfigError(f"{self.file} holds a search with other settings; name another --study.")
        study.set_user_attr("settings", settings)
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)  # its process is gone: the lock is ours
        seen = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.WAITING)
        taken = {Point(**trial.user_attrs["point"]) for trial in study.get_trials(deepcopy=False, states=seen)}
        for point in points(model, quick=self.quick):
            if point not in taken:
                study.enqueue_trial(point._asdict(), user_attrs={"point": point._asdict()})
        return len(study.get_trials(deepcopy=False, states=(TrialState.WAITING,)))

    def _train(self, waiting: Sequence[str], jobs: int, say: Callable[[str], None]) -> None:
        """Give every waiting trial to a process."""
        if not waiting:
            return
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(jobs, len(waiting)), mp_context=context, initializer=_begin)
        try:
            tasks = [pool.submit(_train_next, self, model) for model in waiting]
            for done, task in enumerate(as_completed(tasks), start=1):
                say(f"{done} of {len(tasks)}: {task.result()}")
        except BrokenProcessPool:
            raise RunError(
                "a process of the grid search was killed, perhaps for want of memory; "
                "give the same command again to go on, with fewer --jobs."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)

    def _report(self) -> dict[str, Any]:
        """Every model's best point and all its trials, best first."""
        found = {}
        for model in self.models:
            trials = self._trials(model)
            complete = [trial for trial in trials if trial["state"] == "complete"]
            found[model] = {
                "points": len(points(model, quick=self.quick)),
                "complete": len(complete),
                "best": complete[0] if complete else None,
                "trials": trials,
            }
        return {"data": self.data, "study": str(self.file), "quick": self.quick, "models": found}

    def _trials(self, model: str) -> list[dict[str, Any]]:
        from optuna.trial import TrialState

        ended = (TrialState.COMPLETE, TrialState.PRUNED)
        trials = [
            {
                **trial.user_attrs["point"],
                "state": trial.state.name.lower(),
                "mq": trial.value if trial.state == TrialState.COMPLETE else None,
                **{name: trial.user_attrs.get(name) for name in ("p_at_10", "epochs", "seconds", "reason")},
            }
            for trial in self.study(model).get_trials(deepcopy=False, states=ended)
        ]
        return sorted(trials, key=lambda trial: -1.0 if trial["mq"] is None else trial["mq"], reverse=True)


def grid_tables(report: Mapping[str, Any]) -> list[Table]:
    """The best point of each model."""
    rows = []
    for model, found in report["models"].items():
        best = found["best"] or {}
        done = f"{found['complete']} of {found['points']}"
        # λ and η as they are written: as figures they would be rounded to one digit.
        point = [str(best[name]) if best else None for name in Point._fields]
        rows.append((model, done, *point, *(best.get(name) for name in ("mq", "p_at_10", "epochs"))))
    header = ("model", "points done", "size", "λ", "η", "dev MQ", "dev P@10", "epochs")
    return [Table(f"Grid search on {report['data']}, by MQ of all dev paths, per cent", header, tuple(rows))]


# What the processes of the pool do: take a waiting trial, train it, tell its MQ.


def _begin() -> None:
    """Prepare this process of the pool."""
    # Ctrl-C ends it: the pool would catch an exception, and give the process the next trial.
    signal.signal(signal.SIGINT, lambda number, frame: _leave())
    # So does the end of the search, whatever this process does then: an idle one would wait for tasks for ever.
    threading.Thread(target=_leave_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    # The search has read the same data, and has said what there is to say about them.
    warnings.simplefilter("ignore", BlockholeWarning)


def _leave() -> NoReturn:
    """End this process at once; the trial under way is trained again when the search goes on."""
    os._exit(1)


def _leave_with(search: BaseProcess) -> None:
    """End this process when that of the search has ended, killed or not."""
    search.join()
    _leave()


@cache
def _material() -> Material:
    """The data, read once by each process."""
    return Material()


def _train_next(search: GridSearch, model: str) -> str:
    """Take a waiting trial of a model, train it, and tell its MQ on dev; one line about it.

    There are as many calls as waiting trials, so that there is one for each.
    """
    from optuna.exceptions import TrialPruned
    from optuna.trial import TrialState

    study = search.study(model)
    trial = search.ask(study, model)
    point = Point(**trial.params)
    config = point_config(
        search.data, model, point, quick=search.quick, overrides=search.overrides, device=search.device
    )
    data = _material().open(search.data, paths=True)
    line = f"{model} {point.size}, λ = {point.l2}, η = {point.learning_rate}"
    try:
        run = fit(data, config, progress=_Pruning(trial) if search.prune else None)
    except (TrainingDiverged, TrialPruned) as failure:
        reason = "diverged" if isinstance(failure, TrainingDiverged) else "pruned"
        trial.set_user_attr("reason", reason)
        study.tell(trial, state=TrialState.PRUNED)
        return f"{line}: {reason}"
    if not run.complete:
        _leave()
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
class _Pruning:
    """Asks the pruner after every validation whether the training is worth going on."""

    def __init__(self, trial: optuna.Trial) -> None:
        self._trial = trial
        self._epoch = 0

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        """See Progress."""
        self._epoch = epoch

    def batches_done(self, paths: int, loss: float) -> None:
        """See Progress."""

    def validated(self, figures: Mapping[str, float]) -> None:
        """See Progress."""
        from optuna.exceptions import TrialPruned

        self._trial.report(figures["mq"], self._epoch)
        if self._trial.should_prune():
            raise TrialPruned
