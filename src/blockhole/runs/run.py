"""A run: a trained model with all that is known about it, in memory and as a folder.

The folder holds config.json, vocabulary.parquet, facts.parquet, metrics.jsonl, and the checkpoint: weights.safetensors,
optimizer.safetensors, state.json, and best.safetensors where a validation figure was measured or weights were averaged.
A run merged from others has parts.json, which names them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, final

from blockhole.errors import (
    BlockholeWarning,
    ConfigError,
    DamagedRun,
    NotARun,
    RunError,
    check_argument,
    checked,
    counted,
    html_table,
    note,
    quoted,
)
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import build_model
from blockhole.runs.checkpoint import (
    SHARDS,
    STATE,
    TrainingState,
    has_checkpoint,
    load_best_weights,
    read_record,
)
from blockhole.runs.config import TrainConfig, flatten, overlay, validate
from blockhole.runs.folder import (
    CONFIG,
    FACTS,
    METRICS,
    NEXT,
    PARTS,
    VOCABULARY,
    read_config,
    read_run_facts,
    read_vocabularies,
)
from blockhole.runs.tracking import MLFLOW, TENSORBOARD, read_metrics

if TYPE_CHECKING:
    from torch import Tensor

    from blockhole.data.dataset import DataSet
    from blockhole.models.contract import Model


@final
class Run:
    """A model, trained or under way, with its settings, names and figures; `folder` is where it is kept, if anywhere.

    `complete` is False when training was interrupted and can be resumed.
    """

    def __init__(
        self,
        config: TrainConfig,
        entities: Vocabulary,
        relations: Vocabulary,
        state: TrainingState,
        *,
        model: Model | None = None,
        graph: KnowledgeGraph | None = None,
        folder: Path | None = None,
    ) -> None:
        given = (config, TrainConfig), (entities, Vocabulary), (relations, Vocabulary), (state, TrainingState)
        for name, (value, kind) in zip(("config", "entities", "relations", "state"), given, strict=True):
            check_argument(name, value, kind)
        check_argument("graph", graph, KnowledgeGraph | None)
        check_argument("folder", folder, Path | None)
        if model is not None:
            from blockhole.models.contract import Model

            check_argument("model", model, Model)
        if (model is None or graph is None) and folder is None:
            raise ValueError("a run has a model and a graph, or a folder to load them from")
        self.config = config
        self.entities = entities
        self.relations = relations
        self.state = state
        self.folder = folder
        self.calibrated: Any = None  # of a run in memory; those in folders keep theirs in a file
        self._given_model = model
        self._given_graph = graph

    @classmethod
    @checked
    def open(cls, folder: Path | str) -> Run:
        """The run in `folder`; nothing there is changed, and the weights are read when `model` is first asked for."""
        folder = Path(folder)
        if not is_run(folder):
            raise NotARun(_no_run(folder))
        config, record = read_config(folder), read_record(folder)
        entities, relations = read_vocabularies(folder / VOCABULARY, record.sha256.get(VOCABULARY))
        if config.words:
            entities, relations = names_without_words(entities, relations, config.words)
        return cls(config, entities, relations, record.training, folder=folder)

    def without_words(self) -> Run:
        """The run as it answers: without the words of names, which it was only trained on."""
        words = self.config.words
        if not words:
            return self
        entities, relations = names_without_words(self.entities, self.relations, words)
        model, graph = self.model, self.graph
        cut = build_model(self.config.model, len(entities), len(relations), self.config.training.seed)
        cut.load_state_dict(weights_without_words(model.state_dict(), len(entities), len(relations)))
        return Run(
            self.config,
            entities,
            relations,
            self.state,
            model=cut.to(model.entity.device),
            graph=graph_without_words(graph, entities, relations),
            folder=self.folder,
        )

    @cached_property
    def model(self) -> Model:
        """The trained model, on the CPU: the best by validation, the average, or else the last."""
        if self._given_model is not None:
            return self._given_model
        assert self.folder is not None
        model = build_model(self.config.model, len(self.entities), len(self.relations), self.config.training.seed)
        weights = load_best_weights(self.folder)
        if self.config.words:
            weights = weights_without_words(weights, len(self.entities), len(self.relations))
        load_weights(model, weights, self.folder)
        return model

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The facts it was trained on."""
        if self._given_graph is not None:
            return self._given_graph
        assert self.folder is not None
        sums = read_record(self.folder).sha256
        if not self.config.words:
            return read_run_facts(self.folder / FACTS, self.entities, self.relations, sums.get(FACTS))
        names = read_vocabularies(self.folder / VOCABULARY, sums.get(VOCABULARY))
        graph = read_run_facts(self.folder / FACTS, *names, sums.get(FACTS))
        return graph_without_words(graph, self.entities, self.relations)

    @property
    def complete(self) -> bool:
        """Whether training came to its end; that of a merged run is over."""
        epochs = self.config.training.epochs
        merged = self.folder is not None and (self.folder / PARTS).is_file()
        return merged or self.state.stopped_early or (epochs is not None and self.state.epoch >= epochs)

    def load_data(self) -> DataSet | None:
        """The data set it was trained on, read again as it was then; None for a graph in memory."""
        from blockhole.data.dataset import load  # asking needs no data

        config = self.config
        return None if config.data is None else load(config.data, columns=config.columns, literals=config.literals)

    def metrics(self) -> list[dict[str, float | int | str | None]]:
        """The figures of each epoch and validation, in order; none for a run that is only in memory."""
        return read_metrics(self.folder / METRICS) if self.folder else []

    def __repr__(self) -> str:
        place = str(self.folder) if self.folder else "memory"
        return f"Run({self.config.model.name} in {place}, {self.state})"

    def _repr_html_(self) -> str:
        """A small table and, of a run in a folder, the loss by epoch, for notebooks."""
        state = self.state
        words = {
            "model": self.config.model.name,
            "facts": self.config.data or "in memory",
            "entities": f"{len(self.entities):,}",
            "relations": f"{len(self.relations):,}",
            "trained": f"{state}{'' if self.complete else ', can be resumed'}",
            "loss": "none yet" if state.loss is None else f"{state.loss:.4f}",
            "folder": "only in memory" if self.folder is None else str(self.folder),
        }
        if state.best_figure is not None:
            words["best"] = f"{self.config.early_stop.metric} {state.best_figure:.2f} after epoch {state.best_epoch}"
        with suppress(DamagedRun):  # what is damaged is told where it is needed
            losses = [loss for row in self.metrics() if isinstance(loss := row.get("loss"), float)]
            return html_table("Run", words) + _curve("loss by epoch", losses)
        return html_table("Run", words)


def _curve(title: str, values: Sequence[float]) -> str:
    """Numbers in order as a line, from their lowest to their highest; nothing for fewer than two."""
    if len(values) < 2:
        return ""
    low, high, width, height = min(values), max(values), 300, 80
    points = " ".join(
        f"{place * width / (len(values) - 1):.1f},{(high - value) / ((high - low) or 1) * height:.1f}"
        for place, value in enumerate(values)
    )
    line = f'<polyline points="{points}" fill="none" stroke="currentColor"/>'
    box = f'width="{width}" height="{height}" viewBox="-2 -2 {width + 4} {height + 4}" role="img"'
    return (
        f"<figure><svg {box}>{line}</svg><figcaption>{title}: {values[0]:.4f} to {values[-1]:.4f}</figcaption></figure>"
    )


def is_run(folder: Path) -> bool:
    """Whether `folder` holds a run with a checkpoint."""
    return (folder / CONFIG).is_file() and has_checkpoint(folder)


def check_free(folder: Path, *, resumable: bool = True) -> None:
    """Make sure a new run may be written to `folder`: it is not there, empty, or holds a run that never began."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise NotARun(f"{folder} is a file; choose a folder for the run.")
    if is_run(folder):
        raise NotARun(
            f"{folder} already holds a run, at {read_record(folder).training}; "
            f"{'add --resume to continue it, or ' if resumable else ''}choose another folder."
        )
    own = {CONFIG, VOCABULARY, FACTS, METRICS, PARTS, SHARDS, TENSORBOARD, MLFLOW}
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in own and path.suffix != NEXT)
    if foreign:
        raise NotARun(f"{folder} holds something other than a run ({foreign[0]}); choose another folder.")


# A run that was trained on the words of names keeps them, so that it can go on, and answers without them. Words are the
# last entities, and their relation is the last one (`data/words.py`).


def names_without_words(entities: Vocabulary, relations: Vocabulary, words: int) -> tuple[Vocabulary, Vocabulary]:
    """The names of entities and relations that answers have."""
    kept = [*entities][: len(entities) - words], [*relations][:-1]
    return Vocabulary(kept[0], "entity"), Vocabulary(kept[1], "relation")


def weights_without_words(weights: Mapping[str, Any], entities: int, relations: int) -> dict[str, Any]:
    """The rows of the first so many entities and relations, inverses included: arrays or tensors, by name."""
    relation = weights["relation"]
    rows = [*range(relations)]
    if len(relation) > relations + 1:  # inverses have rows of their own
        rows += [row + relations + 1 for row in rows]
    return {**weights, "entity": weights["entity"][:entities], "relation": relation[rows]}


def graph_without_words(graph: KnowledgeGraph, entities: Vocabulary, relations: Vocabulary) -> KnowledgeGraph:
    """The facts between the first entities."""
    return KnowledgeGraph(entities, relations, graph.triples[graph.triples[:, 1] < len(relations)])


# With which settings a run goes on.


FREE_TO_CHANGE = frozenset(
    {"training.epochs", "training.threads", "training.device", "training.checkpoint_seconds", "early_stop.patience"}
)
"""Settings that may change when a run is resumed; another device or number of threads ends equality bit for bit."""


def resumed_config(folder: Path, asked: Mapping[str, Any]) -> TrainConfig:
    """The settings of the run in `folder`, with those asked for over them where a run may change them on its way."""
    if (folder / PARTS).exists():
        raise RunError(
            f"{folder} was made from what its {PARTS} names and has no optimizer to go on with; "
            "resume that, and merge or compress again."
        )
    saved = read_config(folder)
    config = validate(overlay(saved.model_dump(mode="json"), asked))
    before, after = flatten(saved.model_dump(mode="json")), flatten(config.model_dump(mode="json"))
    for key, value in after.items():
        if value != before[key] and key not in FREE_TO_CHANGE:
            raise ConfigError(
                f"{folder} was trained with {key} = {quoted(before[key])}, not {quoted(value)}; "
                "leave that setting out to resume it, or train another run."
            )
    done, epochs = read_record(folder).training.epoch, config.training.epochs
    if epochs is not None and epochs < done:
        warnings.warn(
            f"{folder} has {counted(done, 'epoch')} already, more than the {epochs} asked for, so nothing is trained; "
            f"ask for more than {done} to go on.",
            BlockholeWarning,
            stacklevel=4,
        )
        config = validate(overlay(config.model_dump(mode="json"), {"training": {"epochs": done}}))
    elif epochs == done:
        note(f"{folder} has its {counted(done, 'epoch')} already; ask for more than {done} to go on.")
    return config


# Weights of a model.


def load_weights(model: Model, weights: dict[str, Tensor], folder: Path) -> None:
    """Copy saved weights into a model of the same shapes."""
    import torch

    check_weights(model.state_dict(), weights, folder)
    with torch.no_grad():
        model.load_state_dict(weights)


def check_weights(parameters: Mapping[str, Tensor], weights: Mapping[str, Tensor], folder: Path) -> None:
    """Make sure that saved weights are of the model that has these parameters."""
    for name, parameter in parameters.items():
        if name not in weights:
            raise DamagedRun(
                f"{folder}: the saved weights lack {name}; they belong to another model than the one in config.json."
            )
        if weights[name].shape != parameter.shape:
            raise DamagedRun(
                f"{folder}: the saved {name} has shape {list(weights[name].shape)}, but config.json and "
                f"{VOCABULARY} ask for {list(parameter.shape)}; these files do not belong to one run."
            )


def _no_run(folder: Path) -> str:
    if not folder.exists():
        return f"there is no run {folder}; train one with: blockhole train --data NAME --out {quote(str(folder))}"
    if (folder / (STATE + NEXT)).exists():
        return f"the training into {folder} ended before its first checkpoint; begin it again with blockhole train."
    return f"{folder} holds no run: {CONFIG} or {STATE} is missing; give a folder that `blockhole train` wrote."
