"""Search settings by validation facts: what `blockhole.tune` and the verb call.

A search is a folder: `search.json` says what is searched, `trials.journal` is Optuna's journal, to which every process
appends what it tries and finds, `best.json` are the best settings so far, which `train --config` takes, and
`report.json` and the plots say what mattered. The same call goes on with a search that was stopped.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, final

from blockhole.choosing import COMMON, SMALL, STEPS, paced
from blockhole.compiled import available_threads
from blockhole.data.dataset import DataSet
from blockhole.errors import (
    BlockholeError,
    BlockholeWarning,
    ConfigError,
    Count,
    MissingExtra,
    RunError,
    Seed,
    TrainingDiverged,
    checked,
    counted,
    quoted,
)
from blockhole.evaluation.plots import check_drawing, draw_search
from blockhole.files.columns import ColumnNames, Literals, Reading
from blockhole.fitting import Data, data_as_set, fit, lasting_name
from blockhole.runs.config import Settings, gather, known_keys, nested, overlay, parse_assignment, validate
from blockhole.runs.writer import sole_writer
from blockhole.saving import parse_json, write_file

if TYPE_CHECKING:
    import optuna

SEARCH, JOURNAL, BEST, REPORT = "search.json", "trials.journal", "best.json", "report.json"

DEFAULT_SEARCH: Final = (
    "training.on=base,paths",
    "model.blocks=1,2,4,8",
    "model.block_size=16,32,64,128",
    "loss.relation_weight=0,0.5,1,4",
    "loss.query_dropout=0,0.2,0.4",
    "penalty.dura=0.002..0.3:log",
    "penalty.n3=0,0.01,0.03",
    "optimizer.learning_rate=0.05..0.5:log",
)
"""What is searched where nothing is named."""

FIRST_POINT: Final = {
    "training.on": "base",
    "model.blocks": 4,
    "model.block_size": 32,
    "loss.relation_weight": 1,
    "loss.query_dropout": 0,
    "penalty.dura": 0.05,
    "penalty.n3": 0,
    "optimizer.learning_rate": 0.2,
}
"""The first trial, as far as these are searched: one of the ways that `train` tries by itself."""

STARTUP: Final = 5
"""Trials that no pruner judges."""
PATIENCE: Final = 3
"""How many times longer than the median of the others a trial may take, once so many have come to their end."""


@final
@dataclass(frozen=True, slots=True)
class Span:
    """The values that one setting may take: a list of choices, or all numbers from `low` to `high`."""

    key: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    @classmethod
    def parse(cls, text: str) -> Span:
        """`KEY=A,B,C` or `KEY=LOW..HIGH`, with `:log` after it for even steps of the logarithm."""
        key, separator, values = (part.strip() for part in text.partition("="))
        if key not in known_keys():
            validate(nested(key, None))  # names the nearest
            raise ConfigError(f"there is no setting {key} to search.")
        if "." not in key:
            raise ConfigError(f"{key} says what is trained on; search settings of how, such as penalty.dura.")
        if not separator or not values:
            raise ConfigError(f"cannot read {quoted(text)}; write KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=A,B,C.")
        bounds, _, scale = values.partition(":")
        if ".." in bounds:
            low, high = (_number(each, text) for each in bounds.split("..", 1))
            if scale not in ("", "log") or not low < high or (scale == "log" and low <= 0):
                raise ConfigError(
                    f"cannot search {quoted(text)}; write a lower and a higher number, with :log above 0, "
                    "as in penalty.dura=0.01..1:log."
                )
            whole = isinstance(low, int) and isinstance(high, int)
            return cls(key, low=low, high=high, log=scale == "log", whole=whole)
        return cls(key, choices=tuple(parse_assignment(f"{key}={each}")[1] for each in values.split(",")))

    def ends(self) -> tuple[Any, ...]:
        """Values that must be possible for all between them to be."""
        return self.choices or (self.low, self.high)

    def draw(self, trial: optuna.Trial) -> Any:
        """What `trial` takes for the setting."""
        if self.choices:
            return trial.suggest_categorical(self.key, self.choices)
        if self.whole:
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)

    def holds(self, value: Any) -> bool:
        """Whether the setting may have this value."""
        return value in self.choices if self.choices else self.low <= value <= self.high


def _number(text: str, whole: str) -> float | int:
    value = parse_assignment(f"x={text}")[1]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"cannot read {quoted(text)} in {quoted(whole)} as a number; write KEY=LOW..HIGH.")
    return value


@final
@dataclass(frozen=True, slots=True)
class Tuned:
    """What a search has found: MRR of the validation facts by trial, the best settings, and what mattered.

    `trials` are all that ended, in order: number, figure (None where it was stopped on the way), why it was stopped or
    cut short, seconds, settings.
    `importances` say how much of what sets the best trials apart each setting explains; they sum to 1, and are empty
    where fewer than ten trials came to their end.
    """

    folder: Path
    best: float
    settings: dict[str, Any]
    trials: list[dict[str, Any]]
    importances: dict[str, float]

    @property
    def config(self) -> Path:
        """The file of the best settings, for `train(config=…)`."""
        return self.folder / BEST

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        return {
            "folder": str(self.folder),
            "config": str(self.config),
            "best": self.best,
            "settings": self.settings,
            "importances": self.importances,
            "trials": self.trials,
        }


@checked
def tune(
    data: Data,
    out: Path | str,
    *,
    search: Sequence[str] = (),
    trials: Count = 30,
    seconds: float | None = None,
    trial_seconds: float | None = None,
    workers: Count = 1,
    preset: str | None = None,
    config: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    columns: ColumnNames | None = None,
    literals: Literals | None = None,
    seed: Seed = 0,
    say: Callable[[str], None] | None = None,
) -> Tuned:
    """Search settings for `data` by the MRR of its validation facts, and keep the search in the folder `out`.

    `search` lists what is searched, as KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=A,B,C (without it `DEFAULT_SEARCH`); all
    else comes from `preset`, the file `config` and `settings`, as in `train`, and where these are silent from what
    `train` does by itself; `columns` and `literals` are as in `load`. Trials that fall behind the median of the others
    are stopped, and one that takes longer than `trial_seconds`, or three times the median of the others, ends at its
    next validation with the best it has reached. The search ends after `trials` trials in all, or after so many
    `seconds`: the trial under way then counts for nothing. The same call goes on with a search, with more trials too.
    `workers` processes search at a time, each on one thread. `say` gets a line for each trial.
    """
    _need_optuna()
    told = say or (lambda line: None)
    if workers > (most := 4 * available_threads()):
        raise ConfigError(f"workers must be at most {most} here, four for each core, not {quoted(workers)}.")
    if workers > 1 and not isinstance(data, str | Path):
        raise ConfigError(
            "each of several workers reads the data for itself; name a data set or a path, or take one worker."
        )
    reading, settings = Reading.of(columns, literals), dict(settings or {})
    if columns is not None:
        settings["columns"] = reading.columns
    if literals is not None:
        settings["literals"] = reading.literals
    loaded = data_as_set(data, validate(gather(preset=preset, file=config, overrides=settings)))
    if not len(loaded.split.valid):
        raise ConfigError(
            f"{loaded.name} has no validation facts to search by; "
            "split it with `blockhole data split`, or train without a search."
        )
    if seconds is not None and not seconds > 0:
        raise ConfigError("seconds must be more than 0; give the search at least the time of one trial.")
    if trial_seconds is not None and not trial_seconds > 0:
        raise ConfigError("trial_seconds must be more than 0; leave it out for three times the median of the trials.")
    plan = SettingsSearch.plan(data, loaded, Path(out), search, preset, config, settings, seed, trial_seconds)
    with sole_writer(plan.folder):
        plan.begin(trials)
        plan.run(loaded, trials, None if seconds is None else time.time() + seconds, workers, told)
        tuned = plan.report(loaded, seconds)
    draw_search(plan.folder, tuned.trials, tuned.importances)
    return tuned


def _need_optuna() -> None:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("tuning", "tune") from None
    check_drawing()
    optuna.logging.set_verbosity(optuna.logging.ERROR)


@final
@dataclass(frozen=True, slots=True)
class SettingsSearch:
    """What is searched, over which settings, and where it is kept."""

    folder: Path
    data: str | None
    spans: tuple[Span, ...]
    base: Settings
    seed: int
    trial_seconds: float | None = None

    @classmethod
    def plan(
        cls,
        data: Data,
        loaded: DataSet,
        folder: Path,
        search: Sequence[str],
        preset: str | None,
        config: Path | str | None,
        settings: Mapping[str, Any] | None,
        seed: int,
        trial_seconds: float | None,
    ) -> SettingsSearch:
        """A search of which every end of every span has been checked."""
        asked = gather(preset=preset, file=config, overrides=settings)
        base = overlay(asked if preset or config else overlay(_start(loaded), asked), {"early_stop": {"metric": "mrr"}})
        base["choice"] = None
        name = lasting_name(data) if isinstance(data, str | Path) else None
        if name is not None:
            base["data"] = name
        fixed = settings or {}
        default = [text for text in DEFAULT_SEARCH if text.partition("=")[0] not in fixed]
        spans = tuple(Span.parse(text) for text in search or default)
        if len({span.key for span in spans}) < len(spans):
            raise ConfigError("a setting is searched twice; name each of them once.")
        if both := [span.key for span in spans if span.key in fixed]:
            raise ConfigError(f"{both[0]} is set and searched; leave one of the two out.")
        for span in spans:
            for value in span.ends():
                validate(overlay(base, nested(span.key, value)))
        return cls(folder, name, spans, base, seed, trial_seconds)

    def begin(self, trials: int) -> None:
        """Write down what is searched, or go on with the same; trials that a killed process left are given up."""
        from optuna.trial import TrialState

        file = self.folder / SEARCH
        mine = {"data": self.data, "base": self.base, "seed": self.seed, "spans": [repr(span) for span in self.spans]}
        if not file.is_file():
            if any(self.folder.iterdir()):
                raise RunError(f"{self.folder} holds other things than a search; name a new folder.")
            write_file(file, (json.dumps(mine, indent=1) + "\n").encode())
        elif parse_json(file.read_text(encoding="utf-8")) != json.loads(json.dumps(mine)):
            raise ConfigError(f"{self.folder} holds a search of other settings or data; name a new folder.")
        study = self.study()
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        if not study.get_trials(deepcopy=False):
            first = {span.key: FIRST_POINT[span.key] for span in self.spans if span.key in FIRST_POINT}
            if first and all(span.holds(first[span.key]) for span in self.spans if span.key in first):
                study.enqueue_trial(first)
        if len(self._ended(study)) >= trials:
            raise ConfigError(
                f"{self.folder} has {counted(len(self._ended(study)), 'trial')} already; ask for more with --trials, "
                f"or train with the best so far: --config {self.folder / BEST}."
            )

    def study(self, sampler_seed: int = 0) -> optuna.Study:
        """The study in the folder."""
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        journal = str(self.folder / JOURNAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what Optuna calls experimental
            return optuna.create_study(
                study_name="tune",
                storage=JournalStorage(JournalFileBackend(journal, lock_obj=JournalFileOpenLock(journal))),
                sampler=optuna.samplers.TPESampler(seed=sampler_seed, constant_liar=True),
                pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=3),
                direction="maximize",
                load_if_exists=True,
            )

    def _ended(self, study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
        from optuna.trial import TrialState

        return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))

    def run(
        self, loaded: DataSet, trials: int, deadline: float | None, workers: int, say: Callable[[str], None]
    ) -> None:
        """Try what is left of the trials, in this process or in several."""
        left = trials - len(self._ended(self.study()))
        if workers == 1:
            for _ in range(left):
                line = self.try_one(loaded, 0, deadline)
                if line is None:
                    break
                say(line)
            return
        context = multiprocessing.get_context("spawn")
        shares = [left // workers + (number < left % workers) for number in range(workers)]
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin) as pool:
            tasks = [
                pool.submit(_search, self, share, number, deadline) for number, share in enumerate(shares) if share
            ]
            try:
                for task in tasks:
                    for line in task.result():
                        say(line)
            except BrokenProcessPool:
                raise RunError(
                    "a process of the search was killed, perhaps for want of memory; call it again with fewer workers, "
                    "and it goes on."
                ) from None

    def try_one(self, data: DataSet, number: int, deadline: float | None) -> str | None:
        """Train one trial and tell the study; a line about it, or None where the time is over."""
        from optuna.exceptions import TrialPruned
        from optuna.trial import TrialState

        if deadline is not None and time.time() >= deadline:
            return None
        study = self.study(self.sampler_seed(number, len(self._ended(self.study()))))
        trial = study.ask()
        settings = self.base
        for span in self.spans:
            settings = overlay(settings, nested(span.key, span.draw(trial)))
        judge = _Judge(trial, deadline, self.longest(study))
        try:
            complete = fit(data, paced(validate(settings), data), progress=judge).complete
        except _TimeOver:
            study.tell(trial, state=TrialState.FAIL)
            return None
        except _TrialTooLong:
            trial.set_user_attr("reason", "cut short: it took too long")
            complete = True
        except (TrialPruned, TrainingDiverged, ConfigError) as failure:
            reason = "stopped: behind the others" if isinstance(failure, TrialPruned) else f"failed: {failure}"
            trial.set_user_attr("reason", reason)
            study.tell(trial, state=TrialState.PRUNED)
            return f"trial {trial.number + 1} {reason}"
        if not complete:  # Ctrl-C
            study.tell(trial, state=TrialState.FAIL)
            raise KeyboardInterrupt
        trial.set_user_attr("seconds", round(judge.seconds, 1))
        trial.set_user_attr("epoch", judge.best_epoch)
        study.tell(trial, judge.best)
        best = max(each.value for each in self._ended(study) if each.value is not None)
        cut = f", cut short after {judge.seconds:.0f} s" if "reason" in trial.user_attrs else ""
        return f"trial {trial.number + 1}: MRR {judge.best:.4f}, best {best:.4f}{cut}"

    def longest(self, study: optuna.Study) -> float:
        """Seconds after which a trial ends with what it has reached; a few trials set the measure."""
        from optuna.trial import TrialState

        if self.trial_seconds is not None:
            return self.trial_seconds
        whole = [
            trial.user_attrs["seconds"] for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        ]
        return PATIENCE * median(whole) if len(whole) >= PATIENCE else math.inf

    def sampler_seed(self, number: int, ended: int) -> int:
        """The seed of a trial of process `number` after `ended` trials: another for each, or two would try the same."""
        return self.seed * 1000 + number * 1_000_000 + ended

    def report(self, data: DataSet, seconds: float | None) -> Tuned:
        """Write the best settings and the report, and return what was found."""
        study = self.study()
        ended = self._ended(study)
        complete = [trial for trial in ended if trial.value is not None and trial.state.name == "COMPLETE"]
        if not complete:
            failed = [trial.user_attrs["reason"] for trial in ended if "reason" in trial.user_attrs]
            if failed or seconds is None:
                raise RunError(f"no trial came to its end; the first {failed[0] if failed else 'was cut short'}")
            raise RunError(
                f"no trial came to its end in {seconds:g} s; give the search more time, or shorter "
                "trials with --set training.steps=100."
            )
        best = max(complete, key=lambda trial: trial.value or 0.0)
        settings = self.base
        for key, value in best.params.items():
            settings = overlay(settings, nested(key, value))
        found = paced(validate(settings), data)
        tuned = Tuned(
            folder=self.folder,
            best=float(best.value or 0.0),
            settings=dict(best.params),
            trials=[
                {
                    "number": trial.number + 1,
                    "mrr": trial.value if trial.state.name == "COMPLETE" else None,
                    "reason": trial.user_attrs.get("reason"),
                    "seconds": trial.user_attrs.get("seconds"),
                    "settings": dict(trial.params),
                }
                for trial in ended
            ],
            importances=importances(study, len(complete)),
        )
        kept = {
            key: value for key, value in found.model_dump(mode="json").items() if value is not None or key != "data"
        }
        write_file(tuned.config, (json.dumps(kept, indent=1) + "\n").encode())
        write_file(self.folder / REPORT, (json.dumps(tuned.to_dict(), indent=1) + "\n").encode())
        return tuned


def _start(data: DataSet) -> Settings:
    """What `train` does by itself, with what a search leaves as it is: all entities as rivals, or a sample of many."""
    if len(data.split.entities) <= SMALL:
        return overlay(COMMON, {"training": {"steps": STEPS}})
    sampled = {"loss": {"kind": "sampled_softmax", "negatives": 1024}, "training": {"batch_size": 1024, "steps": 4000}}
    return overlay(COMMON, sampled)


def importances(study: optuna.Study, complete: int) -> dict[str, float]:
    """How much each setting sets the best trials apart from the others (PED-ANOVA, Watanabe et al. 2023)."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    if complete < 10:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return {key: float(value) for key, value in found.items()}


class _TimeOver(BlockholeError):
    """The search's time is over in the middle of a trial."""


class _TrialTooLong(BlockholeError):
    """A trial takes too long; it ends with what it has reached."""


@final
class _Judge:
    """Keeps the best of a trial, looks at the clocks, and asks the pruner after every validation. Progress.

    `best` is an MRR, reached after epoch `best_epoch`.
    """

    def __init__(self, trial: optuna.Trial, deadline: float | None, longest: float) -> None:
        self.best = 0.0
        self.best_epoch: int | None = None
        self._trial = trial
        self._deadline = deadline
        self._longest = longest
        self._began = time.perf_counter()
        self._epoch = 0
        self._validations = 0

    @property
    def seconds(self) -> float:
        """How long the trial has taken."""
        return time.perf_counter() - self._began

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        """See Progress."""
        self._epoch = epoch

    def batches_done(self, paths: int, loss: float) -> None:
        """See Progress."""
        if self._deadline is not None and time.time() > self._deadline:
            raise _TimeOver

    def validated(self, figures: Mapping[str, float]) -> None:
        """See Progress; trials are compared by the share of their run that is done, since epochs differ in length."""
        from optuna.exceptions import TrialPruned

        self._validations += 1
        reached = figures["mrr"] / 100
        if self.best_epoch is None or reached > self.best:
            self.best, self.best_epoch = reached, self._epoch
        self._trial.report(reached, self._validations)
        if self._trial.should_prune():
            raise TrialPruned
        if self.seconds > self._longest:
            raise _TrialTooLong


# What the processes of a search do.


def _begin() -> None:
    """Prepare a process: Ctrl-C ends it, and what the search has said about the data is not said again."""
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(1))
    warnings.simplefilter("ignore", BlockholeWarning)


def _search(search: SettingsSearch, trials: int, number: int, deadline: float | None) -> list[str]:
    """Try so many trials; a line for each."""
    _need_optuna()
    assert search.data is not None
    data = data_as_set(search.data, validate(search.base))
    lines: list[str] = []
    for _ in range(trials):
        line = search.try_one(data, number, deadline)
        if line is None:
            break
        lines.append(line)
    return lines
