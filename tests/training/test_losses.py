"""Losses and penalties against plain definitions, and gradients against finite differences."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from blockhole.runs.config import LossConfig, LossKind
from blockhole.training import losses
from blockhole.training.losses import (
    LOSSES,
    Pairs,
    Rivals,
    logistic,
    logistic_loss,
    self_adversarial_weights,
    shared_softmax,
)
from blockhole.training.objective import cubed_norm, dura_weight, squared_norm


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def no_pairs() -> Pairs:
    return Pairs(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))


def test_every_loss_of_the_settings_is_declared() -> None:
    assert set(LOSSES) == set(get_args(LossKind))


def test_the_logistic_loss_weighs_by_score_what_counts() -> None:
    positive, negative = torch.tensor([0.5]), torch.tensor([[1.0, 2.0]])
    counted = torch.tensor([[True, False]])
    plain, sharp = LossConfig(), LossConfig(self_adversarial=0.5)
    first = math.log(1 + math.exp(-0.5)) + math.log(1 + math.e)
    assert logistic(positive, negative, counted, plain).item() == pytest.approx(first)
    assert logistic(positive, negative, counted, sharp).item() == pytest.approx(first)  # one negative weighs 1
    both = logistic_loss(positive, negative, self_adversarial_weights(negative, torch.ones(1, 2).bool(), 0.5))
    assert logistic(positive, negative, None, sharp).item() == both.item()


def test_logistic_loss_by_hand() -> None:
    loss = logistic_loss(torch.tensor([0.0, 2.0]), torch.tensor([[1.0, -1.0], [0.0, 0.0]]))
    first = math.log(2) + math.log(1 + math.e) + math.log(1 + math.exp(-1))
    second = math.log(1 + math.exp(-2)) + 2 * math.log(2)
    assert loss.item() == pytest.approx((first + second) / 2)


def test_a_weight_of_zero_leaves_a_negative_out() -> None:
    negative = torch.tensor([[1.0, math.inf]])
    assert logistic_loss(torch.zeros(1), negative, torch.tensor([[1.0, 0.0]])).item() == pytest.approx(
        math.log(2) + math.log(1 + math.e)
    )


@pytest.mark.parametrize(("true", "false"), [(1, 1), (3, 1), (1, 4)])
def test_balanced_scores_are_log_odds_among_as_many_positives_as_negatives(true: int, false: int) -> None:
    """A query that is `true` times a positive and `false` times among their negatives, n for each positive: the loss
    of all that is least where φ = log(true / (false / n)).
    """
    loss = LossConfig(negatives=2, corrupted_paths=2, balanced=True)
    n = loss.negatives + loss.corrupted_paths
    score = torch.tensor(math.log(true * n / false), requires_grad=True)
    weight = torch.zeros(true, n)  # the negatives that do not count here are other queries
    weight[0, :false] = 1
    lowered = score - loss.shift
    (gradient,) = torch.autograd.grad(logistic_loss(lowered.expand(true), lowered.expand(true, n), weight), score)
    assert abs(gradient.item()) < 1e-6


def test_self_adversarial_weights() -> None:
    negative, counted = torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[True, True, False]])
    weight = self_adversarial_weights(negative, counted, temperature=0.5)
    hard = math.exp(1.0) / (math.exp(0.5) + math.exp(1.0))
    torch.testing.assert_close(weight, torch.tensor([[2 * (1 - hard), 2 * hard, 0.0]]))
    plain = self_adversarial_weights(negative, torch.ones(1, 3, dtype=torch.bool), temperature=0.0)
    torch.testing.assert_close(plain, torch.ones(1, 3))


def test_self_adversarial_weights_of_no_negatives_are_zero() -> None:
    assert self_adversarial_weights(torch.ones(1, 2), torch.zeros(1, 2, dtype=torch.bool), 1.0).tolist() == [[0.0, 0.0]]


def brute_force(
    own: Tensor, query: Tensor, rivals: Tensor, log_weight: Tensor, excluded: Pairs, weight: Tensor | None
) -> Tensor:
    """The definition, one row after the other."""
    left_out = set(zip(excluded.row.tolist(), excluded.column.tolist(), strict=True))
    total = query.new_zeros(())
    for row in range(len(query)):
        rest = [
            log_weight[column].exp() * (query[row] @ rivals[column]).exp()
            for column in range(len(rivals))
            if (row, column) not in left_out
        ]
        cross_entropy = torch.stack([*own[row].exp(), *rest]).sum().log() - own[row, 0]
        total = total + (cross_entropy if weight is None else weight[row] * cross_entropy)
    return total / len(query)


@pytest.mark.parametrize("chunk_logits", [1, 8, 2**20])
@pytest.mark.parametrize("extra", [0, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_softmax_and_its_gradients(
    chunk_logits: int, extra: int, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "CHUNK_LOGITS", chunk_logits)
    inputs = (draw(5, 1 + extra, seed=1), draw(5, 4, seed=2), draw(7, 4, seed=3))
    for tensor in inputs:
        tensor.requires_grad_()
    log_weight = draw(7, seed=4)
    excluded = Pairs(torch.tensor([0, 0, 3, 4]), torch.tensor([1, 6, 3, 0]))
    weight = draw(5, seed=5).abs() if weighted else None
    own, query, rivals = inputs
    ours = shared_softmax(own, query, Rivals(rivals, excluded, log_weight), weight)
    theirs = brute_force(*inputs, log_weight, excluded, weight)
    torch.testing.assert_close(ours, theirs)
    for mine, expected in zip(
        torch.autograd.grad(3 * ours, inputs), torch.autograd.grad(3 * theirs, inputs), strict=True
    ):
        torch.testing.assert_close(mine, expected)


def test_the_softmax_survives_large_scores() -> None:
    own, rivals = torch.tensor([[1000.0]]), torch.tensor([[1000.0], [-1000.0]])
    loss = shared_softmax(own, torch.tensor([[1.0]]), Rivals(rivals, no_pairs()))
    assert loss.item() == pytest.approx(math.log(2), abs=1e-4)  # float32 holds 1000.69 to 6e-5


def test_rivals_that_are_all_excluded_cost_nothing() -> None:
    every = Pairs(torch.tensor([0, 0]), torch.tensor([0, 1]))
    query = draw(1, 3).requires_grad_()
    loss = shared_softmax(draw(1, 1), query, Rivals(draw(2, 3), every))
    assert loss.item() == 0
    assert torch.autograd.grad(loss, query)[0].abs().max().item() == 0


def test_norms_by_hand() -> None:
    vectors = torch.tensor([[3.0, 0.0, 4.0, -1.0]])
    assert squared_norm(vectors).item() == 26
    assert cubed_norm(vectors, parts=1).item() == pytest.approx(27 + 64 + 1)
    assert cubed_norm(vectors, parts=2).item() == pytest.approx(5**3 + 1)


@pytest.mark.parametrize("parts", [1, 2])
def test_cubed_norm_gradient(parts: int) -> None:
    vectors = draw(3, 4)
    vectors[0] = 0  # the modulus itself has no derivative there, its cube has
    vectors.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: cubed_norm(v, parts), vectors)


def test_a_prior_weighs_less_per_positive_on_dense_graphs() -> None:
    assert dura_weight(6.0, positives_per_entity=600.0) == pytest.approx(0.01)
    assert dura_weight(6.0, positives_per_entity=6.0) == 0.02
    assert dura_weight(0.0, positives_per_entity=6.0) == 0.0
