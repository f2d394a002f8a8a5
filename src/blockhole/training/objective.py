"""The loss of one batch as a function of a model: scores, negatives and penalties put together."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.contract import Model, rows
from blockhole.training import losses
from blockhole.training.config import LossConfig, PenaltyConfig
from blockhole.training.kernels import softmax
from blockhole.training.negatives import ALL_ENTITIES, Negatives
from blockhole.training.penalties import cubed_norm, squared_norm


@final
class Objective(nn.Module):
    """Mean loss per positive, penalty included; a module so that its model's parameters can be swapped for a call.

    The engine swaps the entity table for the few rows a batch touches; ids given to `forward` count in that table.
    """

    def __init__(self, model: Model, loss: LossConfig, penalty: PenaltyConfig) -> None:
        super().__init__()
        self.model = model
        self._loss = loss
        self._penalty = penalty
        self._parts = model.geometry.parts if isinstance(model, BlockBilinear) else 1

    def forward(self, source: Tensor, path: Tensor, target: Tensor, negatives: Negatives) -> Tensor:
        """source [batch], path [batch, hop], target [batch] and the batch's negatives → []."""
        query = self.model.embed_paths(source, path)
        if self._loss.kind == "logistic":
            loss = self._logistic(source, target, query, negatives)
        else:
            loss = self._softmax(source, target, query, negatives)
        return loss + self._penalties(source, path, target, query)

    def _logistic(self, source: Tensor, target: Tensor, query: Tensor, negatives: Negatives) -> Tensor:
        """The paper's loss over the true answer, the drawn objects and the corrupted paths."""
        assert negatives.objects is not None
        answer = self.model.candidates(target)
        objects = self.model.candidates(negatives.objects.flatten()).view(*negatives.objects.shape, -1)
        scores = torch.einsum("bw,bnw->bn", query, objects)
        counted = torch.ones_like(scores, dtype=torch.bool)
        counted[negatives.excluded.row, negatives.excluded.column] = False
        if negatives.paths is not None and negatives.false is not None:
            scores = torch.cat((scores, self._corrupted_scores(source, answer, negatives.paths)), dim=1)
            counted = torch.cat((counted, negatives.false), dim=1)
        weight = None
        if self._loss.self_adversarial:
            weight = losses.self_adversarial_weights(scores, counted, self._loss.self_adversarial)
        elif self._loss.mask_known_answers or self._loss.corrupted_paths:
            weight = counted.to(scores.dtype)
        return losses.logistic_loss((query * answer).sum(dim=1), scores, weight)

    def _softmax(self, source: Tensor, target: Tensor, query: Tensor, negatives: Negatives) -> Tensor:
        """Cross entropy over all entities or a sample of them, corrupted paths as further rivals."""
        if negatives is ALL_ENTITIES:
            return softmax.softmax_loss(query, self.model.candidates(), target)
        answer = self.model.candidates(target)
        own = (query * answer).sum(dim=1, keepdim=True)
        if negatives.paths is not None and negatives.false is not None:
            corrupted = self._corrupted_scores(source, answer, negatives.paths)
            own = torch.cat((own, corrupted.masked_fill(~negatives.false, -torch.inf)), dim=1)
        rivals = self.model.candidates(negatives.objects)
        log_weight = query.new_zeros(len(rivals)) if negatives.log_weight is None else negatives.log_weight.to(query)
        return losses.softmax_loss(own, query, rivals, log_weight, negatives.excluded)

    def _corrupted_scores(self, source: Tensor, answer: Tensor, paths: Tensor) -> Tensor:
        """φ(s, p', o): source [batch], answer [batch, width], paths [batch, count, hop] → [batch, count]."""
        batch, count, _ = paths.shape
        query = self.model.embed_paths(source.repeat_interleave(count), paths.flatten(0, 1))
        return torch.einsum("bcw,bw->bc", query.view(batch, count, -1), answer)

    def _penalties(self, source: Tensor, path: Tensor, target: Tensor, query: Tensor) -> Tensor:
        """λ₂ Σ‖x‖² + λ₃ Σ‖x‖₃³ over e_s, every W_r of the path and e_o, and λ_D (‖e_s‖² + ‖q‖² + ‖e_o‖²)."""
        penalty, batch = query.new_zeros(()), len(query)
        weights = self._penalty
        if not (weights.l2 or weights.n3 or weights.dura):
            return penalty
        ends = rows(self.model.entity, torch.cat((source, target)))
        if weights.dura:
            penalty = penalty + weights.dura * (squared_norm(ends) + squared_norm(query))
        if weights.l2 or weights.n3:
            relations = self.model.relation_rows(path.flatten())
            if weights.l2:
                penalty = penalty + weights.l2 * (squared_norm(ends) + squared_norm(relations))
            if weights.n3:
                norm = cubed_norm(ends, self._parts) + cubed_norm(relations, self._parts)
                penalty = penalty + weights.n3 * norm
        return penalty / batch
