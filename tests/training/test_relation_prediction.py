"""The loss of predicting relations, against one score after another."""

from __future__ import annotations

import pytest
import torch

from blockhole.errors import ConfigError
from blockhole.models.catalogue import MODELS, find_model
from blockhole.models.contract import Model
from blockhole.runs.config import gather, validate
from blockhole.training.batches import Batch
from blockhole.training.objective import relation_loss
from blockhole.training.steppers import AutogradStepper

from .worlds import config, random_split, tiny_model

SPLIT = random_split()
SOURCE, RELATION, TARGET = (torch.tensor(ids) for ids in ([0, 3, 5, 11], [0, 5, 2, 3], [4, 4, 1, 9]))


def brute_force(model: Model) -> torch.Tensor:
    rows = []
    for s, r, o in zip(SOURCE, RELATION, TARGET, strict=True):
        one = torch.ones(1, dtype=torch.int64)
        scores = [model.score(s[None], torch.tensor([[other]]), one, o[None])[0] for other in range(6)]
        rows.append(torch.logsumexp(torch.stack(scores), dim=0) - scores[int(r)])
    return torch.stack(rows).mean()


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize("name", [name for name in MODELS if find_model(name).has_matrices])
def test_equals_the_scores_of_all_relations_one_by_one(name: str, inverses: str) -> None:
    model = tiny_model(SPLIT, name, inverses)
    loss, expected = relation_loss(model, SOURCE, RELATION, TARGET), brute_force(model)
    assert torch.allclose(loss, expected, rtol=1e-12)
    parameters = [model.entity, model.relation]
    for got, wanted in zip(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        assert torch.allclose(got, wanted, atol=1e-12)


@pytest.mark.parametrize(("hops", "adds"), [(1, True), (2, False)])
def test_counts_for_single_edges_alone(hops: int, adds: bool) -> None:
    losses = {}
    for weight in (0.0, 0.5):
        settings = config(loss__kind="softmax", loss__relation_weight=weight)
        model = tiny_model(SPLIT)
        batch = Batch(SOURCE, RELATION[:, None].expand(4, hops), TARGET, epoch=0, index=0)
        losses[weight] = AutogradStepper(model, settings, SPLIT.graph("train")).step(batch).item()
    model = tiny_model(SPLIT)
    added = 0.5 * brute_force(model).item() if adds else 0.0
    assert losses[0.5] - losses[0.0] == pytest.approx(added, abs=1e-9)


def test_refuses_models_whose_relations_are_not_matrices() -> None:
    settings = {"model.name": "transe", "model.dim": 4, "loss.relation_weight": 0.5}
    with pytest.raises(ConfigError, match=r"needs one of the models analogy, blockhole, .*, not transe"):
        validate(gather(overrides=settings))
