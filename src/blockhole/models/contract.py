"""What every model gives: query vectors, candidate vectors, and a score that is their inner product."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn


class Model(nn.Module, ABC):
    """A model of path queries (s, r1/…/rk, o) over E entities and R named relations.

    φ(s, p, o) = ⟨embed_query(s, p), candidates()[o]⟩. Training, evaluation, the index and the vector databases need
    nothing else. Parameters are real tensors even where the mathematics is complex: they compile, run on every
    device, and shard. A complex vector is stored as its real parts followed by its imaginary parts, so that
    Re⟨x, ȳ⟩ is the plain inner product of the stored rows.

    `entity` is [E, width]; `relation` is [2R, …] when inverses have parameters of their own, [R, …] when tied.
    """

    name: ClassVar[str]
    """The name on the command line and in config.json."""

    entity: nn.Parameter
    relation: nn.Parameter

    def __init__(self, num_entities: int, num_relations: int, *, tied: bool = False) -> None:
        super().__init__()
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.tied = tied

    @abstractmethod
    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """Apply one relation to each vector: [batch, width], [batch] → [batch, width]; ids in the space of 2R."""

    def embed_query(self, source: Tensor, path: Tensor, length: Tensor) -> Tensor:
        """The vector of s/r1/…/rk: e_s W_{r1} … W_{rk}.

        Shapes: source [batch], path [batch, hop], length [batch] → [batch, candidate width]. Rows whose path is
        shorter than the longest keep their vector for the hops they lack.
        """
        return self.finish_query(self.walk(self.entity[source], path, length))

    def walk(self, vector: Tensor, path: Tensor, length: Tensor) -> Tensor:
        """All hops of each path applied to given start vectors: [batch, width] → [batch, width]."""
        longest = int(length.max()) if len(length) else 0
        uniform = len(length) == 0 or int(length.min()) == longest
        for step in range(longest):
            moved = self.hop(vector, path[:, step])
            vector = moved if uniform else torch.where((length > step)[:, None], moved, vector)
        return vector

    def finish_query(self, vector: Tensor) -> Tensor:
        """Turn a walked vector into one whose inner product with a candidate is the score; bilinear: itself."""
        return vector

    def candidates(self, entities: Tensor | None = None) -> Tensor:
        """The vectors of all entities, or of `entities`, on the answer side: [E or count, candidate width]."""
        return self.entity if entities is None else self.entity[entities]

    def score(self, source: Tensor, path: Tensor, length: Tensor, target: Tensor) -> Tensor:
        """φ(s, p, o) of each row: [batch]."""
        return (self.embed_query(source, path, length) * self.candidates(target)).sum(dim=1)

    def parameter_count(self) -> int:
        """How many real numbers the model learns."""
        return sum(parameter.numel() for parameter in self.parameters())
