"""The engine of a sharded entity table: any model and loss, on a mesh of processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.training.batch import Batch
from blockhole.training.config import TrainConfig
from blockhole.training.distributed.mesh import EntityMesh, inside
from blockhole.training.distributed.rivals import ShardRivals
from blockhole.training.distributed.volume import StepSizes
from blockhole.training.dropout import Dropout
from blockhole.training.losses import Pairs
from blockhole.training.negatives import ALL_ENTITIES, Negatives, NegativeSampler
from blockhole.training.objective import Objective
from blockhole.training.optimizers import build_optimizer
from blockhole.training.target_weights import target_weights


@final
class ShardedEngine:
    """One step of all processes: each takes its part of the batch and contrasts it with the rows it holds.

    The rows of sources and targets are fetched from the shards that hold them, and the objective is evaluated with the
    entity table replaced by them. Along the entities every process then has the same loss and the same gradients of
    fetched rows and relations; along the data they are summed. Every process draws the negatives of the whole batch
    and uses those it needs, so that the draw does not depend on their number.
    """

    def __init__(
        self,
        model: Model,
        config: TrainConfig,
        graph: KnowledgeGraph,
        mesh: EntityMesh,
        seen: NDArray[np.int64] | None = None,
    ) -> None:
        assert isinstance(model.entity, DTensor)
        self._model = model
        self._mesh = mesh
        self._held = mesh.held(model.num_entities)
        self._shard = model.entity.to_local().detach()
        self._objective = Objective(model, config.loss, config.penalty)
        self._sampler = NegativeSampler(config.loss, graph, config.training.seed, seen)
        self._dense = {name: value for name, value in model.named_parameters() if name != "entity"}
        self._optimizer = build_optimizer(config.optimizer, {"entity": nn.Parameter(self._shard), **self._dense})
        rate, (_, width) = config.loss.query_dropout, model.entity.shape
        self._dropout = Dropout(rate, width, config.training.seed, self._shard.device) if rate else None
        self._target_weight = target_weights(graph, config.loss.rare_weight, self._shard.device)
        self._seen: Tensor | None = None
        self._counted: Tensor | None = None
        if seen is not None:
            known = torch.from_numpy(seen)
            self._seen = (known[inside(known, self._held)] - self._held.start).to(self._shard.device)
            self._counted = torch.full((len(self._held),), -torch.inf, device=self._shard.device)
            self._counted[self._seen] = 0.0

    def step(self, batch: Batch) -> Tensor:
        """See Engine."""
        drawn = self._sampler.draw(batch)
        part = self._mesh.part(len(batch.source))
        share = (part.stop - part.start) / len(batch.source)
        # A process without a row takes the first at weight 0: it is needed where its shard is reduced with others.
        part = part if share else slice(0, 1)
        negatives = _of_rows(drawn, part)
        ends, position = torch.unique(torch.cat((batch.source[part], batch.target[part])), return_inverse=True)
        source, target = position.chunk(2)
        fetched = self._fetch(ends).requires_grad_()
        rivals = ShardRivals.of(self._model, self._mesh, self._shard, batch.target[part], negatives, self._counted)
        kept = self._kept(batch, part)
        weight = None if self._target_weight is None else self._target_weight[batch.target[part]]
        loss = share * self._objective.on_rows(
            fetched, source, batch.path[part], target, negatives, contrast=rivals, kept=kept, weight=weight
        )
        leaves = [fetched, rivals.rows, *self._dense.values()]
        of_fetched, of_rivals, *of_dense = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        self._optimizer.begin_step()
        touched = self._touched(batch, drawn)
        gradient = self._in_shard(touched, ends, of_fetched, rivals.ids, of_rivals)
        self._optimizer.update("entity", touched, self._mesh.sum_over_data(gradient))
        summed = self._mesh.sum_over_data(torch.cat([each.detach().flatten() for each in (*of_dense, loss)]))
        *of_dense, total = torch.split_with_sizes(summed, [each.numel() for each in (*of_dense, loss)])
        for (name, parameter), gradient in zip(self._dense.items(), of_dense, strict=True):
            self._optimizer.update(name, None, gradient.view_as(parameter))
        return total[0]

    def _kept(self, batch: Batch, part: slice) -> Tensor | None:
        """What the query vectors of some rows are multiplied with, where coordinates are dropped."""
        if self._dropout is None:
            return None
        self._dropout.begin(batch)
        return self._dropout.draw(batch.source[part], batch.target[part])

    def _fetch(self, ids: Tensor) -> Tensor:
        """The rows of the given entities, whoever holds them: [count] → [count, width]."""
        own = inside(ids, self._held)
        rows = self._shard.new_zeros(len(ids), self._shard.shape[1])
        rows[own] = self._shard[ids[own] - self._held.start]
        return self._mesh.total(rows)

    def _touched(self, batch: Batch, drawn: Negatives) -> Tensor | None:
        """The rows of this shard that the whole batch touches, ascending; absent where it touches all."""
        if drawn.objects is None:
            return self._seen
        ids: Tensor = torch.unique(torch.cat((batch.source, batch.target, drawn.objects.flatten())))
        return ids[inside(ids, self._held)] - self._held.start

    def _in_shard(
        self, touched: Tensor | None, ends: Tensor, of_ends: Tensor, rivals: Tensor | None, of_rivals: Tensor
    ) -> Tensor:
        """The gradient of the touched rows of this shard, from fetched rows and rivals: [touched or shard, width]."""
        own = inside(ends, self._held)
        ends, of_ends = ends[own] - self._held.start, of_ends[own]
        if rivals is None:
            gradient = of_rivals.index_add(0, ends, of_ends)
            return gradient if touched is None else gradient.index_select(0, touched)
        assert touched is not None
        gradient = of_ends.new_zeros(len(touched), of_ends.shape[1])
        gradient.index_add_(0, torch.searchsorted(touched, ends), of_ends)
        return gradient.index_add_(0, torch.searchsorted(touched, rivals), of_rivals)

    def sizes(self, batch: Batch) -> StepSizes:
        """What `step_bytes` counts with for a step on `batch`."""
        drawn, part = self._sampler.draw(batch), self._mesh.part(len(batch.source))
        touched = self._touched(batch, drawn)
        if drawn.objects is not None and drawn.objects.dim() == 2:
            per_query = drawn.objects.shape[1]
        else:
            parallel = drawn is ALL_ENTITIES and self._counted is None and self._target_weight is None
            per_query = 3 if parallel else 2
        return StepSizes(
            queries=part.stop - part.start,
            ends=len(torch.unique(torch.cat((batch.source[part], batch.target[part])))),
            per_query=per_query,
            touched=len(self._shard) if touched is None else len(touched),
            width=self._shard.shape[1],
            candidate_width=self._model.finish_candidate(self._shard[:1]).shape[1],
            dense=sum(value.numel() for value in self._dense.values()),
        )

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Engine; what belongs to entity rows is sharded as they are."""
        return {
            name: self._mesh.table(value, self._model.num_entities) if name.startswith("entity.") else value
            for name, value in self._optimizer.state.items()
        }

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """See Engine; what belongs to entity rows is sharded as they are."""
        for name, value in self._optimizer.state.items():
            saved = state[name]
            value.copy_(saved.to_local() if isinstance(saved, DTensor) else saved)


def _of_rows(negatives: Negatives, part: slice) -> Negatives:
    """The negatives of some rows of a batch."""
    if negatives is ALL_ENTITIES:
        return negatives
    row = negatives.excluded.row
    here = inside(row, range(part.start, part.stop))
    objects = negatives.objects
    return replace(
        negatives,
        objects=objects[part] if objects is not None and objects.dim() == 2 else objects,
        excluded=Pairs(row[here] - part.start, negatives.excluded.column[here]),
        paths=None if negatives.paths is None else negatives.paths[part],
        false=None if negatives.false is None else negatives.false[part],
    )
