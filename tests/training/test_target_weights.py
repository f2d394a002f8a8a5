"""Weights of positives by how often their target occurs: by hand, and in a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.training.batches import Batch
from blockhole.training.losses import Pairs
from blockhole.training.negatives import ALL_ENTITIES, Negatives, NegativeSampler
from blockhole.training.objective import Objective, target_weights
from blockhole.training.steppers import AutogradStepper

from .worlds import config, random_split, tiny_model

SPLIT = random_split()
CPU = torch.device("cpu")
KINDS: dict[str, dict[str, Any]] = {
    "all entities": {"loss__kind": "softmax"},
    "known answers masked": {"loss__kind": "softmax", "loss__mask_known_answers": True},
    "a sample": {"loss__kind": "sampled_softmax", "loss__negatives": 5},
}


def batch(*rows: int) -> Batch:
    source, relation, target = (torch.from_numpy(SPLIT.train[list(rows)][:, k].astype("int64")) for k in range(3))
    return Batch(source, relation[:, None], target, epoch=0, index=0)


def _of_row(negatives: Negatives, row: int) -> Negatives:
    """The negatives of one positive of the batch."""
    cells = negatives.excluded.pairs()
    column = cells.column[cells.row == row]
    return replace(negatives, excluded=Pairs(torch.zeros_like(column), column))


def test_weights_by_hand() -> None:
    facts = np.array([[0, 0, 1], [2, 0, 1], [1, 0, 3], [1, 0, 1]], dtype=np.int32)
    weight = target_weights(KnowledgeGraph(Vocabulary("abcde"), Vocabulary("r"), facts), 0.2, CPU)
    assert weight is not None
    # b is an end five times, e never, the others once.
    torch.testing.assert_close(weight, torch.tensor([0.36, 1.0, 0.36, 0.36, 0.2]))


def test_a_weight_of_one_is_none() -> None:
    assert target_weights(SPLIT.graph("train"), 1.0, CPU) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_weighs_the_loss_of_each_positive_but_not_its_penalty(kind: str) -> None:
    settings = config(**KINDS[kind], loss__rare_weight=0.1, penalty__dura=0.3)
    graph, model, given = SPLIT.graph("train"), tiny_model(SPLIT), batch(*range(12))
    weight = target_weights(graph, 0.1, CPU)
    assert weight is not None
    assert len(set(weight[given.target].tolist())) > 2
    objective = Objective(model, settings.loss, settings.penalty)
    plain = Objective(model, settings.loss, config().penalty)
    negatives = NegativeSampler(settings.loss, graph, settings.training.seed).draw(given)
    expected = torch.zeros((), dtype=torch.float64)
    for row in range(12):
        one = Batch(given.source[row : row + 1], given.path[row : row + 1], given.target[row : row + 1], 0, 0)
        own = negatives if negatives is ALL_ENTITIES else _of_row(negatives, row)
        loss = plain(one.source, one.path, one.target, own)
        penalty = objective(one.source, one.path, one.target, own) - loss
        expected = expected + weight[one.target[0]] * loss + penalty
    step = AutogradStepper(model, settings, graph).step(given)
    torch.testing.assert_close(step, expected.detach() / 12)
