"""The engine for any model, loss and device: gradients by autograd, on the rows a batch touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import final

import torch
from torch import Tensor
from torch.func import functional_call

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.training.batch import Batch
from blockhole.training.config import TrainConfig
from blockhole.training.negatives import Negatives, NegativeSampler
from blockhole.training.objective import Objective
from blockhole.training.optimizers import build_optimizer


@final
class AutogradEngine:
    """One step: draw negatives, gather the entity rows that occur, differentiate, update those rows.

    The objective is evaluated with the entity table replaced by the gathered rows, so no gradient of all E rows is
    ever made; only the full softmax, which touches them all, works on the table itself.
    """

    def __init__(self, model: Model, config: TrainConfig, graph: KnowledgeGraph) -> None:
        self._model = model
        self._objective = Objective(model, config.loss, config.penalty)
        self._sampler = NegativeSampler(config.loss, graph, config.training.seed)
        self._optimizer = build_optimizer(config.optimizer, dict(model.named_parameters()))
        self._dense = {name: value for name, value in model.named_parameters() if name != "entity"}

    @property
    def draws_nothing(self) -> bool:
        """Whether a step is a function of the batch's ids alone, without random draws."""
        return self._sampler.draws_nothing

    def step(self, batch: Batch) -> Tensor:
        """See Engine."""
        negatives = self._sampler.draw(batch)
        if negatives.objects is None:
            entity: Tensor = self._model.entity
            touched = None
            source, target = batch.source, batch.target
        else:
            touched, (source, target, objects) = _renumber(batch.source, batch.target, negatives.objects)
            entity = self._model.entity.detach().index_select(0, touched).requires_grad_()
            negatives = replace(negatives, objects=objects)
        loss = self._loss(entity, source, batch.path, target, negatives)
        gradients = torch.autograd.grad(loss, [entity, *self._dense.values()])
        self._optimizer.begin_step()
        self._optimizer.update("entity", touched, gradients[0])
        for name, gradient in zip(self._dense, gradients[1:], strict=True):
            self._optimizer.update(name, None, gradient)
        return loss.detach()

    def _loss(self, entity: Tensor, source: Tensor, path: Tensor, target: Tensor, negatives: Negatives) -> Tensor:
        loss: Tensor = functional_call(
            self._objective, {"model.entity": entity}, (source, path, target, negatives), strict=False
        )
        return loss

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Engine."""
        return self._optimizer.state

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """See Engine."""
        for name, value in self._optimizer.state.items():
            value.copy_(state[name])


def _renumber(*ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The distinct ids, ascending, and each given tensor with its ids replaced by their positions there."""
    distinct, position = torch.unique(torch.cat([part.flatten() for part in ids]), return_inverse=True)
    flat = position.split([part.numel() for part in ids])
    return distinct, [part.reshape(original.shape) for part, original in zip(flat, ids, strict=True)]
