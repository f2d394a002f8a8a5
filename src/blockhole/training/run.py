"""A run: a trained model with all that is known about it, in memory and as a folder.

The folder holds config.json, vocabulary.parquet, facts.parquet, the checkpoint (weights.safetensors,
optimizer.safetensors, state.json, and best.safetensors where a validation figure was measured), and metrics.jsonl.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import final

import torch
from torch import Tensor

from blockhole.errors import ConfigError, DamagedRun, NotARun
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.models.catalogue import build_model
from blockhole.models.contract import Model
from blockhole.training.checkpoint import NEXT, SHARDS, STATE, load_best_weights, read_record, write_bytes
from blockhole.training.config import TrainConfig
from blockhole.training.config_sources import validate
from blockhole.training.state import TrainingState
from blockhole.training.tracking import read_metrics

CONFIG = "config.json"
VOCABULARY = "vocabulary.parquet"
FACTS = "facts.parquet"
METRICS = "metrics.jsonl"
PARTS = "parts.json"
"""Only in a run that was merged from others: what it was merged from."""
_ROWS = 1 << 20
"""Facts written at a time."""


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
        if (model is None or graph is None) and folder is None:
            raise ValueError("a run has a model and a graph, or a folder to load them from")
        self.config = config
        self.entities = entities
        self.relations = relations
        self.state = state
        self.folder = folder
        self._given_model = model
        self._given_graph = graph

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """The run in `folder`; nothing there is changed, and the weights are read when `model` is first asked for."""
        folder = Path(folder)
        if not is_run(folder):
            raise NotARun(_no_run(folder))
        config = read_config(folder)
        entities, relations = read_vocabularies(folder / VOCABULARY)
        return cls(config, entities, relations, read_record(folder).training, folder=folder)

    @cached_property
    def model(self) -> Model:
        """The trained model, on the CPU: the best by validation where that was measured, else the last."""
        if self._given_model is not None:
            return self._given_model
        assert self.folder is not None
        model = build_model(self.config.model, len(self.entities), len(self.relations), self.config.training.seed)
        load_weights(model, load_best_weights(self.folder), self.folder)
        return model

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The facts it was trained on."""
        if self._given_graph is not None:
            return self._given_graph
        assert self.folder is not None
        return read_facts(self.folder / FACTS, self.entities, self.relations)

    @property
    def complete(self) -> bool:
        """Whether training came to its end."""
        epochs = self.config.training.epochs
        return self.state.stopped_early or (epochs is not None and self.state.epoch >= epochs)

    def metrics(self) -> list[dict[str, float | int | str | None]]:
        """The figures of each epoch and validation, in order; none for a run that is only in memory."""
        return read_metrics(self.folder / METRICS) if self.folder else []

    def __repr__(self) -> str:
        place = str(self.folder) if self.folder else "memory"
        return f"Run({self.config.model.name} in {place}, {self.state})"


def is_run(folder: Path) -> bool:
    """Whether `folder` holds a run with a checkpoint."""
    return (folder / CONFIG).is_file() and ((folder / STATE).is_file() or (folder / (STATE + NEXT)).is_file())


def check_free(folder: Path) -> None:
    """Make sure a new run may be written to `folder`: it is not there, empty, or holds a run that never began."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise NotARun(f"{folder} is a file; choose a folder for the run.")
    if is_run(folder):
        raise NotARun(
            f"{folder} already holds a run, at {read_record(folder).training}; "
            "add --resume to continue it, or choose another folder."
        )
    own = {CONFIG, VOCABULARY, FACTS, METRICS, PARTS, SHARDS}
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in own and path.suffix != NEXT)
    if foreign:
        raise NotARun(f"{folder} holds something else than a run ({foreign[0]}); choose another folder.")


def write_config(folder: Path, config: TrainConfig) -> None:
    """Write config.json."""
    text = json.dumps(config.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_bytes(folder / (CONFIG + NEXT), text.encode() + b"\n")
    os.replace(folder / (CONFIG + NEXT), folder / CONFIG)


def read_config(folder: Path) -> TrainConfig:
    """Read config.json."""
    try:
        return validate(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError, ConfigError) as failure:
        raise DamagedRun(f"{folder / CONFIG} cannot be used; restore it from a copy: {failure}") from None


def write_vocabularies(path: Path, entities: Vocabulary, relations: Vocabulary) -> None:
    """Write the names of both kinds in id order, columns kind, id, name."""
    import polars

    frame = polars.concat(
        polars.select(
            kind=polars.repeat(kind, len(names)),
            id=polars.int_range(len(names), dtype=polars.Int32),
            name=names.column(),
        )
        for kind, names in (("entity", entities), ("relation", relations))
    )
    unfinished = path.with_name(path.name + NEXT)
    frame.write_parquet(unfinished)
    os.replace(unfinished, path)


def read_vocabularies(path: Path) -> tuple[Vocabulary, Vocabulary]:
    """Entities and relations."""
    import polars

    try:
        frame = polars.read_parquet(path).sort("id", maintain_order=True)
        names = {kind: frame.filter(polars.col("kind") == kind)["name"].to_list() for kind in ("entity", "relation")}
    except (OSError, polars.exceptions.PolarsError) as failure:
        reason = str(failure).splitlines()[0]
        raise DamagedRun(f"{path} cannot be read ({reason}); restore it from a copy.") from None
    return Vocabulary(names["entity"], "entity"), Vocabulary(names["relation"], "relation")


def write_facts(path: Path, graph: KnowledgeGraph) -> None:
    """Write the facts of a graph in order, columns source, relation, target: ids of the vocabularies."""
    import polars
    from polars.io.plugins import register_io_source

    columns = dict.fromkeys(("source", "relation", "target"), polars.Int32)

    def slices(*_: object) -> Iterator[polars.DataFrame]:
        for first in range(0, len(graph), _ROWS):
            yield polars.DataFrame(graph.triples[first : first + _ROWS], schema=columns)

    unfinished = path.with_name(path.name + NEXT)
    register_io_source(slices, schema=columns).sink_parquet(unfinished)  # the facts may be more than memory holds
    os.replace(unfinished, path)


def read_facts(path: Path, entities: Vocabulary, relations: Vocabulary) -> KnowledgeGraph:
    """The graph of the facts in a run's folder."""
    import polars

    try:
        columns = polars.read_parquet(path).select("source", "relation", "target").cast(polars.Int32)
        return KnowledgeGraph(entities, relations, columns.to_numpy())
    except (OSError, ValueError, polars.exceptions.PolarsError) as failure:
        reason = str(failure).splitlines()[0]
        raise DamagedRun(f"{path} cannot be read ({reason}); restore it from a copy.") from None


def load_weights(model: Model, weights: dict[str, Tensor], folder: Path) -> None:
    """Copy saved weights into a model of the same shapes."""
    for name, parameter in model.state_dict().items():
        if name not in weights:
            raise DamagedRun(
                f"{folder}: the saved weights lack {name}; they are of another model than config.json names."
            )
        if weights[name].shape != parameter.shape:
            raise DamagedRun(
                f"{folder}: the saved {name} has shape {list(weights[name].shape)}, but config.json and "
                f"{VOCABULARY} ask for {list(parameter.shape)}; these files are not of one run."
            )
    with torch.no_grad():
        model.load_state_dict(weights)


def _no_run(folder: Path) -> str:
    if not folder.exists():
        return f"there is no run {folder}; train one with: blockhole train --data NAME --out {quote(str(folder))}"
    return f"{folder} holds no run: {CONFIG} or {STATE} is missing; give a folder that `blockhole train` wrote."
