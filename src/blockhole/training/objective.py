"""The loss of one batch as a function of a model: scores, negatives and penalties put together."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.func import functional_call

from blockhole.models.bilinear import BlockBilinear
from blockhole.models.contract import Model, rows
from blockhole.training import losses
from blockhole.training.config import LossConfig, PenaltyConfig
from blockhole.training.contrast import Contrast, WholeTable
from blockhole.training.negatives import ALL_ENTITIES, Negatives
from blockhole.training.penalties import cubed_norm, squared_norm, summed_norm
from blockhole.training.relation_prediction import relation_loss


@final
class Objective(nn.Module):
    """Mean loss per positive, penalty included; a module so that its model's parameters can be swapped for a call.

    An engine swaps the entity table for the few rows a batch touches (`on_rows`); ids then count in those. Where they
    are the rows of sources and targets alone, `contrast` says what these are contrasted with.
    """

    def __init__(self, model: Model, loss: LossConfig, penalty: PenaltyConfig) -> None:
        super().__init__()
        self.model = model
        self._loss = loss
        self._penalty = penalty
        self._parts = model.geometry.parts if isinstance(model, BlockBilinear) else 1
        self._whole = WholeTable(model)

    def forward(
        self,
        source: Tensor,
        path: Tensor,
        target: Tensor,
        negatives: Negatives,
        contrast: Contrast | None = None,
        kept: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """source [batch], path [batch, hop], target [batch] and the batch's negatives → [].

        `kept` [batch, width], if given, is multiplied with the query vectors before they meet candidates (dropout);
        `weight` [batch], if given, with the losses of the objects.
        """
        query = self.model.embed_paths(source, path)
        asked = query if kept is None else query * kept
        if self._loss.kind == "logistic":
            loss = self._logistic(source, target, asked, negatives, contrast or self._whole)
        else:
            loss = self._softmax(source, target, asked, negatives, contrast or self._whole, weight)
        if self._loss.relation_weight and path.shape[1] == 1 and isinstance(self.model, BlockBilinear):
            loss = loss + self._loss.relation_weight * relation_loss(self.model, source, path[:, 0], target)
        return loss + self._penalties(source, path, target, query)

    def on_rows(
        self,
        entity: Tensor,
        source: Tensor,
        path: Tensor,
        target: Tensor,
        negatives: Negatives,
        *,
        contrast: Contrast | None = None,
        kept: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """`forward` with `entity` [count, width] in place of the model's table."""
        arguments = (source, path, target, negatives, contrast, kept, weight)
        loss: Tensor = functional_call(self, {"model.entity": entity}, arguments, strict=False)
        return loss

    def _logistic(
        self, source: Tensor, target: Tensor, query: Tensor, negatives: Negatives, contrast: Contrast
    ) -> Tensor:
        """The paper's loss over the true answer, the drawn objects and the corrupted paths."""
        answer = self.model.candidates(target)
        scores = contrast.object_scores(query, negatives)
        counted = torch.ones_like(scores, dtype=torch.bool)
        if self._loss.mask_known_answers:
            counted[negatives.excluded.row, negatives.excluded.column] = False
        if negatives.paths is not None and negatives.false is not None:
            scores = torch.cat((scores, self._corrupted_scores(source, answer, negatives.paths)), dim=1)
            counted = torch.cat((counted, negatives.false), dim=1)
        weight = None
        if self._loss.self_adversarial:
            weight = losses.self_adversarial_weights(scores, counted, self._loss.self_adversarial)
        elif self._loss.mask_known_answers or self._loss.corrupted_paths:
            weight = counted.to(scores.dtype)
        shift = self._loss.shift
        return losses.logistic_loss((query * answer).sum(dim=1) - shift, scores - shift, weight)

    def _softmax(
        self,
        source: Tensor,
        target: Tensor,
        query: Tensor,
        negatives: Negatives,
        contrast: Contrast,
        weight: Tensor | None,
    ) -> Tensor:
        """Cross entropy over all entities or a sample of them, corrupted paths as further rivals."""
        if negatives is ALL_ENTITIES:
            return contrast.full_softmax(query, target, weight)
        answer = self.model.candidates(target)
        own = (query * answer).sum(dim=1, keepdim=True)
        if negatives.paths is not None and negatives.false is not None:
            corrupted = self._corrupted_scores(source, answer, negatives.paths)
            own = torch.cat((own, corrupted.masked_fill(~negatives.false, -torch.inf)), dim=1)
        return contrast.shared_softmax(own, query, negatives, weight)

    def _corrupted_scores(self, source: Tensor, answer: Tensor, paths: Tensor) -> Tensor:
        """φ(s, p', o): source [batch], answer [batch, width], paths [batch, count, hop] → [batch, count]."""
        batch, count, _ = paths.shape
        query = self.model.embed_paths(source.repeat_interleave(count), paths.flatten(0, 1))
        return torch.einsum("bcw,bw->bc", query.view(batch, count, -1), answer)

    def _penalties(self, source: Tensor, path: Tensor, target: Tensor, query: Tensor) -> Tensor:
        """λ₂ Σ‖x‖² + λ₃ Σ‖x‖₃³ over e_s, every W_r of the path and e_o, and λ_D (‖e_s‖² + ‖q‖² + ‖e_o‖²) + λ_B ‖q'‖².

        q = e_s W_{r1} … W_{rk} is the source moved along the path, q' = W_{r1} … W_{rk} ē_o the target moved back.
        """
        penalty, batch = query.new_zeros(()), len(query)
        weights = self._penalty
        if not (weights.l2 or weights.n3 or weights.dura or weights.dura_back):
            return penalty
        ids = torch.cat((source, target))
        if weights.dura:
            penalty = penalty + weights.dura * (squared_norm(rows(self.model.entity, ids)) + squared_norm(query))
        if weights.dura_back and isinstance(self.model, BlockBilinear):
            penalty = penalty + weights.dura_back * squared_norm(self.model.retrace(target, path))
        if weights.l2:
            relations = path.flatten() % len(self.model.relation)  # of r for r⁻¹ when tied
            norm = summed_norm(self.model.entity, ids) + summed_norm(self.model.relation, relations)
            penalty = penalty + weights.l2 * norm
        if weights.n3:
            ends, relations = rows(self.model.entity, ids), self.model.relation_rows(path.flatten())
            penalty = penalty + weights.n3 * (cubed_norm(ends, self._parts) + cubed_norm(relations, self._parts))
        return penalty / batch
