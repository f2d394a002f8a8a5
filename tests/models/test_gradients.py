"""Gradients of every model's score against finite differences."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from blockhole.models.catalogue import ModelSettings, build_model, find_model, known_models
from blockhole.models.contract import Model

E, R = 4, 2


class Scorer(nn.Module):
    """A model's score as the forward of a module, so that its parameters can be given as arguments."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, path: Tensor, length: Tensor, target: Tensor) -> Tensor:
        return self.model.score(source, path, length, target)


@pytest.mark.parametrize("inverses", ["own", "tied"])
@pytest.mark.parametrize("name", known_models())
def test_gradients_equal_finite_differences(name: str, inverses: Literal["own", "tied"]) -> None:
    if find_model(name).sized_by_blocks:
        settings = ModelSettings(name=name, blocks=2, block_size=3, inverses=inverses, entity_scale=1.0)
    else:
        settings = ModelSettings(name=name, dim=5, inverses=inverses, entity_scale=1.0)
    scorer = Scorer(build_model(settings, E, R, seed=3).double())
    hops = 1 if find_model(name).why_no_paths else 3
    source, target = torch.tensor([0, 1, 1]), torch.tensor([2, 3, 1])
    path = torch.tensor([[0, 3, 0], [2, 1, 1], [3, 2, 0]])[:, :hops]
    length = torch.tensor([hops, 1, hops])

    def score(entity: Tensor, relation: Tensor) -> Tensor:
        parameters = {"model.entity": entity, "model.relation": relation}
        result: Tensor = functional_call(scorer, parameters, (source, path, length, target))
        return result

    inputs = (scorer.model.entity.detach().requires_grad_(), scorer.model.relation.detach().requires_grad_())
    assert torch.autograd.gradcheck(score, inputs)
