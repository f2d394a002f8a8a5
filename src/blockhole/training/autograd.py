"""The engine for any model, loss and device: gradients by autograd, on the rows a batch touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.training.batch import Batch
from blockhole.training.config import TrainConfig
from blockhole.training.dropout import Dropout
from blockhole.training.losses import Pairs
from blockhole.training.negatives import ALL_ENTITIES, NegativeSampler
from blockhole.training.objective import Objective
from blockhole.training.optimizers import build_optimizer
from blockhole.training.target_weights import target_weights


@final
class AutogradEngine:
    """One step: draw negatives, gather the entity rows that occur, differentiate, update those rows.

    The objective is evaluated with the entity table replaced by the gathered rows, so no gradient of all E rows is
    ever made; only the full softmax, which touches them all, works on the table itself. Where only some entities are
    `seen` (absent: all), it gathers those: the others rival no answer and keep their rows. With `whole_table` nothing
    is gathered where objects are drawn either: finding the rows that occur makes a GPU wait for its host.
    """

    def __init__(
        self,
        model: Model,
        config: TrainConfig,
        graph: KnowledgeGraph,
        seen: NDArray[np.int64] | None = None,
        *,
        whole_table: bool = False,
    ) -> None:
        self._model = model
        self._objective = Objective(model, config.loss, config.penalty)
        self._sampler = NegativeSampler(config.loss, graph, config.training.seed, seen)
        self._seen = None if seen is None else _Seen.of(seen, model)
        self._whole_table = whole_table
        self._optimizer = build_optimizer(config.optimizer, dict(model.named_parameters()))
        self._dense = {name: value for name, value in model.named_parameters() if name != "entity"}
        rate, (_, width) = config.loss.query_dropout, model.entity.shape
        self._dropout = Dropout(rate, width, config.training.seed, model.entity.device) if rate else None
        self._target_weight = target_weights(graph, config.loss.rare_weight, model.entity.device)

    @property
    def recordable(self) -> bool:
        """Whether `advance` is a function of what lies on the device alone, and reads nothing back to the host."""
        return self._sampler.stays_on_device and (self._sampler.draws_nothing or self._whole_table)

    def step(self, batch: Batch) -> Tensor:
        """See Engine."""
        self.begin(batch)
        return self.advance(batch)

    def begin(self, batch: Batch) -> None:
        """Leave on the device what the step needs to know of the batch beside its ids."""
        self._sampler.begin(batch)
        if self._dropout is not None:
            self._dropout.begin(batch)

    def advance(self, batch: Batch) -> Tensor:
        """The step itself, after `begin`: on a GPU, where it is `recordable`, it can be recorded and replayed."""
        kept = None if self._dropout is None else self._dropout.draw(batch.source, batch.target)
        negatives = self._sampler.drawn(batch)
        entity: Tensor = self._model.entity
        touched, source, target = None, batch.source, batch.target
        if negatives.objects is not None and not self._whole_table:
            touched, (source, target, objects) = _renumber(source, target, negatives.objects)
            negatives = replace(negatives, objects=objects)
        elif negatives.objects is None and self._seen is not None:
            touched = self._seen.ids
            source, target = self._seen.position[source], self._seen.position[target]
            if negatives is not ALL_ENTITIES:
                cells = negatives.excluded
                negatives = replace(negatives, excluded=Pairs(cells.row, self._seen.position[cells.column]))
        if touched is not None:
            entity = entity.detach().index_select(0, touched).requires_grad_()
        weight = None if self._target_weight is None else self._target_weight[batch.target]
        loss = self._objective.on_rows(entity, source, batch.path, target, negatives, kept=kept, weight=weight)
        gradients = torch.autograd.grad(loss, [entity, *self._dense.values()])
        self._optimizer.begin_step()
        self._optimizer.update("entity", touched, gradients[0])
        for name, gradient in zip(self._dense, gradients[1:], strict=True):
            self._optimizer.update(name, None, gradient)
        return loss.detach()

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Engine."""
        return self._optimizer.state

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """See Engine."""
        for name, value in self._optimizer.state.items():
            value.copy_(state[name])


@final
@dataclass(frozen=True, slots=True)
class _Seen:
    """The entities that take part in training, ascending [count], and the position of each id among them [E]."""

    ids: Tensor
    position: Tensor

    @classmethod
    def of(cls, seen: NDArray[np.int64], model: Model) -> _Seen:
        # An id that is not seen gets a position past the end, at which indexing fails instead of reading another row.
        position = np.full(model.num_entities, len(seen))
        position[seen] = np.arange(len(seen))
        device = model.entity.device
        return cls(torch.from_numpy(seen).to(device), torch.from_numpy(position).to(device))


def _renumber(*ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The distinct ids, ascending, and each given tensor with its ids replaced by their positions there."""
    distinct, position = torch.unique(torch.cat([part.flatten() for part in ids]), return_inverse=True)
    flat = position.split([part.numel() for part in ids])
    return distinct, [part.reshape(original.shape) for part, original in zip(flat, ids, strict=True)]
