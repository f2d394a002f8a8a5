"""A model whose entity table lies in parts, and its steps: any model and loss, on a mesh of processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial, Replicate

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.models.contract import Model
from blockhole.runs.config import TrainConfig
from blockhole.training.batches import Batch
from blockhole.training.distributed.mesh import EntityMesh, inside
from blockhole.training.losses import CHUNK_LOGITS, Pairs, Rivals
from blockhole.training.negatives import ALL_ENTITIES, Negatives, NegativeSampler
from blockhole.training.objective import build_objective, target_weights
from blockhole.training.optimizers import build_optimizer
from blockhole.training.steppers import Dropout

# The model, built without any process ever holding all rows.


_ROWS_DRAWN = 2**14
"""Rows drawn at a time; a multiple of 16, see `draw_rows`."""


def build_sharded_model(
    settings: ModelSettings, num_entities: int, num_relations: int, seed: int, mesh: EntityMesh
) -> Model:
    """The model that `build_model` would draw, number for number, with this process' rows of it on the mesh' device."""
    model = build_model(settings, 1, num_relations, seed)
    generator = torch.Generator().manual_seed(seed)
    held = mesh.held(num_entities)
    own = draw_rows(num_entities, model.entity.shape[1], model.entity_scale, generator, held)
    relation = torch.empty_like(model.relation).normal_(0.0, model.relation_scale, generator=generator)
    model.num_entities = num_entities
    model.relation = nn.Parameter(relation.to(mesh.device))
    model.entity = nn.Parameter(mesh.table(own.to(mesh.device), num_entities))
    return model


def draw_rows(count: int, width: int, scale: float, generator: torch.Generator, held: range) -> Tensor:
    """The rows `held` of torch.empty(count, width).normal_(0, scale), in the memory of one more block.

    torch turns uniform numbers into normal ones in groups of sixteen, and what is left at the end in a group of its
    own; blocks of a multiple of sixteen rows, the last one taking in what is left, repeat its groups.
    """
    own = torch.from_numpy(np.empty((len(held), width), dtype=np.float32))  # on large pages, as in a model
    starts = list(range(0, count, _ROWS_DRAWN))
    if len(starts) > 1 and count - starts[-1] < 16:
        starts.pop()
    for first, last in zip(starts, [*starts[1:], count], strict=True):
        block = torch.empty(last - first, width).normal_(0.0, scale, generator=generator)
        low, high = max(first, held.start), min(last, held.stop)
        if low < high:
            own[low - held.start : high - held.start] = block[low - first : high - first]
    return own


# A step.


@final
class ShardedStepper:
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
        self._objective = build_objective(model, config, graph)
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
        """See Stepper."""
        drawn = self._sampler.draw(batch)
        part = self._mesh.part(len(batch.source))
        share = (part.stop - part.start) / len(batch.source)
        # A process without a row takes the first at weight 0: it is needed where its shard is reduced with others.
        part = part if share else slice(0, 1)
        negatives = _of_rows(drawn, part)
        ends, position = torch.unique(torch.cat((batch.source[part], batch.target[part])), return_inverse=True)
        source, target = position.chunk(2)
        fetched = self._fetch(ends).requires_grad_()
        rivals = ShardTable.of(self._model, self._mesh, self._shard, batch.target[part], negatives, self._counted)
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

    def optimizer_state(self) -> dict[str, Tensor]:
        """See Stepper; what belongs to entity rows is sharded as they are."""
        return {
            name: self._mesh.table(value, self._model.num_entities) if name.startswith("entity.") else value
            for name, value in self._optimizer.state.items()
        }

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """See Stepper; what belongs to entity rows is sharded as they are."""
        for name, value in self._optimizer.state.items():
            saved = state[name]
            value.copy_(saved.to_local() if isinstance(saved, DTensor) else saved)


def _of_rows(negatives: Negatives, part: slice) -> Negatives:
    """The negatives of some rows of a batch."""
    if negatives is ALL_ENTITIES:
        return negatives
    cells = negatives.excluded.pairs()
    here = inside(cells.row, range(part.start, part.stop))
    objects = negatives.objects
    return replace(
        negatives,
        objects=objects[part] if objects is not None and objects.dim() == 2 else objects,
        excluded=Pairs(cells.row[here] - part.start, cells.column[here]),
        paths=None if negatives.paths is None else negatives.paths[part],
        false=None if negatives.false is None else negatives.false[part],
    )


# What a process contrasts queries with: the candidates among its own rows, put together with the other shards'.


@final
@dataclass(frozen=True, slots=True)
class ShardTable:
    """The rows of one shard that a batch is contrasted with; a Contrast.

    The logits of a shard never leave it: maximum, sum of exponentials and query gradient are reduced along the entities
    (`losses.shared_softmax`), and all else is local.

    `answer` are the entities that answer the batch's queries. `ids` are the rivals' places in the shard (absent: every
    row), `rows` their rows, a leaf of autograd. `cells` say which drawn object is which of them (logistic);
    `log_weight` and `excluded` are those of `losses.Rivals`.
    """

    model: Model
    mesh: EntityMesh
    answer: Tensor
    rows: Tensor
    ids: Tensor | None
    excluded: Pairs
    log_weight: Tensor | None = None
    cells: Cells | None = None

    @classmethod
    def of(
        cls, model: Model, mesh: EntityMesh, shard: Tensor, answer: Tensor, negatives: Negatives, counted: Tensor | None
    ) -> Self:
        """The rivals that `negatives` name in `shard` [count, width].

        `counted` [count] is 0 for entities that take part and -inf for others (absent: all do).
        """
        held, objects, excluded = mesh.held(model.num_entities), negatives.objects, negatives.excluded.pairs()
        if objects is None:
            here = inside(excluded.column, held)
            cells = Pairs(excluded.row[here], excluded.column[here] - held.start)
            return cls(model, mesh, answer, shard.detach().requires_grad_(), None, cells, counted)
        own = inside(objects, held)
        if objects.dim() == 2:
            row, column = own.nonzero(as_tuple=True)
            ids, position = torch.unique(objects[own] - held.start, return_inverse=True)
            rows = shard.index_select(0, ids).requires_grad_()
            return cls(model, mesh, answer, rows, ids, excluded, None, Cells(row, column, position))
        ids = objects[own] - held.start
        place, here = own.cumsum(0) - 1, own[excluded.column]
        cells = Pairs(excluded.row[here], place[excluded.column[here]])
        weight = None if negatives.log_weight is None else negatives.log_weight[own]
        return cls(model, mesh, answer, shard.index_select(0, ids).requires_grad_(), ids, cells, weight)

    def object_scores(self, query: Tensor, negatives: Negatives) -> Tensor:
        """See Contrast: every process scores the objects it holds, and their sum with zeros elsewhere is the whole."""
        assert negatives.objects is not None
        assert self.cells is not None
        cells = self.cells
        # What every process has gets its gradient from all of them; what is summed passes it to each as it is.
        shared = DTensor.from_local(query, self.mesh.entities, [Replicate()], run_check=False)
        own = shared.to_local(grad_placements=[Partial()])[cells.row]
        score = (own * self.model.finish_candidate(self.rows)[cells.position]).sum(dim=1)
        scattered = query.new_zeros(negatives.objects.shape).index_put((cells.row, cells.column), score)
        summed = DTensor.from_local(scattered, self.mesh.entities, [Partial()], run_check=False)
        return summed.redistribute(placements=[Replicate()]).to_local()

    def rivals(self, negatives: Negatives, target: Tensor) -> Rivals:
        """See Contrast; `target` counts in the rows that were fetched, `answer` in the table."""
        # From figures that all processes know, so that they reduce equally often.
        most = self.model.num_entities if negatives.objects is None else len(negatives.objects)
        return Rivals(
            self.model.finish_candidate(self.rows),
            self._answer_cells() if negatives is ALL_ENTITIES else self.excluded,
            self.log_weight,
            across=self.mesh,
            rows=max(1, CHUNK_LOGITS // -(-most // self.mesh.shape.entities)),
        )

    def _answer_cells(self) -> Pairs:
        """The cells of this shard's logits that hold the true answers."""
        held = self.mesh.held(self.model.num_entities)
        row = inside(self.answer, held).nonzero()[:, 0]
        return Pairs(row, self.answer[row] - held.start)


@final
@dataclass(frozen=True, slots=True)
class Cells:
    """The drawn objects [batch, count] that a shard holds: row, column, and position among its rivals."""

    row: Tensor
    column: Tensor
    position: Tensor
