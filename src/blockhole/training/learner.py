"""A model in training: what steps it, what is read out of it, and the rows of entities that it never meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.training.batches import Batch
from blockhole.training.positives import Positives
from blockhole.training.steppers import Stepper


class Validation(Protocol):
    """Measures a model on the validation queries."""

    def measure(self, model: Model) -> Mapping[str, float]:
        """Figures of a plain model, among them the one early stopping looks at."""


@final
class Learner:
    """A model, what steps it, and the weights that answer for the run.

    Only the entities `seen` take part (absent: all); see `give_mean_to_unseen`. `best` are the weights that were kept
    last (absent: those of the model answer).

    With `average_epochs` K > 1 what is measured and kept is a_t = a_{t-1} + (w_t - a_{t-1}) / min(t, K) of the weights
    w_t after epoch t. That is the plain mean of the first K epochs, and then one that forgets: what an epoch leaves
    behind by chance, by the batches it ended with, is averaged out. Training does not see the mean; checkpoints keep it
    with the optimizer.
    """

    def __init__(
        self, model: Model, stepper: Stepper, seen: NDArray[np.int64] | None = None, *, average_epochs: int = 1
    ) -> None:
        self.model = model
        self.seen = seen
        self.best: dict[str, Tensor] | None = None
        self._stepper = stepper
        self._window = average_epochs
        self._mean: dict[str, Tensor] = {}
        if average_epochs > 1:
            self._mean = {name: torch.zeros_like(value.detach()) for name, value in model.named_parameters()}

    @property
    def averages(self) -> bool:
        """Whether a mean over epochs is measured and kept."""
        return bool(self._mean)

    def step(self, batch: Batch) -> Tensor:
        """See Stepper."""
        return self._stepper.step(batch)

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Optimizing."""
        return self._stepper.optimizer_state() | {f"{name}.average": mean for name, mean in self._mean.items()}

    def load_optimizer_state(self, state: dict[str, Tensor]) -> None:
        """See Optimizing."""
        own = {f"{name}.average": mean for name, mean in self._mean.items()}
        self._stepper.load_optimizer_state({name: value for name, value in state.items() if name not in own})
        for name, mean in own.items():
            mean.copy_(state[name])

    def keep(self) -> None:
        """Take the weights that the model has now for those that answer for the run."""
        self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    @torch.no_grad()
    def close_epoch(self, epoch: int) -> None:
        """Take the weights after epoch number `epoch`, from 1, into the mean, where there is one."""
        for name, mean in self._mean.items():
            mean.lerp_(self.model.get_parameter(name), 1 / min(epoch, self._window))

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within the block the model has the mean as its weights, where there is one."""
        last = {name: self.model.get_parameter(name).detach().clone() for name in self._mean}
        self._put(self._mean)
        try:
            yield
        finally:
            self._put(last)

    @torch.no_grad()
    def _put(self, weights: Mapping[str, Tensor]) -> None:
        # In place: compiled loops and recorded steps know the tables by their addresses.
        for name, value in weights.items():
            self.model.get_parameter(name).copy_(value)


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
    of theirs. No step reads these rows (a stepper that is told `seen` contrasts with no others), so writing
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
