"""Runs experiments, each into a record: train, measure, write.

`Runner` trains what has no record yet. `measure` gives the figures of a table: a trained model and a data set in, what
JSON takes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import Any, Literal, final, get_args

import numpy as np
import torch

from blockhole.answering import calibrating
from blockhole.answering.engine import Engine
from blockhole.answering.vectors import Vectors
from blockhole.data.dataset import DataSet
from blockhole.data.words import count_words, words_of
from blockhole.errors import EvaluationError, TrainingDiverged
from blockhole.evaluation.classification import evaluate_classification, evaluate_order
from blockhole.evaluation.completion import evaluate_completion
from blockhole.evaluation.path_ranking import ranking_figures
from blockhole.evaluation.query_ranking import QueryReport
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.triples import Evidence, evaluate_triples
from blockhole.evaluation.truth import Reading, Truth, build_truth, queries_of
from blockhole.fitting import fit
from blockhole.machine import choose_device
from blockhole.measuring import judge_queries
from blockhole.models.contract import Model
from blockhole.models.merging import merge_models
from blockhole.queries.paths import PathQueries
from blockhole.runs.checkpoint import TrainingState
from blockhole.runs.config import TrainConfig
from blockhole.runs.run import Run
from blockhole.training.negatives import KnownCorruptions
from experiments.declared import BESIDE_SETTINGS, PATH_TABLES, Experiment, Split, TableName
from experiments.material import Material
from experiments.records import Commit, Record, describe_device, read_record, record_file, write_record
from experiments.word_rows import lean_on_words

Figures = dict[str, Any]
Measure = Callable[[Model, DataSet, Split, torch.device], Figures]
Say = Callable[[str], None]

_SECONDS_BETWEEN_LINES = 5.0

SWAPPED = ("parents", "religion")
"""The pair of relations of Table 4."""

READING: dict[Split, Reading] = {"test": "all", "dev": "split"}
"""F* of test queries is the paper's, train + valid + test. That of dev queries, which settings are chosen by, is
train + valid: test facts stay out of every choice."""

_FACTS: dict[Split, Literal["valid", "test"]] = {"test": "test", "dev": "valid"}
"""The facts that are measured."""

_QUERIES: dict[Split, dict[str, str]] = {
    "test": {"base": "base", "deduction": "deduction", "induction": "induction", "all": "all"},
    "dev": {"base": "valid", "deduction": "dev_deduction", "induction": "dev_induction", "all": "dev"},
}
"""The four parts of the ranking table, as `evaluation.truth` calls them."""


@final
@dataclass(frozen=True, slots=True)
class Runner:
    """Trains and measures; `results` is the folder of records, `say` hears a line now and then."""

    material: Material
    results: Path
    device: str
    commit: Commit
    say: Say
    threads: int | None = None
    known_corruptions: KnownCorruptions = field(default_factory=KnownCorruptions)

    def run(self, experiments: Iterable[Experiment], limit_seconds: float = float("inf")) -> list[str]:
        """Run what has no record of its settings yet; the names of those that failed.

        Experiments that differ only in what is measured share one training. After `limit_seconds` no further
        training begins.
        """
        start, failed = perf_counter(), []
        for group in _same_training(experiments):
            waiting = [experiment for experiment in group if not self._is_done(experiment)]
            if not waiting:
                continue
            if perf_counter() - start > limit_seconds:
                self.say(f"{waiting[0].name}: not begun, {limit_seconds:.0f} s are over")
                break
            try:
                self._run_group(waiting)
            except (TrainingDiverged, torch.OutOfMemoryError) as failure:
                # Of this training's making; the others may still succeed.
                failed += [experiment.name for experiment in waiting]
                self.say(f"{waiting[0].name}: failed: {failure}")
        return failed

    def replaced(self, experiments: Iterable[Experiment]) -> list[Path]:
        """The files of records that running the experiments would replace, since they have other settings."""
        return [record_file(self.results, each.name) for each in experiments if self._has_record(each) is False]

    def _is_done(self, experiment: Experiment) -> bool:
        done = self._has_record(experiment)
        if done is not None:
            self.say(f"{experiment.name}: {'there already' if done else 'settings have changed, once more'}")
        return bool(done)

    def _has_record(self, experiment: Experiment) -> bool | None:
        """Whether there is a record of the experiment as it is; None where there is none at all."""
        file = record_file(self.results, experiment.name)
        if not file.is_file():
            return None
        record = read_record(file)
        beside = all(getattr(record, name) == getattr(experiment, name) for name in BESIDE_SETTINGS)
        return beside and experiment.has_settings(record.settings)

    def _run_group(self, group: list[Experiment]) -> None:
        """One training, measured for each of the experiments."""
        first, start = group[0], perf_counter()
        device = choose_device(self.device)
        paths = (
            first.config.training.on == "paths"
            or any(config.training.on_stored_paths for config in first.trainings)
            or any(each.table in PATH_TABLES for each in group)
        )
        taught = self.material.open(first.data, paths=paths, words=first.words)
        # Queries are asked of the graph itself, in which words are no entities.
        asks = first.words and first.table == "queries"
        data = self.material.open(first.data, paths=paths) if asks else taught
        for experiment in group:
            _check_measurable(experiment.table, data, experiment.split)
        own, beside = first.trainings[: first.members], first.trainings[first.members :]
        words = 0 if data is taught else count_words(taught.split)
        runs = [self._train(first.name, config, taught, device, words) for config in own]
        runs += [self._train(first.name, config, data, device) for config in beside]
        model = runs[0].model
        if len(runs) > 1:
            # Their mean, not their sum: shares and probabilities need scores at the scale of one model.
            model = merge_models([run.model for run in runs], [1 / len(runs)] * len(runs))
        if first.lean:
            lean_on_words(model, words_of(data.split), first.lean)
        measured: dict[tuple[TableName, Split], Figures] = {}  # columns that are one on some data are measured once
        for experiment in group:
            key = experiment.table, experiment.split
            if key not in measured:
                measured[key] = measure(experiment.table, model, data, experiment.split, device)
            figures, seconds = measured[key], perf_counter() - start
            record = self._record(experiment, model, [run.state for run in runs], figures, seconds, device)
            file = write_record(self.results, experiment.name, record)
            self.say(f"{experiment.name}: {seconds:.1f} s, {headline(figures)}, in {file}")

    def _train(self, name: str, config: TrainConfig, data: DataSet, device: torch.device, words: int = 0) -> Run:
        """One of the models of an experiment, without the last `words` of its entities."""
        here = {"device": str(device), "threads": self.threads}
        config = config.model_copy(update={"training": config.training.model_copy(update=here), "words": words})
        run = fit(data, config, progress=_Lines(name, self.say), known_corruptions=self.known_corruptions)
        if not run.complete:  # the training has taken Ctrl-C for a wish to end it, but all are meant
            raise KeyboardInterrupt
        return run.without_words()

    def _record(
        self,
        experiment: Experiment,
        model: Model,
        states: Sequence[TrainingState],
        figures: Figures,
        seconds: float,
        device: torch.device,
    ) -> Record:
        last = states[experiment.members - 1]  # of the column's own settings; what is beside may have other epochs
        return Record(
            table=experiment.table,
            data=Path(experiment.data).name,
            column=experiment.column,
            seed=experiment.seed,
            split=experiment.split,
            truth=None if experiment.table in ("triples", "queries") else READING[experiment.split],
            settings=experiment.settings,
            members=experiment.members,
            words=experiment.words,
            lean=experiment.lean,
            beside=experiment.beside,
            parameters=model.parameter_count(),
            epochs=last.epoch,
            best_epoch=last.best_epoch,
            loss=last.loss,
            seconds=round(seconds, 2),
            training_seconds=round(sum(state.seconds for state in states), 2),
            device=describe_device(device),
            torch=torch.__version__,
            commit=self.commit.hash,
            dirty=self.commit.dirty,
            figures=figures,
        )


def _same_training(experiments: Iterable[Experiment]) -> list[list[Experiment]]:
    """The experiments in groups that differ in what is measured alone, in the order of each group's first."""
    groups: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        trained = experiment.model_dump_json(exclude={"table", "column", "split"})
        groups.setdefault(trained, []).append(experiment)
    return list(groups.values())


def headline(figures: Mapping[str, object]) -> str:
    """The figures of a record in a few words."""
    parts = {part: each for part, each in figures.items() if isinstance(each, Mapping) and "mq" in each}
    if parts:
        return ", ".join(f"{part} {_shown(each['mq'])}/{_shown(each['p_at_10'])}" for part, each in parts.items())
    sets = {name: each for name, each in figures.items() if isinstance(each, Mapping) and "types" in each}
    if sets:
        means = {name: [each[mean]["mrr"] for mean in _MEANS if each[mean]] for name, each in sets.items()}
        return ", ".join(f"{name} {'/'.join(_shown(mrr, 4) for mrr in own)}" for name, own in means.items())
    names = ("accuracy", "accuracy_positive", "accuracy_negative", "mrr", "hits_at_10")
    return ", ".join(f"{name} {_shown(figures[name], 2)}" for name in names if name in figures)


def _shown(figure: object, digits: int = 1) -> str:
    return f"{figure:.{digits}f}" if isinstance(figure, float) else "–"


@final
class _Lines:
    """Training progress as lines, not oftener than every few seconds."""

    def __init__(self, name: str, say: Say) -> None:
        self._name = name
        self._say = say
        self._start = self._last = perf_counter()
        self._epoch = "epoch 0"

    def epoch_begins(self, epoch: int, epochs: int, paths: int) -> None:
        """See Progress."""
        self._epoch = f"epoch {epoch}/{epochs} of {paths:,} paths"

    def batches_done(self, paths: int, loss: float) -> None:
        """See Progress."""
        now = perf_counter()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            self._say(f"{self._name}: {self._epoch}, {paths:,} done, loss {loss:.4f}, {now - self._start:.0f} s")

    def validated(self, figures: Mapping[str, float]) -> None:
        """See Progress."""
        shown = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
        self._say(f"{self._name}: {self._epoch}, dev {shown}, {perf_counter() - self._start:.0f} s")


# What each table measures.


def _check_measurable(table: TableName, data: DataSet, split: Split) -> None:
    """Refuse data that lacks what a table measures, before a model is trained on it."""
    if table == "queries" and not _query_sets(data, split):
        raise EvaluationError(
            f"{data.name} has no sets of {_FACTS[split]} queries; nell and fb15k-237-q2b have some, and "
            f"`blockhole data queries {quote(data.name)} --out FOLDER` writes a data set with sampled ones."
        )
    if table in ("queries", "rules") and find_spec("scipy") is None:
        raise EvaluationError(f"the table {table} needs SciPy, for curves and sparse products; install it.")
    if table == "order" and (lacking := [name for name in SWAPPED if name not in data.split.relations]):
        raise EvaluationError(f"{data.name} has no relation {lacking[0]!r}, which Table 4 asks about; FB13 has it.")
    if table == "triples" and not (len(data.split.valid_negatives) and len(data.split.test_negatives)):
        raise EvaluationError(
            f"{data.name} has no lines labelled -1 in valid and test, which triple classification needs; "
            "WN11 and FB13 have them."
        )
    if not (len(data.split.valid) and len(data.split.test)):
        raise EvaluationError(f"{data.name} has no valid or no test facts to measure on; give data that has both.")


def measure(table: TableName, model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """The figures of one experiment, each with its bootstrap interval."""
    return _MEASURES[table](model, data, split, device)


def _truth(data: DataSet, split: Split) -> Truth:
    return build_truth(data.split, READING[split], _FACTS[split])


def _ranking(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """MQ and P@10 of base, deduction, induction and the last two together; of those also by path length."""
    truth, names = _truth(data, split), _QUERIES[split]
    base, deduction, induction = (queries_of(data, names[part]) for part in ("base", "deduction", "induction"))
    paths = PathQueries.concatenate([deduction, induction])
    ranks = rank(model, paths, truth, device=device)
    deduced = np.arange(len(paths)) < len(deduction)
    parts = {
        "base": rank(model, base, truth, device=device),
        "deduction": ranks.take(deduced),
        "induction": ranks.take(~deduced),
        "all": ranks,
    }
    figures: Figures = {part: ranking_figures(each).to_dict() for part, each in parts.items()}
    figures["all"]["by_length"] = {
        str(length): ranking_figures(ranks.take(paths.length == length)).to_dict() for length in paths.lengths()
    }
    return figures


def _classification(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Accuracy on the paths of two hops or more, and on their reversed paths that do not hold."""
    queries = queries_of(data, _QUERIES[split]["all"])
    report = evaluate_classification(model, queries, _truth(data, split), device=device)
    by_length = {str(length): part.to_dict() for length, part in report.by_length.items()}
    return {**report.total.to_dict(), "by_length": by_length}


def _order(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Accuracy on every query with parents/religion, and on the same with religion/parents that do not hold."""
    names = ("train", "dev_deduction", "dev_induction")
    queries = (
        queries_of(data, "paths") if split == "test" else PathQueries.concatenate([data.paths(part) for part in names])
    )
    first, second = (data.split.relations.id(name) for name in SWAPPED)
    report = evaluate_order(model, queries, _truth(data, split), first, second, device=device)
    return report.total.to_dict()


def _completion(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Filtered MR, MRR and Hits@k of both sides of every fact, by score."""
    triples = data.split.valid if split == "dev" else data.split.test
    report = evaluate_completion(model, triples, _truth(data, split), device=device).to_dict()
    return {
        name: report[name] for name in ("queries", "mr", "mrr", "hits_at_1", "hits_at_3", "hits_at_10", "intervals")
    }


def _calibrated(model: Model, data: DataSet, device: torch.device) -> Engine:
    """The engine of a model over train facts, calibrated on validation facts, those of dev queries among them."""
    vectors = Vectors.of_model(model)
    return Engine(vectors, data.split.graph("train"), calibrating.fit(vectors, data, device=device))


def _triples(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Accuracy on labelled triples, by rules from dev: from all of it for test, from nine tenths for the tenth.

    `by_score` is the accuracy where the score is the only evidence.
    """
    report = evaluate_triples(model, data.split, on=split, evidence=get_args(Evidence), device=device)
    by_score = evaluate_triples(model, data.split, on=split, device=device)
    return {
        **report.total.to_dict(),
        "by_score": by_score.total.accuracy,
        "by_relation": {name: part.accuracy for name, part in report.by_relation.items()},
        "evidence": {name: report.rules[name].evidence for name in report.by_relation},
    }


def _rules(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """Completion by rules alone, by the model alone and by both, with weights chosen on valid, or on half of it."""
    from experiments.rules import measure_rules

    valid = data.split.valid
    measured, chosen_on = (valid[1::2], valid[::2]) if split == "dev" else (data.split.test, valid)
    truths = _truth(data, split), build_truth(data.split, "split", "valid")
    return measure_rules(_calibrated(model, data, device), model, data, measured, chosen_on, truths, device)


def _queries(model: Model, data: DataSet, split: Split, device: torch.device) -> Figures:
    """MRR and Hits@k of every query set, by type and as means, and by the facts that the easiest proof lacks."""
    engine = _calibrated(model, data, device)
    return {
        name.removesuffix(f"-{_FACTS[split]}"): _of_report(
            judge_queries(engine, data.split, data.queries(name), device, name=data.name)
        )
        for name in _query_sets(data, split)
    }


def _query_sets(data: DataSet, split: Split) -> list[str]:
    return [name for name in data.query_sets if name.endswith(f"-{_FACTS[split]}")]


_MEANS = ("mean_without_negation", "mean_with_negation")


def _of_report(report: QueryReport) -> Figures:
    found = report.to_dict()
    return {name: found[name] for name in ("queries", "answers", "excluded", "unsettled", "types", *_MEANS)}


_MEASURES: dict[TableName, Measure] = {
    "ranking": _ranking,
    "classification": _classification,
    "order": _order,
    "completion": _completion,
    "triples": _triples,
    "queries": _queries,
    "rules": _rules,
}
