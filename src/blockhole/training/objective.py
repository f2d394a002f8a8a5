"""The objective of one batch as a function of a model: loss, further losses and penalties put together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from blockhole.compiled import triton_installed
from blockhole.errors import BlockholeWarning
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model, rows
from blockhole.queries.bodies import Bodies, Body
from blockhole.runs.config import LossConfig, PenaltyConfig, TrainConfig
from blockhole.training.losses import LOSSES, Rivals, ScoreLoss
from blockhole.training.negatives import ALL_ENTITIES, Negatives


@final
class Objective(nn.Module):
    """Mean loss per positive, penalty included; a module so that its model's parameters can be swapped for a call.

    A stepper swaps the entity table for the few rows a batch touches (`on_rows`); ids then count in those. Where they
    are the rows of sources and targets alone, `contrast` says what these are contrasted with. With `share_queries`
    edges of one query that stand beside each other are contrasted with all entities as one, on a CPU. Several `members`
    divide the frequencies of a model, which never meet in a hop, among them: each has a loss of its own, as if it
    were trained alone, and the objective is their mean.
    """

    def __init__(
        self,
        model: Model,
        loss: LossConfig,
        penalty: PenaltyConfig,
        rules: PathRules | None = None,
        *,
        share_queries: bool = False,
        members: int = 1,
    ) -> None:
        super().__init__()
        self._rules = rules if penalty.rules else None
        self.model = model
        self._loss = loss
        self._kind = LOSSES[loss.kind]
        self._penalty = penalty
        self._members = members
        self._parts = 1 if model.geometry is None else model.geometry.parts
        self._whole = WholeTable(model)
        # Which edges ask the same is read back from the device, for which a GPU would have to wait.
        self._shares = share_queries and self._kind.objects == "all" and model.entity.device.type == "cpu"

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
        contrast = contrast or self._whole
        if self._shares and negatives is ALL_ENTITIES and kept is None and path.shape[1] == 1:
            loss, query = self._shared(source, path, contrast.rivals(negatives, target), weight)
        else:
            query = self.model.embed_paths(source, path)
            asked = query if kept is None else query * kept
            loss = self._contrasted(source, target, asked, negatives, contrast, weight)
        if self._loss.relation_weight and path.shape[1] == 1 and self.model.has_matrices:
            found = relation_loss(self.model, source, path[:, 0], target, self._members)
            loss = loss + self._loss.relation_weight * found
        penalty = self._penalties(source, path, target, query)
        if self._rules is not None:
            penalty = penalty + self._penalty.rules * rule_distance(self.model, self._rules)
        return loss + penalty / self._members

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

    def _shared(self, source: Tensor, path: Tensor, rivals: Rivals, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """The loss of edges over all entities, each run of equal (s, r, ?) scored once; and queries [batch, width].

        Σ_o (logsumexp - φ(s, r, o)) over the answers of a run is count · logsumexp - Σ_o φ: the same loss.
        """
        pair = source * 2 * self.model.num_relations + path[:, 0]
        _, asked, count = torch.unique_consecutive(pair, return_inverse=True, return_counts=True)
        first = count.cumsum(0) - count
        query = self.model.embed_paths(source[first], path[first])
        loss = self._rivalled(query.new_zeros(0, query.shape[1]), query, replace(rivals, asked=asked), weight)
        return loss, query.index_select(0, asked)

    def _contrasted(
        self,
        source: Tensor,
        target: Tensor,
        query: Tensor,
        negatives: Negatives,
        contrast: Contrast,
        weight: Tensor | None,
    ) -> Tensor:
        """The loss over the true answers, the objects they are contrasted with, and corrupted paths."""
        answer = self.model.candidates(target)
        if isinstance(self._kind, ScoreLoss):
            scores, counted = contrast.object_scores(query, negatives), self._counted(negatives)
            if negatives.paths is not None:
                scores = torch.cat((scores, self._corrupted_scores(source, answer, negatives.paths)), dim=1)
            return self._kind.formula((query * answer).sum(dim=1), scores, counted, self._loss)
        if self._members > 1:
            return self._rivalled(query * answer, query, contrast.rivals(negatives, target), weight)
        own = (query * answer).sum(dim=1, keepdim=True)
        if negatives.paths is not None and negatives.false is not None:
            corrupted = self._corrupted_scores(source, answer, negatives.paths)
            own = torch.cat((own, corrupted.masked_fill(~negatives.false, -torch.inf)), dim=1)
        return self._kind.formula(own, query, contrast.rivals(negatives, target), weight)

    def _rivalled(self, product: Tensor, query: Tensor, rivals: Rivals, weight: Tensor | None) -> Tensor:
        """The mean loss of the members, each of which sees its own coordinates of queries, rivals and q·answer."""
        assert not isinstance(self._kind, ScoreLoss)
        parts = zip(*(self._split(vectors) for vectors in (product, query, rivals.vectors)), strict=True)
        losses = [
            self._kind.formula(own.sum(dim=1, keepdim=True), asked, replace(rivals, vectors=vectors), weight)
            for own, asked, vectors in parts
        ]
        return torch.stack(losses).mean()

    def _split(self, vectors: Tensor) -> Sequence[Tensor]:
        """The coordinates of each member: [count, width] → members of [count, width / members]."""
        if self._members == 1:
            return (vectors,)
        assert self.model.geometry is not None
        by_freq = vectors.view(len(vectors), *self.model.geometry.entity_shape)
        return [part.flatten(1) for part in by_freq.chunk(self._members, dim=-1)]

    def _counted(self, negatives: Negatives) -> Tensor | None:
        """Which objects, and after them which corrupted paths, count as negatives; absent where all do."""
        masked, false = self._loss.mask_known_answers, negatives.false
        if negatives.objects is None or not (masked or false is not None):
            return None
        counted = torch.ones_like(negatives.objects, dtype=torch.bool)
        if masked:
            cells = negatives.excluded.pairs()
            counted[cells.row, cells.column] = False
        return counted if false is None else torch.cat((counted, false), dim=1)

    def _corrupted_scores(self, source: Tensor, answer: Tensor, paths: Tensor) -> Tensor:
        """φ(s, p', o): source [batch], answer [batch, width], paths [batch, count, hop] → [batch, count]."""
        batch, count, _ = paths.shape
        query = self.model.embed_paths(source.repeat_interleave(count), paths.flatten(0, 1))
        return torch.einsum("bcw,bw->bc", query.view(batch, count, -1), answer)

    def _penalties(self, source: Tensor, path: Tensor, target: Tensor, query: Tensor) -> Tensor:
        """λ₂ Σ‖x‖² + λ₃ Σ‖x‖₃³ over e_s, every W_r of the path and e_o, and λ_D (‖e_s‖² + ‖q‖² + ‖e_o‖²) + λ_B ‖q'‖².

        And what makes relations sparse: λ_× Σ |Re w| |Im w| and λ_G Σ ‖w^(ij)‖ over every W_r of the path.
        q = e_s W_{r1} … W_{rk} is the source moved along the path, q' = W_{r1} … W_{rk} ē_o the target moved back.
        """
        penalty, batch = query.new_zeros(()), len(query)
        weights = self._penalty
        if not any((weights.l2, weights.n3, weights.dura, weights.dura_back, weights.l1_product, weights.l1_blocks)):
            return penalty
        ids = torch.cat((source, target))
        if weights.dura:
            penalty = penalty + weights.dura * (squared_norm(rows(self.model.entity, ids)) + squared_norm(query))
        if weights.dura_back and self.model.has_matrices:
            penalty = penalty + weights.dura_back * squared_norm(self.model.retrace(target, path))
        if weights.l2:
            relations = path.flatten() % len(self.model.relation)  # of r for r⁻¹ when tied
            norm = summed_norm(self.model.entity, ids) + summed_norm(self.model.relation, relations)
            penalty = penalty + weights.l2 * norm
        if weights.n3:
            ends, relations = rows(self.model.entity, ids), self.model.relation_rows(path.flatten())
            penalty = penalty + weights.n3 * (cubed_norm(ends, self._parts) + cubed_norm(relations, self._parts))
        geometry, table = self.model.geometry, self.model.relation
        if geometry is not None and (weights.l1_product or weights.l1_blocks):
            times = occurrences(table, path.flatten() % len(table))
            own = table.view(len(table), *geometry.relation_shape)
            if weights.l1_product and geometry.parts == 2:
                penalty = penalty + weights.l1_product * (times @ multiplicative_l1(own))
            if weights.l1_blocks:
                penalty = penalty + weights.l1_blocks * (times @ block_norms(own))
        return penalty / batch


def build_objective(
    model: Model, config: TrainConfig, graph: KnowledgeGraph, *, share_queries: bool = False
) -> Objective:
    """The objective that a run's settings describe, for a training on a graph."""
    rules = PathRules.of(graph, model.entity.device) if config.penalty.rules else None
    if rules is not None and not any(map(len, rules.head)):
        warnings.warn(
            "penalty.rules draws nothing together: the train facts follow no rule with a PCA confidence of "
            f"{_LEAST} and a support of {_SUPPORT}.",
            BlockholeWarning,
            stacklevel=2,
        )
    members = config.training.members
    return Objective(model, config.loss, config.penalty, rules, share_queries=share_queries, members=members)


# Where the candidates are that queries are contrasted with: in one table, or in parts that other processes hold.


class Contrast(Protocol):
    """What the objective asks of the entity table beyond the rows of sources and targets."""

    def object_scores(self, query: Tensor, negatives: Negatives) -> Tensor:
        """⟨q, c⟩ of the objects drawn for each positive: query [batch, width] → [batch, count]."""

    def rivals(self, negatives: Negatives, target: Tensor) -> Rivals:
        """The objects that a batch shares, or all entities; `target` [batch] counts in the table that is swapped in."""


@final
class WholeTable:
    """The table that the model itself holds; ids count in it. Contrast."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._reads_rows = model.geometry is not None  # candidates are then the rows as they are stored

    def object_scores(self, query: Tensor, negatives: Negatives) -> Tensor:
        """See Contrast."""
        assert negatives.objects is not None
        if self._reads_rows and query.is_cuda and query.dtype == torch.float32 and triton_installed():
            from blockhole.training.kernels.triton_kernels import object_scores

            return object_scores(query, self._model.entity, negatives.objects)
        objects = self._model.candidates(negatives.objects.flatten()).view(*negatives.objects.shape, -1)
        return torch.einsum("bw,bnw->bn", query, objects)

    def rivals(self, negatives: Negatives, target: Tensor) -> Rivals:
        """See Contrast."""
        answers = target if negatives is ALL_ENTITIES else None
        vectors = self._model.candidates(negatives.objects)
        return Rivals(vectors, negatives.excluded, negatives.log_weight, answers)


@final
@dataclass(frozen=True, slots=True)
class AllRows:
    """All rows of a table that stands beside the rows of sources and targets; `answers` [batch] count in it. Contrast.

    Candidates are the rows as they are stored.
    """

    table: Tensor
    answers: Tensor

    def object_scores(self, query: Tensor, negatives: Negatives) -> Tensor:
        """See Contrast."""
        assert negatives.objects is not None
        return torch.einsum("bw,bnw->bn", query, self.table[negatives.objects])

    def rivals(self, negatives: Negatives, target: Tensor) -> Rivals:
        """See Contrast."""
        return Rivals(self.table, negatives.excluded, answers=self.answers)


# What large parameters cost: λ times a norm of what a positive touches, averaged over the batch.


def dura_weight(per_entity: float, positives_per_entity: float) -> float:
    """The weight per positive of a prior with this strength per entity, 0.02 at most.

    The more positives speak for an entity, the less each has to carry: a weight that serves a sparse graph wipes out a
    dense one. Weights beyond 0.02 help some graphs (WN11 up to 0.1) and ruin others (FB13), so they have to be named.
    """
    return min(0.02, per_entity / positives_per_entity)


_FLAT = 1e-12


def squared_norm(vectors: Tensor) -> Tensor:
    """Σ ‖x‖² over the rows: [count, width] → []."""
    return vectors.square().sum()


def summed_norm(table: Tensor, index: Tensor) -> Tensor:
    """Σ_i ‖table[index_i]‖², each row times how often it occurs, so that none is copied: [count, width], [n] → []."""
    return occurrences(table, index) @ table.square().sum(dim=1)


def occurrences(table: Tensor, index: Tensor) -> Tensor:
    """How often each row of a table occurs: [count, …], [n] → [count]."""
    return table.new_zeros(len(table)).index_add_(0, index, table.new_ones(len(index)))


def multiplicative_l1(relation: Tensor) -> Tensor:
    """Σ |Re w| |Im w| of each relation (Manabe, Hayashi and Shimbo 2018): [count, 2, i, j, freq] → [count].

    It costs nothing where one of the two parts is 0: a symmetric relation needs no imaginary parts, an antisymmetric
    one no real ones, and which it is, the facts decide.
    """
    re, im = relation.unbind(dim=1)
    return (re.abs() * im.abs()).flatten(1).sum(dim=1)


def block_norms(relation: Tensor) -> Tensor:
    """Σ_ij ‖w^(ij)‖ of each relation, a group lasso over blocks: [count, part, i, j, freq] → [count]."""
    # A norm has no derivative at 0; one that is a little larger has.
    return relation.square().sum(dim=(1, 4)).add(_FLAT).sqrt().flatten(1).sum(dim=1)


def cubed_norm(vectors: Tensor, parts: int) -> Tensor:
    """Σ ‖x‖₃³ over the rows, with the modulus of complex numbers: [count, width] → [].

    A row of `parts` = 2 holds real parts, then imaginary parts (Lacroix et al. 2018, N3).
    """
    if parts == 1:
        return vectors.abs().pow(3).sum()
    # |z|³ = (|z|²)^{3/2}: its derivative is finite at 0, where that of |z| is not.
    return vectors.reshape(len(vectors), parts, -1).square().sum(dim=1).pow(1.5).sum()


# Rules that relations are drawn towards: a head's matrix should be the product of its body's.


@final
@dataclass(frozen=True, slots=True)
class PathRules:
    """Rules with bodies of one hop and of two, by length: body [K, length], head [K], and their weight [K]."""

    body: tuple[Tensor, ...]
    head: tuple[Tensor, ...]
    weight: tuple[Tensor, ...]

    @classmethod
    def of(cls, graph: KnowledgeGraph, device: torch.device) -> PathRules:
        """The rules of a graph with the highest PCA confidence times the logarithm of their support, at most 256."""
        bodies = Bodies(graph)
        found: list[tuple[float, Body, int, float]] = []
        arrays = [some for length in (1, 2) for some in bodies.with_ways(length, _SUPPORT)]
        listed: list[Body] = [tuple(body) for some in arrays for body in some.tolist()]
        for counts in bodies.counted(listed):
            share = counts.right / np.maximum(counts.of_subjects, 1)
            enough = counts.right >= _SUPPORT * counts.share[:, None]
            for row, head in np.argwhere(enough & (share >= _LEAST)).tolist():
                if counts.bodies[row] != (head,):
                    worth = share[row, head] * np.log(counts.right[row, head] / counts.share[row])
                    found.append((float(worth), counts.bodies[row], head, float(share[row, head])))
        best = sorted(found, key=lambda rule: (-rule[0], rule[1], rule[2]))[:_MOST_RULES]
        parts = [[rule for rule in best if len(rule[1]) == length] for length in (1, 2)]
        return cls(
            tuple(
                torch.tensor([rule[1] for rule in part], dtype=torch.int64, device=device).view(-1, length)
                for length, part in enumerate(parts, start=1)
            ),
            tuple(torch.tensor([rule[2] for rule in part], dtype=torch.int64, device=device) for part in parts),
            tuple(torch.tensor([rule[3] for rule in part], dtype=torch.float32, device=device) for part in parts),
        )


_MOST_RULES = 256
_SUPPORT = 10
_LEAST = 0.5


def rule_distance(model: Model, rules: PathRules) -> Tensor:
    """The mean of  c ‖W_r - W_{r1} … W_{rk}‖²  over rules with PCA confidence c: → []."""
    total, count = model.relation.new_zeros(()), 0
    for body, head, weight in zip(rules.body, rules.head, rules.weight, strict=True):
        if len(head):
            distance = (model.path_operator(body) - model.path_operator(head[:, None])).flatten(1).square().sum(dim=1)
            total, count = total + weight.to(distance) @ distance, count + len(head)
    return total / max(count, 1)


# Predicting the relation of an edge from its two ends, as a further loss.


def relation_loss(model: Model, source: Tensor, relation: Tensor, target: Tensor, members: int = 1) -> Tensor:
    """The mean of  log Σ_r' exp φ(s, r', o) - φ(s, r, o), over all relations and their inverses (Chen et al. 2021).

    Shapes: source, relation, target [batch] → []; the mean over `members` too, each with scores of its own.
    """
    scores = model.score_relations(source, target, members)
    return functional.cross_entropy(scores.flatten(0, 1), relation.repeat(members))


# How much the loss of a positive weighs, by how often the train graph names its target.


def target_weights(graph: KnowledgeGraph, rare: float, device: torch.device) -> Tensor | None:
    """w(o) = rare + (1 - rare) · count(o) / max count, with count(o) the facts that o is an end of: [E], at most 1.

    Few facts fix the row of a rare target, and are fitted by heart: a smaller weight leaves more of that row to the
    penalty, which all positives carry alike (Zhang et al. 2020 train so, with rare = 0.1). Absent where rare is 1.
    """
    if rare == 1:
        return None
    count = np.bincount(graph.triples[:, [0, 2]].ravel(), minlength=graph.num_entities)
    weight: NDArray[np.float32] = (rare + (1 - rare) * count / count.max()).astype(np.float32)
    return torch.from_numpy(weight).to(device)
