"""Writing a run while it trains: the folder, its lock, checkpoints and metrics."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, final

from torch import Tensor

from blockhole.errors import DamagedRun, RunError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.runs.checkpoint import (
    OPTIMIZER,
    Checkpoint,
    TrainingState,
    explaining_failed_save,
    load_checkpoint,
    read_record,
    recover,
    save_checkpoint,
)
from blockhole.runs.config import TrainConfig
from blockhole.runs.folder import (
    FACTS,
    METRICS,
    PARTS,
    VOCABULARY,
    read_run_facts,
    read_vocabularies,
    write_config,
    write_facts,
    write_vocabularies,
)
from blockhole.runs.run import load_weights
from blockhole.runs.tracking import Figures, MetricsFile, Tracker


class Optimizing(Protocol):
    """What a checkpoint keeps beside the weights: all else that the next step depends on."""

    def optimizer_state(self) -> dict[str, Tensor]:
        """The state, by name."""

    def load_optimizer_state(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state."""


class Writer(Protocol):
    """Keeps a run in its folder."""

    def begin(self, config: TrainConfig, graph: KnowledgeGraph) -> None:
        """Start a new run on the facts of `graph` in an empty folder."""

    def resume(self, config: TrainConfig, graph: KnowledgeGraph) -> Checkpoint:
        """Load weights and optimizer from the folder, to go on with `config`; its names and facts must be the same."""

    def save(self, state: TrainingState, best: dict[str, Tensor] | None, *, best_changed: bool) -> None:
        """Save weights, optimizer and `state`, and the best weights if they changed; nothing where all is saved."""

    def log(self, event: str, figures: Figures) -> None:
        """Record figures; see Tracker."""

    def finish(self, *, complete: bool) -> None:
        """Bring all that was saved into its last form; whether the run is `complete`."""

    def close(self) -> None:
        """Close metrics.jsonl; trackers are closed by who opened them."""


@final
class RunWriter:
    """Saves one model and what optimizes it into one folder; a Writer. Figures go to metrics.jsonl and `trackers`."""

    def __init__(self, folder: Path, model: Model, optimizing: Optimizing, trackers: Sequence[Tracker] = ()) -> None:
        self._folder = folder
        self._model = model
        self._optimizing = optimizing
        self._trackers = [*trackers]
        self._metrics: MetricsFile | None = None
        self._saved: TrainingState | None = None

    def begin(self, config: TrainConfig, graph: KnowledgeGraph) -> None:
        """See Writer."""
        self._metrics = begin_folder(self._folder, config, graph)
        self._trackers.append(self._metrics)

    def resume(self, config: TrainConfig, graph: KnowledgeGraph) -> Checkpoint:
        """See Writer."""
        recover(self._folder)
        check_same_data(self._folder, graph)
        checkpoint = load_checkpoint(self._folder)
        load_weights(self._model, checkpoint.weights, self._folder)
        check_optimizer(self._optimizing.optimizer_state(), checkpoint.optimizer, self._folder)
        self._optimizing.load_optimizer_state(checkpoint.optimizer)
        self._metrics = resume_folder(self._folder, config, checkpoint.metrics_bytes)
        self._trackers.append(self._metrics)
        if read_record(self._folder).shards is None:  # which are brought into plain files at the first chance
            self._saved = checkpoint.state.model_copy()
        return checkpoint

    def save(self, state: TrainingState, best: dict[str, Tensor] | None, *, best_changed: bool) -> None:
        """See Writer."""
        assert self._metrics is not None, "begin or resume comes first"
        if state == self._saved and not best_changed:
            return  # a new id for the same weights would make an index or a calibration of theirs look stale
        checkpoint = Checkpoint(
            state=state,
            weights=dict(self._model.state_dict()),
            optimizer=self._optimizing.optimizer_state(),
            best=best,
            metrics_bytes=self._metrics.size(),
        )
        save_checkpoint(self._folder, checkpoint, best_changed=best_changed)
        self._saved = state.model_copy()

    def log(self, event: str, figures: Figures) -> None:
        """See Writer."""
        for tracker in self._trackers:
            tracker.log(event, figures)

    def finish(self, *, complete: bool) -> None:
        """See Writer: what is saved has its last form already."""

    def close(self) -> None:
        """See Writer."""
        if self._metrics is not None:
            self._metrics.close()


def begin_folder(folder: Path, config: TrainConfig, graph: KnowledgeGraph) -> MetricsFile:
    """Write what a run is known by from its beginning: names, facts and settings; its metrics, open."""
    with explaining_failed_save(folder):
        recover(folder)
        (folder / PARTS).unlink(missing_ok=True)  # of a merge that failed there
        write_vocabularies(folder / VOCABULARY, graph.entities, graph.relations)
        write_facts(folder / FACTS, graph)
        write_config(folder, config)
        return MetricsFile(folder / METRICS)


def resume_folder(folder: Path, config: TrainConfig, metrics_bytes: int) -> MetricsFile:
    """Write the settings that a run goes on with; its metrics, open after so many bytes."""
    with explaining_failed_save(folder):
        write_config(folder, config)
        return MetricsFile(folder / METRICS, metrics_bytes)


def check_optimizer(state: Mapping[str, Tensor], saved: Mapping[str, Tensor], folder: Path) -> None:
    """Make sure that what was saved of an optimizer is of one that has this `state`."""
    if {name: value.shape for name, value in saved.items()} != {name: value.shape for name, value in state.items()}:
        raise DamagedRun(
            f"{folder / OPTIMIZER} does not fit the optimizer that config.json names; "
            "these files do not belong to one run."
        )


def check_same_data(folder: Path, graph: KnowledgeGraph) -> None:
    """Make sure that the run in `folder` was trained on the facts of `graph`."""
    sums = read_record(folder).sha256
    entities, relations = read_vocabularies(folder / VOCABULARY, sums.get(VOCABULARY))
    same_names = (entities, relations) == (graph.entities, graph.relations)
    if not same_names or read_run_facts(folder / FACTS, entities, relations, sums.get(FACTS)) != graph:
        raise RunError(
            f"{folder} was trained on other data: its {'facts' if same_names else 'names'} differ; "
            "resume it with the data it began with."
        )


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Make `folder` and hold it: a second process that would train into it is refused until the block ends."""
    with explaining_failed_save(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another process is training into {folder}; wait for it, or choose another folder."
            ) from None
        yield
    finally:
        os.close(descriptor)
