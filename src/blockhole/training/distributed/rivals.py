"""What a process contrasts queries with: the candidates among its own rows, put together with the other shards'.

The logits of a shard never leave it. Over all entities the loss is torch's `loss_parallel`. It knows no weights of
single rows or candidates, no masks, and no rivals that only one row has; the losses that need those (rare targets,
samples, known answers or unseen entities left out, corrupted paths) do the same by themselves
(`losses.softmax_loss`): maximum, sum of exponentials and query gradient are reduced along the entities, and all else is
local.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, cast, final

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn import functional

from blockhole.models.contract import Model
from blockhole.training import losses
from blockhole.training.distributed.mesh import EntityMesh, inside
from blockhole.training.losses import CHUNK_LOGITS, Pairs
from blockhole.training.negatives import ALL_ENTITIES, Negatives


@final
@dataclass(frozen=True, slots=True)
class Cells:
    """The drawn objects [batch, count] that a shard holds: row, column, and position among its rivals."""

    row: Tensor
    column: Tensor
    position: Tensor


@final
@dataclass(frozen=True, slots=True)
class ShardRivals:
    """The rivals of a batch among the rows of one shard; a Contrast.

    `answer` are the entities that answer the batch's queries. `ids` are the rivals' places in the shard (absent: every
    row), `rows` their rows, a leaf of autograd. `cells` say which drawn object is which of them (logistic);
    `log_weight` and `excluded` are those of `losses.softmax_loss`.
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
        held, objects = mesh.held(model.num_entities), negatives.objects
        if objects is None:
            here = inside(negatives.excluded.column, held)
            cells = Pairs(negatives.excluded.row[here], negatives.excluded.column[here] - held.start)
            return cls(model, mesh, answer, shard.detach().requires_grad_(), None, cells, counted)
        own = inside(objects, held)
        if objects.dim() == 2:
            row, column = own.nonzero(as_tuple=True)
            ids, position = torch.unique(objects[own] - held.start, return_inverse=True)
            rows = shard.index_select(0, ids).requires_grad_()
            return cls(model, mesh, answer, rows, ids, negatives.excluded, None, Cells(row, column, position))
        ids = objects[own] - held.start
        place, here = own.cumsum(0) - 1, own[negatives.excluded.column]
        cells = Pairs(negatives.excluded.row[here], place[negatives.excluded.column[here]])
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

    def shared_softmax(self, own: Tensor, query: Tensor, negatives: Negatives, weight: Tensor | None) -> Tensor:
        """See Contrast."""
        candidates = self.model.finish_candidate(self.rows)
        log_weight = query.new_zeros(len(candidates)) if self.log_weight is None else self.log_weight.to(query)
        # From figures that all processes know, so that they reduce equally often.
        most = self.model.num_entities if negatives.objects is None else len(negatives.objects)
        rows = max(1, CHUNK_LOGITS // -(-most // self.mesh.shape.entities))
        return losses.softmax_loss(
            own, query, candidates, log_weight, self.excluded, weight=weight, across=self.mesh, rows=rows
        )

    def full_softmax(self, query: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """See Contrast; `target` counts in the rows that were fetched, `answer` in the table."""
        if self.log_weight is not None or weight is not None:
            own = (query * self.model.candidates(target)).sum(dim=1, keepdim=True)
            return replace(self, excluded=self._answer_cells()).shared_softmax(own, query, ALL_ENTITIES, weight)
        candidates = self.model.finish_candidate(self.rows)
        loss: Tensor = _LossParallel.apply(  # type: ignore[no-untyped-call]
            query, candidates, self.answer, self.mesh, self.model.num_entities
        )
        return loss

    def _answer_cells(self) -> Pairs:
        """The cells of this shard's logits that hold the true answers."""
        held = self.mesh.held(self.model.num_entities)
        row = inside(self.answer, held).nonzero()[:, 0]
        return Pairs(row, self.answer[row] - held.start)


class _LossParallel(torch.autograd.Function):
    """Cross entropy over a sharded vocabulary, some queries at a time, so that few logits are held at once."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        candidates: Tensor,
        target: Tensor,
        mesh: EntityMesh,
        num_entities: int,
    ) -> Tensor:
        batch, shards = len(query), mesh.entities
        rows = max(1, CHUNK_LOGITS // -(-num_entities // mesh.shape.entities))
        loss, query_gradient = query.new_zeros(()), torch.empty_like(query)
        candidate_gradient = torch.zeros_like(candidates)
        for start in range(0, batch, rows):
            part = slice(start, start + rows)
            own, leaf = query[part].detach().requires_grad_(), candidates.detach().requires_grad_()
            with torch.enable_grad(), loss_parallel():
                vectors = DTensor.from_local(own, shards, [Replicate()], run_check=False)
                logits = vectors @ mesh.copy_of_table(leaf, num_entities).T
                cross = functional.cross_entropy(logits, target[part], reduction="sum")
                query_gradient[part], gradient = torch.autograd.grad(cross, [own, leaf])
            loss += cast(DTensor, cross.detach()).to_local()
            candidate_gradient += gradient
        ctx.save_for_backward(query_gradient / batch, candidate_gradient.div_(batch))
        return loss / batch

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        query, candidates = ctx.saved_tensors
        return query * upstream, candidates * upstream, None, None, None
