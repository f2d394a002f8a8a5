"""Where the candidates are that queries are contrasted with: in one table, or in parts that other processes hold."""

from __future__ import annotations

from typing import Protocol, final

import torch
from torch import Tensor

from blockhole.compiled import triton_installed
from blockhole.models.bilinear import BlockBilinear
from blockhole.models.contract import Model
from blockhole.training import losses
from blockhole.training.kernels import softmax
from blockhole.training.negatives import Negatives


class Contrast(Protocol):
    """What the objective asks of the entity table beyond the rows of sources and targets."""

    def object_scores(self, query: Tensor, negatives: Negatives) -> Tensor:
        """⟨q, c⟩ of the objects drawn for each positive: query [batch, width] → [batch, count]."""

    def shared_softmax(self, own: Tensor, query: Tensor, negatives: Negatives, weight: Tensor | None) -> Tensor:
        """`losses.softmax_loss` beside the objects that a batch shares, or all entities: own [batch, 1 + x] → []."""

    def full_softmax(self, query: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """The mean of w (logsumexp_e⟨q, c_e⟩ - ⟨q, c_t⟩) over all entities.

        Shapes: query [batch, width], target [batch], weight [batch] (absent: 1) → [].
        """


@final
class WholeTable:
    """The table that the model itself holds; ids count in it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._reads_rows = isinstance(model, BlockBilinear)  # whose candidates are the rows as they are stored

    def object_scores(self, query: Tensor, negatives: Negatives) -> Tensor:
        """See Contrast."""
        assert negatives.objects is not None
        if self._reads_rows and query.is_cuda and query.dtype == torch.float32 and triton_installed():
            from blockhole.training.kernels.scores_triton import object_scores

            return object_scores(query, self._model.entity, negatives.objects)
        objects = self._model.candidates(negatives.objects.flatten()).view(*negatives.objects.shape, -1)
        return torch.einsum("bw,bnw->bn", query, objects)

    def shared_softmax(self, own: Tensor, query: Tensor, negatives: Negatives, weight: Tensor | None) -> Tensor:
        """See Contrast."""
        rivals = self._model.candidates(negatives.objects)
        log_weight = query.new_zeros(len(rivals)) if negatives.log_weight is None else negatives.log_weight.to(query)
        return losses.softmax_loss(own, query, rivals, log_weight, negatives.excluded, weight=weight)

    def full_softmax(self, query: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """See Contrast."""
        return softmax.softmax_loss(query, self._model.candidates(), target, weight)
