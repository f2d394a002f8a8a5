"""A model whose every score is a small whole number: exact in any precision, full of ties, and not monotone."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from blockhole.models.contract import Model, Widths


@final
class IntegerModel(Model):
    """q = e_s W_{r1} … W_{rk} with whole numbers in -2 … 2; answers have vectors of their own."""

    @classmethod
    def layout(cls, dim: int, blocks: int) -> Widths:
        return Widths(dim, dim * dim)

    def __init__(self, num_entities: int, num_relations: int, width: int, seed: int) -> None:
        super().__init__(num_entities, num_relations, dim=width)
        generator = np.random.default_rng(seed)

        def draw(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.from_numpy(generator.integers(-2, 3, size=shape).astype(np.float32)))

        self.entity = draw(num_entities, width)
        self.relation = draw(2 * num_relations, width * width)
        self.answer = draw(num_entities, width)

    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        matrix = self.relation[relation].view(-1, self.dim, self.dim)
        return (vector[:, None, :] @ matrix).squeeze(1)

    def candidates(self, entities: Tensor | None = None) -> Tensor:
        return self.answer if entities is None else self.answer[entities]


def constant_model(num_entities: int, num_relations: int, answer: float = 0.7) -> IntegerModel:
    """Every score is the same, with a value that is not exact in binary."""
    model = IntegerModel(num_entities, num_relations, 3, seed=0)
    with torch.no_grad():
        model.entity.fill_(0.1)
        model.relation.fill_(0.3)
        model.answer.fill_(answer)
    return model
