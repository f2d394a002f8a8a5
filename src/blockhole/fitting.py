"""Train a model on data, from names and settings to a run: what `blockhole.train` and the command line call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.choosing import Judged, as_preset, can_look, look, own_preset, without_look
from blockhole.data.dataset import DataSet, check_facts, load
from blockhole.data.words import count_words, with_names, without_words
from blockhole.errors import (
    BlockholeWarning,
    ConfigError,
    Count,
    DamagedRun,
    DataError,
    Seed,
    UndefinedPath,
    Unwritable,
    checked,
    note,
    quoted,
)
from blockhole.evaluation.classification import ValidationAccuracy
from blockhole.evaluation.completion import both_sides, log_likelihood
from blockhole.evaluation.path_ranking import subset, validation_ranking
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.truth import truth_of
from blockhole.files.columns import ColumnNames, Literals, Reading
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.machine import torch_threads
from blockhole.models.catalogue import name_of
from blockhole.models.contract import Model
from blockhole.queries.paths import PathQueries
from blockhole.runs.checkpoint import TrainingState
from blockhole.runs.config import Metric, Settings, TrainConfig, flatten, gather, validate
from blockhole.runs.run import Run, check_free, is_run, resumed_config
from blockhole.runs.tracking import MlflowTracker, TensorBoardTracker, Tracker
from blockhole.runs.writer import Writer, sole_writer
from blockhole.training.batches import PathTensors
from blockhole.training.learner import Learner, seen_entities
from blockhole.training.losses import LOSSES
from blockhole.training.memory_needed import MemoryNeeded, memory_needed
from blockhole.training.negatives import KnownCorruptions
from blockhole.training.objective import dura_weight
from blockhole.training.positives import (
    FreshWalks,
    Positives,
    Sharing,
    StoredPositives,
    StreamedPositives,
    added_walks,
    check_streams,
    with_reversed,
)
from blockhole.training.trainer import Progress, Trainer, interruptible
from blockhole.training.workers import ALONE, Workers, joined

Data = DataSet | KnowledgeGraph | SplitGraph | str | Path | Any
"""A data set, its name or path, or facts in memory of any form that `load` takes."""


@checked
def train(
    data: Data | None = None,
    *,
    model: str | type[Model] | None = None,
    preset: str | None = None,
    config: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    columns: ColumnNames | None = None,
    literals: Literals | None = None,
    names: bool = False,
    texts: Path | str | None = None,
    on: Literal["base", "paths"] | None = None,
    blocks: Count | None = None,
    block_size: Count | None = None,
    dim: Count | None = None,
    epochs: Count | None = None,
    batch_size: Count | None = None,
    learning_rate: float | None = None,
    seed: Seed | None = None,
    threads: Count | None = None,
    device: str | None = None,
    out: Path | str | None = None,
    mesh: str | None = None,
    resume: bool = False,
    track: Sequence[str] = (),
    progress: Progress | None = None,
) -> Run:
    """Train a model and return the run.

    `data` is a graph, a data set, the name or path of one, or a table of facts in memory; see `load`, which also
    explains `columns` and `literals`. Settings are defaults < `preset` < the file `config` < `settings`, a mapping of
    dotted keys such as {"penalty.dura": 0.1} < arguments that are short for such keys: `epochs` for training.epochs,
    `dim` for model.dim and so on. What none of these says, a short look at a graph of up to 2,000 entities chooses, and
    the size of a larger one (`choosing.py`); a preset or a file of settings says all of it. `model` is a name, or a
    class of your own. With `names` the words of entity names are trained on too, and with `texts` those of a table
    about the entities (`data/words.py`); answers have no words. With `out` the run is kept in that folder, and `resume`
    continues the one there; data and settings then come from the folder where they are not given. Ctrl-C ends training
    after the batch under way; the run returned is then not `complete`. A complete run is calibrated on the validation
    facts.
    Processes that torchrun has started train together, on `mesh` (DATAxENTITIES, see docs/scaling.md).
    """
    short = short_settings(
        columns=columns, literals=literals, names=names, texts=texts, on=on, blocks=blocks,
        block_size=block_size, dim=dim, epochs=epochs,
        batch_size=batch_size, learning_rate=learning_rate, seed=seed, threads=threads, device=device,
    )  # fmt: skip
    overrides = _overrides(data, model, {**(settings or {}), **short})
    folder = None if out is None else Path(out)
    with joined(mesh) as workers:
        with workers.together():
            going_on = folder is not None and (resume or workers.has_begun(folder)) and is_run(folder)
            if folder is not None and going_on:
                chosen = resumed_config(folder, gather(preset=preset, file=config, overrides=overrides))
                given = data_as_set(data, chosen)
            else:
                if folder is not None:
                    check_free(folder)
                # Processes that train together do not look: each would choose for itself.
                alone = workers is ALONE
                look_at = partial(look, judge=_judge) if alone else without_look
                chosen, given = _chosen(data, preset, config, overrides, look_at)
                if chosen.trains_on_words:
                    chosen = chosen.model_copy(update={"words": count_words(given.split)})
        if folder is not None:
            workers.begin(folder)
        run = fit(given, chosen, folder, track=track, progress=progress, workers=workers).without_words()
        if workers.speaks and run.complete:
            _calibrate(run, without_words(given) if chosen.words else given)
    return run


def short_settings(
    *,
    columns: ColumnNames | None,
    literals: Literals | None,
    names: bool,
    texts: Path | str | None,
    on: str | None,
    blocks: int | None,
    block_size: int | None,
    dim: int | None,
    epochs: int | None,
    batch_size: int | None,
    learning_rate: float | None,
    seed: int | None,
    threads: int | None,
    device: str | None,
) -> Settings:
    """The settings that have arguments of their own, by dotted key; what is None is not set."""
    settings = {
        "columns": Reading.of(columns).columns,
        "literals": None if literals is None else Reading.of(literals=literals).literals,
        "names": names or None,
        "texts": None if texts is None else str(Path(texts).absolute()),
        "training.on": on,
        "model.blocks": blocks,
        "model.block_size": block_size,
        "model.dim": dim,
        "training.epochs": epochs,
        "training.batch_size": batch_size,
        "optimizer.learning_rate": learning_rate,
        "training.seed": seed,
        "training.threads": threads,
        "training.device": device,
    }
    return {key: value for key, value in settings.items() if value is not None}


def plan_memory(
    data: Data | None = None,
    *,
    model: str | type[Model] | None = None,
    preset: str | None = None,
    config: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    saved: bool = True,
) -> MemoryNeeded:
    """How much memory `train` with these arguments takes on one CPU; the data is read, and nothing is trained."""
    chosen, given = _chosen(data, preset, config, _overrides(data, model, settings), without_look)
    _refuse_untrainable(given, chosen)
    stored = chosen.training.on_stored_paths and given.has_paths
    return memory_needed(chosen, given.split, len(given.paths("train")) if stored else None, saved=saved)


def fit(
    data: DataSet,
    config: TrainConfig,
    folder: Path | None = None,
    *,
    track: Sequence[str] = (),
    progress: Progress | None = None,
    workers: Workers = ALONE,
    known_corruptions: KnownCorruptions | None = None,
) -> Run:
    """Train as `config` says; into `folder` if given, going on from the checkpoint there is.

    `known_corruptions` spares several trainings on the same data to check corrupted paths each for itself.
    """
    with workers.together():
        _refuse_untrainable(data, config)
        data = _with_paths(data, config)
    device = workers.settle(config, data)
    split, graph = data.split, data.split.graph("train")
    model = workers.build_model(config, len(split.entities), len(split.relations))
    positives = _positives(data, graph, config, device, known_corruptions or KnownCorruptions(), workers.sharing())
    config = _settled(config, len(positives), len(split.entities))
    threads = config.training.threads or workers.threads()
    with ExitStack() as stack:
        stack.enter_context(torch_threads(threads))
        seen = seen_entities(graph, positives) if config.training.unseen_entities == "mean" else None
        stepper = workers.build_stepper(model, config, graph, threads, seen)
        learner = Learner(model, stepper, seen, average_epochs=config.training.average_epochs)
        writer, state = None, TrainingState()
        if folder is not None:
            trackers = _held(folder, track, config, workers, stack)
            writer = stack.enter_context(closing(workers.build_writer(folder, learner, trackers)))
            state = _begun(writer, folder, learner, config, graph, workers)
        trainer = Trainer(
            config,
            workers,
            learner,
            positives,
            state,
            validation=ValidationQueries.of(data, config, device),
            writer=writer,
            progress=progress,
            interruption=stack.enter_context(interruptible()),
        )
        complete = trainer.run()
        if writer is not None:
            writer.finish(complete=complete)
        trained = workers.finish(learner, kept=writer is not None)
    return Run(config, split.entities, split.relations, trainer.state, model=trained, graph=graph, folder=folder)


def _refuse_untrainable(data: DataSet, config: TrainConfig) -> None:
    """What these data and settings cannot be trained to, said before any work is done."""
    training, metric = config.training, config.early_stop.metric
    if not len(data.split.train):
        raise DataError(f"{data.name} has no train facts, so there is nothing to train on.")
    if data.split.packed:
        check_streams(config)
    model = config.model.kind
    if training.on == "paths" and model.why_no_paths is not None:
        raise UndefinedPath(
            f"{model.__name__} scores single relations, not paths: {model.why_no_paths}; "
            "train it on edges with --on base (training.on = 'base'), or use blockhole for paths."
        )
    if config.loss.corrupts_once and training.on == "paths" and training.walks == "fresh":
        raise ConfigError("loss.corrupt = 'once' needs stored positives; set training.walks = 'stored', or each_batch.")
    if metric is not None and not len(data.split.valid):
        raise ConfigError(
            f"early_stop.metric = {metric!r} needs validation facts, and {data.name} has none; "
            "leave it out, or unset it with --set early_stop.metric=."
        )
    if metric == "accuracy" and training.on == "base":
        raise ConfigError("early_stop.metric = 'accuracy' judges paths; train on them with training.on = 'paths'.")


def _calibrate(run: Run, data: DataSet) -> None:
    """Keep what turns scores into probabilities beside the weights, where the data has facts to learn it from.

    A calibration that these weights have, since nothing was trained, is left as it is.
    """
    if not len(data.split.valid) or find_spec("scipy") is None:
        return
    from blockhole.answering.calibrating import calibrate
    from blockhole.answering.calibration import load_calibration

    with suppress(DamagedRun):
        if run.folder is not None and load_calibration(run.folder) is not None:
            return
    try:
        calibrate(run, data)
    except Unwritable:
        raise
    except DataError as error:  # too few facts to fit anything on
        warnings.warn(str(error), BlockholeWarning, stacklevel=2)


def _judge(data: DataSet, config: TrainConfig) -> Judged:
    """Train as `config` says for a look, and rank the validation facts; Ctrl-C ends the look and all that follows."""
    run = fit(data, config)
    if not run.complete:
        raise KeyboardInterrupt
    validation = ValidationQueries.of(data, config, run.model.entity.device)
    assert validation is not None
    last = run.state.best_epoch is None or run.state.best_epoch + config.early_stop.every > run.state.epoch
    mrr = float(validation.reciprocal_ranks(run.model).mean())
    return Judged(validation.log_likelihood(run.model), mrr, None if last else run.state.best_epoch)


def _overrides(data: Data | None, model: str | type[Model] | None, settings: Mapping[str, Any] | None) -> Settings:
    """The settings that the arguments of `train` name, by dotted key."""
    overrides = dict(settings or {})
    if model is not None:
        overrides["model.name"] = name_of(model) if isinstance(model, type) else model
    if isinstance(data, str | Path):
        overrides["data"] = lasting_name(data)
    return overrides


def _chosen(
    data: Data | None,
    preset: str | None,
    config: Path | str | None,
    overrides: Settings,
    look_at: Callable[[DataSet, Settings], TrainConfig],
) -> tuple[TrainConfig, DataSet]:
    """The settings of a new run, and its data; what is left open, `look_at` chooses, or the size of the graph.

    A preset or a file of settings says it all, as do data with paths, and graphs that are read from disk.
    """
    chosen = validate(gather(preset=preset or "fast", file=config, overrides=overrides))
    given = data_as_set(data, chosen)
    asked, own = gather(file=config, overrides=overrides), own_preset(given)
    if can_look(given) and (named := preset or config) is not None:
        note(f"no look at the graph: {named} says how to train; leave it out, and a look chooses what you do not set")
    if preset is not None or given.split.packed or given.has_paths:
        return chosen, given
    if own is not None:
        return as_preset(own, asked), given
    if config is None and can_look(given):
        return look_at(given, asked), given
    return without_look(given, asked), given


def lasting_name(data: str | Path) -> str:
    """The name of a data set, or the path of a file made absolute, so that a run resumes from any folder."""
    from blockhole.data.catalogue import catalogue

    return str(data) if str(data) in catalogue() else str(Path(data).absolute())


def data_as_set(data: Data | None, config: TrainConfig) -> DataSet:
    """The data that a run with these settings trains on: read by its columns and literals, with words where asked."""
    given = config.data if data is None else data
    if given is None:
        raise ConfigError("there is no data to train on; name a data set or a file with --data.")
    check_facts("data", given)
    loaded = load(given, columns=config.columns, literals=config.literals)
    return with_names(loaded, config.texts) if config.trains_on_words else loaded


def _with_paths(data: DataSet, config: TrainConfig) -> DataSet:
    """The data set with path queries, where training asks for them: its own, or built in memory from the run's seed."""
    training = config.training
    needed = training.on_stored_paths or (training.on == "paths" and config.early_stop.metric in ("mq", "accuracy"))
    if not needed or data.has_paths:
        return data
    from blockhole.queries.path_sets import build_paths

    return data.with_paths(build_paths(data.split, seed=config.training.seed))


def _positives(
    data: DataSet,
    graph: KnowledgeGraph,
    config: TrainConfig,
    device: torch.device,
    known: KnownCorruptions,
    sharing: Sharing | None,
) -> Positives:
    """What is trained on, over the train graph; `known` has the corrupted paths that are drawn once for all epochs."""
    training, loss = config.training, config.loss
    seed, reverse, batch_size = training.seed, training.reverse, training.batch_size
    lengths, per_edge = (2, training.longest), training.walks_per_edge
    if data.split.packed:
        walks = training.on == "paths"
        return StreamedPositives(
            graph, seed, reverse, batch_size, device, walks=walks, lengths=lengths, per_edge=per_edge, sharing=sharing
        )
    # A sample that a batch shares can be of one type only where all of the batch ask for the same.
    by_relation = LOSSES[loss.kind].objects == "shared" and loss.typed_share > 0
    grouping = {"by_last_relation": by_relation, "by_query": training.share_queries}
    if training.on == "paths" and training.walks == "fresh":
        return FreshWalks(graph, seed, reverse, batch_size, device, lengths=lengths, per_edge=per_edge, **grouping)
    queries = data.paths("train") if training.on == "paths" else PathQueries.from_triples(data.split.train)
    if training.on == "paths" and training.walks == "added":
        queries = PathQueries.concatenate([queries, added_walks(graph, training)])
    paths = with_reversed(PathTensors.of(queries, device), reverse, len(data.split.relations))
    corruptions = known.of(paths, loss, graph) if loss.corrupts_once else None
    return StoredPositives(paths, seed, batch_size, corruptions=corruptions, **grouping)


def _settled(config: TrainConfig, positives: int, entities: int) -> TrainConfig:
    """The settings with what follows from the size of the data written out, as config.json keeps them.

    Epochs that are not named come from the number of steps, so that small graphs get as many as large ones.
    """
    training, penalty = config.training, config.penalty
    if training.epochs is None:
        steps_per_epoch = -(-positives // training.batch_size)
        training = training.model_copy(update={"epochs": -(-training.steps // steps_per_epoch)})
    if penalty.dura is None:
        weight = dura_weight(penalty.dura_per_entity, positives / entities)
        penalty = penalty.model_copy(update={"dura": weight})
    return config.model_copy(update={"training": training, "penalty": penalty})


@final
class ValidationQueries:
    """A fixed sample of the validation queries, and how a model is measured on them, in per cent; a Validation."""

    def __init__(self, queries: PathQueries, graph: KnowledgeGraph, metric: Metric, device: torch.device) -> None:
        self._queries = queries
        self._metric = metric
        self._truth = truth_of(graph)
        self._accuracy = ValidationAccuracy(queries, self._truth, device) if metric == "accuracy" else None

    @classmethod
    def of(cls, data: DataSet, config: TrainConfig, device: torch.device) -> ValidationQueries | None:
        """Those that early stopping asks for; absent where it asks for none."""
        stop = config.early_stop
        if stop.metric is None:
            return None
        if stop.metric in ("mrr", "likelihood"):
            queries = both_sides(data.split.valid, len(data.split.relations))
        elif config.training.on == "paths":
            queries = PathQueries.concatenate([data.paths("dev_deduction"), data.paths("dev_induction")])
        else:
            queries = PathQueries.from_triples(data.split.valid)
        queries = subset(queries, stop.queries, config.training.seed)
        # Test facts stay out: what is measured while training must not know them, not even as answers to leave out.
        return cls(queries, data.split.graph("train", "valid"), stop.metric, device)

    def measure(self, model: Model) -> Mapping[str, float]:
        """See Validation."""
        device = model.entity.device
        if self._accuracy is not None:
            return {"accuracy": self._accuracy(model, device)}
        if self._metric == "likelihood":
            # The share that a fact has on the geometric mean.
            return {"likelihood": float(100 * np.exp(self.log_likelihood(model).mean()))}
        if self._metric == "mrr":
            return {"mrr": float(100 * self.reciprocal_ranks(model).mean())}
        return validation_ranking(model, self._queries, self._truth, device=device)

    def reciprocal_ranks(self, model: Model) -> NDArray[np.float64]:
        """1 / rank of each query among all entities that do not answer it in train or valid; [N]."""
        ranks = rank(model, self._queries, self._truth, candidates="all", device=model.entity.device)
        reciprocal: NDArray[np.float64] = 1 / ranks.rank()
        return reciprocal

    def log_likelihood(self, model: Model) -> NDArray[np.float64]:
        """log p(o | s, r) of each query, over the same entities; [N]."""
        return log_likelihood(model, self._queries, self._truth.graph)


def _held(folder: Path, track: Sequence[str], config: TrainConfig, workers: Workers, stack: ExitStack) -> list[Tracker]:
    """Keep other writers out of `folder` until `stack` ends, and open the trackers that were asked for as long."""
    with workers.together():
        if workers.speaks:
            stack.enter_context(sole_writer(folder))
            return [stack.enter_context(closing(tracker)) for tracker in _trackers(track, folder, config)]
    return []


def _begun(
    writer: Writer, folder: Path, learner: Learner, config: TrainConfig, graph: KnowledgeGraph, workers: Workers
) -> TrainingState:
    """Begin a run in `folder`, or take the learner to where the one there stands."""
    if not workers.agree(is_run(folder)):
        writer.begin(config, graph)
        return TrainingState()
    checkpoint = writer.resume(config, graph)
    learner.best = checkpoint.best
    return checkpoint.state


def _trackers(names: Sequence[str], folder: Path, config: TrainConfig) -> Iterator[Tracker]:
    for name in names:
        if name == "tensorboard":
            yield TensorBoardTracker(folder)
        elif name == "mlflow":
            yield MlflowTracker(folder, flatten(config.model_dump(mode="json")))
        else:
            raise ConfigError(f"cannot log to {quoted(name)}; the trackers are tensorboard and mlflow.")
