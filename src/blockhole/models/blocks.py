"""The models whose relations are b×b blocks of diagonal matrices, as far as they go without torch.

How their rows are read, and their hops over NumPy arrays: what it takes to ask a trained one. All other models are
asked through torch, behind the same door (`contract.TorchArrays`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ids = NDArray[np.integer]


@final
@dataclass(frozen=True, slots=True)
class BlockGeometry:
    """How a stored row is read: an entity as [part, block, freq], a relation as [part, block, block, freq].

    `parts` is 2 for complex numbers (all real parts, then all imaginary parts) and 1 for real ones. With (b,
    m, parts): BlockHolE is (b, m, 2), ComplEx (1, n, 2), DistMult (1, n, 1) and RESCAL (n, 1, 1), so that one
    kernel serves them all: q'[j, f] = Σ_i q[i, f] · W[i, j, f].
    """

    blocks: int
    freqs: int
    parts: Literal[1, 2]

    def __post_init__(self) -> None:
        if self.blocks < 1 or self.freqs < 1:
            raise ValueError(f"b and m must be at least 1, not b={self.blocks}, m={self.freqs}")

    @property
    def dimension(self) -> int:
        """n = b·m, the dimension of the (real or complex) space of entities."""
        return self.blocks * self.freqs

    @property
    def entity_width(self) -> int:
        """Real numbers per entity: parts·b·m."""
        return self.parts * self.dimension

    @property
    def relation_width(self) -> int:
        """Real numbers per relation: parts·b²·m."""
        return self.parts * self.blocks * self.dimension

    @property
    def relation_scale(self) -> float:
        """1/√(parts·b): entries of modulus about 1/√b, so that a hop keeps the expected norm of a vector."""
        return 1 / sqrt(self.parts * self.blocks)

    @property
    def entity_shape(self) -> tuple[int, int, int]:
        """[part, block, freq]."""
        return self.parts, self.blocks, self.freqs

    @property
    def relation_shape(self) -> tuple[int, int, int, int]:
        """[part, block i, block j, freq]."""
        return self.parts, self.blocks, self.blocks, self.freqs


@final
@dataclass(frozen=True, slots=True)
class BlockModel:
    """What a model of blocks says of itself, in the words of `contract.Model`, for those who do not load torch."""

    has_matrices: ClassVar[bool] = True
    distance: ClassVar[bool] = False

    parts: Literal[1, 2]
    sized_by_blocks: bool = False
    diagonal: bool = True
    """Whether a model that is not sized by blocks has one of them, or n of a single number each."""

    def layout(self, dim: int, blocks: int) -> BlockGeometry:
        """How rows are read at dimension n, cut into b blocks where the model is sized by blocks."""
        if not self.sized_by_blocks:
            blocks = 1 if self.diagonal else dim
        return BlockGeometry(blocks=blocks, freqs=dim // blocks, parts=self.parts)


BLOCK_MODELS = {
    "blockhole": BlockModel(parts=2, sized_by_blocks=True),
    "complex": BlockModel(parts=2),
    "distmult": BlockModel(parts=1),
    "rescal": BlockModel(parts=1, diagonal=False),
}
"""The models of this family by their names in `catalogue.MODELS`; their classes take their layouts from here."""


class ArrayModel(ABC):
    """A trained model as answers need it: hops over NumPy arrays in float64, each row on its own."""

    tied: bool
    has_matrices: bool
    """Whether relations are matrices, so that there are `hop_back`, `coordinates` and `operators`."""
    plain_candidates: bool
    """Whether an entity's row is its candidate vector."""

    @abstractmethod
    def hop(self, vector: Floats, relation: Ids) -> Floats:
        """Apply one relation, an id below 2R, to each vector: [N, width], [N] → [N, width]."""

    @abstractmethod
    def hop_back(self, vector: Floats, relation: Ids) -> Floats:
        """The vector whose inner product with e is that of `vector` with e W_r."""

    @abstractmethod
    def walk(self, vector: Floats, path: Ids, length: Ids) -> Floats:
        """All hops of each path, of its own length: [N, width], [N, hop], [N] → [N, width]."""

    @abstractmethod
    def finish_query(self, vector: Floats) -> Floats:
        """The vector whose inner product with a candidate is the score, of one that was walked."""

    @abstractmethod
    def finish_candidate(self, vector: Floats) -> Floats:
        """The vector that a query's is multiplied with, of an entity's row."""

    @abstractmethod
    def coordinates(self, vector: Floats) -> Floats:
        """Vectors in which relations are blocks: [N, width] → [N, part, block, freq]."""

    @abstractmethod
    def operators(self, relation: Ids) -> Floats:
        """W_r of each id: [N] → [N, part, block i, block j, freq]."""


@final
class BlockArrays(ArrayModel):
    """A model of blocks, without torch; `relation` is [2R or R, part·b²·m] as in `BlockBilinear`."""

    has_matrices = True
    plain_candidates = True

    def __init__(self, geometry: BlockGeometry, relation: NDArray[np.floating], num_relations: int, tied: bool) -> None:
        self.tied = tied
        self._geometry = geometry
        self.num_relations = num_relations
        self._matrices = relation.reshape(len(relation), *geometry.relation_shape)

    def coordinates(self, vector: Floats) -> Floats:
        """The blocks that are stored."""
        return vector.reshape(len(vector), *self._geometry.entity_shape)

    def operators(self, relation: Ids) -> Floats:
        """W_r of each id, tied inverses included: [N] → [N, part, block i, block j, freq]; one for all that agree."""
        if len(relation) and (relation == relation[0]).all():
            relation = relation[:1]
        matrix: Floats = self._matrices[relation % self.num_relations if self.tied else relation].astype(np.float64)
        if not self.tied:
            return matrix
        return np.where((relation >= self.num_relations)[:, None, None, None, None], _adjoint(matrix), matrix)

    def hop(self, vector: Floats, relation: Ids) -> Floats:
        """q'[j, f] = Σ_i q[i, f] · W_r[i, j, f]."""
        return self._moved(vector, self.operators(relation))

    def hop_back(self, vector: Floats, relation: Ids) -> Floats:
        """W_r ē, conjugated: the hop with the conjugate transpose of W_r."""
        return self._moved(vector, _adjoint(self.operators(relation)))

    def _moved(self, vector: Floats, matrix: Floats) -> Floats:
        """Elementwise products and sums in one order, or one small product a row: no row depends on the others."""
        moved: Floats
        if self._geometry.freqs == 1 and self._geometry.parts == 1:
            moved = np.matmul(vector[:, None, :], np.ascontiguousarray(matrix[:, 0, :, :, 0]))[:, 0, :]
            return moved
        q = self.coordinates(vector)[:, :, :, None, :]
        if self._geometry.parts == 1:
            moved = (q * matrix).sum(axis=2)
            return moved.reshape(len(vector), -1)
        (re, im), (w_re, w_im) = q.swapaxes(0, 1), matrix.swapaxes(0, 1)
        both = (re * w_re - im * w_im).sum(axis=1), (re * w_im + im * w_re).sum(axis=1)
        return np.stack(both, axis=1).reshape(len(vector), -1)

    def walk(self, vector: Floats, path: Ids, length: Ids) -> Floats:
        """All hops of each path, of its own length."""
        for step in range(int(length.max(initial=0))):
            moved = self.hop(vector, path[:, step])
            vector = np.where((length > step)[:, None], moved, vector)
        return vector

    def finish_query(self, vector: Floats) -> Floats:
        """The walked vector itself."""
        return vector

    def finish_candidate(self, vector: Floats) -> Floats:
        """The row itself."""
        return vector


def _adjoint(matrix: Floats) -> Floats:
    """The conjugate transpose per frequency: [N, part, block i, block j, freq] → the same shape."""
    transposed = matrix.swapaxes(2, 3)
    if matrix.shape[1] == 1:
        return transposed
    return np.concatenate([transposed[:, :1], -transposed[:, 1:]], axis=1)
