"""Who trains: one process, or several that hold parts of one model. The loop and `fitting` ask it what differs.

The tensors of torch.distributed take as long to import as half of torch: `joined` imports them for several alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray

from blockhole.compiled import available_threads
from blockhole.data.dataset import DataSet
from blockhole.errors import ConfigError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.machine import choose_device, launched
from blockhole.models.catalogue import build_model
from blockhole.models.contract import Model
from blockhole.runs.config import TrainConfig
from blockhole.runs.tracking import Tracker
from blockhole.runs.writer import RunWriter, Writer
from blockhole.training.learner import Learner, Validation, give_mean_to_unseen
from blockhole.training.positives import Sharing
from blockhole.training.steppers import Stepper, build_stepper


class Workers(Protocol):
    """What one process does, and several do together. Every process calls the same methods in the same order."""

    @property
    def speaks(self) -> bool:
        """Whether this process is the one that writes and prints."""

    def has_begun(self, folder: Path) -> bool:
        """Whether the run in `folder` is one that this launch began, before a launcher started it again."""

    def begin(self, folder: Path) -> None:
        """Note that this launch has begun the run in `folder`, or continues it."""

    def together(self) -> AbstractContextManager[None]:
        """What goes wrong for one process within the block goes wrong for all at its end."""

    def agree(self, mine: bool) -> bool:
        """Whether any process says yes."""

    def settle(self, config: TrainConfig, data: DataSet) -> torch.device:
        """Make sure the work can be divided, and that all see the same settings and data; the device to train on."""

    def sharing(self) -> Sharing | None:
        """How processes make the batches of a packed graph together, after `settle`; absent for one that is alone."""

    def threads(self) -> int:
        """The CPU threads this process may use."""

    def build_model(self, config: TrainConfig, num_entities: int, num_relations: int) -> Model:
        """The model to train, on the device."""

    def build_stepper(
        self, model: Model, config: TrainConfig, graph: KnowledgeGraph, threads: int, seen: NDArray[np.int64] | None
    ) -> Stepper:
        """What steps it."""

    def build_writer(self, folder: Path, learner: Learner, trackers: Sequence[Tracker]) -> Writer:
        """What keeps the run in `folder`, and tells `trackers` its figures."""

    def measure(self, validation: Validation, model: Model, config: TrainConfig) -> Mapping[str, float]:
        """The figures of the model that these workers train."""

    def average_unseen(self, model: Model, seen: NDArray[np.int64]) -> None:
        """See `give_mean_to_unseen`."""

    def finish(self, learner: Learner, *, kept: bool) -> Model | None:
        """The trained model, plain and on the CPU; absent where it is to be read from the folder it is kept in."""


@final
class Alone:
    """A process alone: it holds all and agrees with itself."""

    speaks = True

    def has_begun(self, folder: Path) -> bool:
        """See Workers."""
        return False

    def begin(self, folder: Path) -> None:
        """See Workers."""

    def together(self) -> AbstractContextManager[None]:
        """See Workers."""
        return nullcontext()

    def agree(self, mine: bool) -> bool:
        """See Workers."""
        return mine

    def settle(self, config: TrainConfig, data: DataSet) -> torch.device:
        """See Workers."""
        return choose_device(config.training.device)

    def sharing(self) -> None:
        """See Workers."""

    def threads(self) -> int:
        """See Workers."""
        return available_threads()

    def build_model(self, config: TrainConfig, num_entities: int, num_relations: int) -> Model:
        """See Workers."""
        model = build_model(config.model, num_entities, num_relations, config.training.seed)
        return model.to(choose_device(config.training.device))

    def build_stepper(
        self, model: Model, config: TrainConfig, graph: KnowledgeGraph, threads: int, seen: NDArray[np.int64] | None
    ) -> Stepper:
        """See Workers."""
        return build_stepper(model, config, graph, threads, seen)

    def build_writer(self, folder: Path, learner: Learner, trackers: Sequence[Tracker]) -> Writer:
        """See Workers."""
        return RunWriter(folder, learner.model, learner, trackers)

    def measure(self, validation: Validation, model: Model, config: TrainConfig) -> Mapping[str, float]:
        """See Workers."""
        return validation.measure(model)

    def average_unseen(self, model: Model, seen: NDArray[np.int64]) -> None:
        """See Workers."""
        give_mean_to_unseen(model, seen)

    def finish(self, learner: Learner, *, kept: bool) -> Model | None:
        """See Workers."""
        model = learner.model.to("cpu")
        if learner.best is not None:
            model.load_state_dict(learner.best)
        return model


ALONE = Alone()


@contextmanager
def joined(mesh: str | None = None) -> Iterator[Workers]:
    """The workers this process belongs to: those that torchrun started, on `mesh` (DATAxENTITIES), or itself alone."""
    launch = launched()
    if launch is not None:
        from blockhole.training.distributed.group import join

        with join(launch, mesh) as group:
            yield group
        return
    if mesh is not None and mesh != "1x1":
        raise ConfigError(
            f"the mesh {mesh} is for several processes, and this one was started alone; start it with "
            "torchrun --nproc-per-node N --no-python blockhole train …"
        )
    yield ALONE
