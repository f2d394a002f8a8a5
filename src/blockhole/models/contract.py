"""What every model gives: query vectors, candidate vectors, and a score that is their inner product.

A model is one class in one file. It says what it is by class attributes, how its rows are laid out by `layout`, and how
a relation moves a vector by `hop`; the constructor is the one written here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from blockhole.errors import UndefinedPath
from blockhole.machine import torch_threads
from blockhole.models.blocks import ArrayModel, BlockGeometry, Floats, Ids
from blockhole.models.circulant import compose


@final
@dataclass(frozen=True, slots=True)
class Widths:
    """How many real numbers a model learns of each entity and relation, and how large a relation's are at first."""

    entity_width: int
    relation_width: int
    relation_scale: float | None = None
    """Standard deviation of a relation's initial numbers, where none is asked for; absent: that of the entities."""


class Model(nn.Module, ABC):
    """A model of path queries (s, r1/…/rk, o) over E entities and R named relations.

    φ(s, p, o) = ⟨embed_query(s, p), candidates()[o]⟩. Training, evaluation, the index and the vector
    databases need nothing else. Parameters are real tensors even where the mathematics is complex: they
    compile, run on every device, and shard. A complex vector is stored as its real parts followed by its
    imaginary parts, so that Re⟨x, ȳ⟩ is the plain inner product of the stored rows.

    `entity` is [E, entity width]; `relation` is [2R, relation width] when inverses have parameters of their
    own and [R, relation width] when they are tied, so that φ(o, r⁻¹, s) = φ(s, r, o). Both are drawn on the
    CPU from one seed, entities first, as normal float32 numbers with the given standard deviations: the same
    on every device.
    """

    sized_by_blocks: ClassVar[bool] = False
    """Whether its size is given by blocks and block_size (b, m); else by dim (n) alone."""
    why_no_paths: ClassVar[str | None] = None
    """Why a path of several relations has no score, where it has none."""
    distance: ClassVar[bool] = False
    """Whether scores are distances, in which no coordinate of a query vector can be left out."""
    has_matrices: ClassVar[bool] = False
    """Whether relations are matrices, given by `coordinates` and `operator`, along which `hop_back` goes back."""

    dim: int
    """n, the dimension of the (real or complex) space of entities."""
    blocks: int
    """b of a model that is sized by blocks, else 1."""
    block_size: int
    """m = n / b."""
    geometry: BlockGeometry | None
    """How rows are read where relations are b×b diagonal blocks, whose hop has kernels; absent for other models."""
    merged_from: tuple[int, ...] = ()
    """The dimensions of the models that stand side by side in this one, where it was merged."""
    entity: nn.Parameter
    relation: nn.Parameter

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        dim: int | None = None,
        blocks: int | None = None,
        block_size: int | None = None,
        tied: bool = False,
        entity_scale: float = 0.1,
        relation_scale: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.tied = tied
        self.dim, self.blocks = self._size(dim, blocks, block_size)
        self.block_size = self.dim // self.blocks
        layout = self.layout(self.dim, self.blocks)
        self.geometry = layout if isinstance(layout, BlockGeometry) else None
        neutral = entity_scale if layout.relation_scale is None else layout.relation_scale
        self.entity_scale = entity_scale
        self.relation_scale = neutral if relation_scale is None else relation_scale
        generator = torch.Generator().manual_seed(seed)
        relation_rows = num_relations if tied else 2 * num_relations
        self.entity = _draw(num_entities, layout.entity_width, self.entity_scale, generator)
        self.relation = _draw(relation_rows, layout.relation_width, self.relation_scale, generator)

    @classmethod
    def _size(cls, dim: int | None, blocks: int | None, block_size: int | None) -> tuple[int, int]:
        """(n, b) of the sizes given, which are those the model takes."""
        if cls.sized_by_blocks:
            if blocks is None or block_size is None or dim is not None:
                raise TypeError(f"{cls.__name__} takes blocks and block_size, and no dim")
            if blocks < 1 or block_size < 1:
                raise ValueError(f"b and m must be at least 1, not b={blocks}, m={block_size}")
            return blocks * block_size, blocks
        if dim is None or blocks is not None or block_size is not None:
            raise TypeError(f"{cls.__name__} takes dim, and neither blocks nor block_size")
        if dim < 1:
            raise ValueError(f"dim must be at least 1, not {dim}")
        return dim, 1

    @classmethod
    @abstractmethod
    def layout(cls, dim: int, blocks: int) -> Widths | BlockGeometry:
        """How wide the rows are at dimension n, cut into b blocks where the model is sized by blocks."""

    @abstractmethod
    def hop(self, vector: Tensor, relation: Tensor) -> Tensor:
        """Apply one relation, an id below 2R, to each vector: [batch, width], [batch] → [batch, width]."""

    def embed_query(self, source: Tensor, path: Tensor, length: Tensor) -> Tensor:
        """The vector of s/r1/…/rk: e_s W_{r1} … W_{rk}.

        Shapes: source [batch], path [batch, hop], length [batch] → [batch, candidate width]. Rows whose path
        is shorter than the longest keep their vector for the hops they lack.
        """
        return self.finish_query(self.walk(rows(self.entity, source), path, length))

    def embed_paths(self, source: Tensor, path: Tensor) -> Tensor:
        """The vectors of queries that all have as many hops as `path` has columns.

        Shapes: source [batch], path [batch, hop] → [batch, candidate width]. Nothing is read back to the
        host, so the call can be captured in a CUDA graph.
        """
        self._refuse_paths(path.shape[1])
        vector = rows(self.entity, source)
        # Without rows there is nothing to walk, and MKL refuses to transform nothing.
        for step in range(path.shape[1] if len(source) else 0):
            vector = self.hop(vector, path[:, step])
        return self.finish_query(vector)

    def walk(self, vector: Tensor, path: Tensor, length: Tensor) -> Tensor:
        """All hops of each path applied to given start vectors: [batch, width] → [batch, width]."""
        longest = int(length.max()) if len(length) else 0
        self._refuse_paths(longest)
        uniform = len(length) == 0 or int(length.min()) == longest
        for step in range(longest):
            moved = self.hop(vector, path[:, step])
            vector = moved if uniform else torch.where((length > step)[:, None], moved, vector)
        return vector

    def finish_query(self, vector: Tensor) -> Tensor:
        """The vector whose inner product with a candidate is the score; bilinear: the walked one itself."""
        return vector

    def candidates(self, entities: Tensor | None = None) -> Tensor:
        """The vectors of all entities, or of `entities`, as answers: [E or count, candidate width]."""
        return self.finish_candidate(self.entity if entities is None else rows(self.entity, entities))

    def finish_candidate(self, vector: Tensor) -> Tensor:
        """The vector that a query's is multiplied with, of an entity's row; bilinear: the row itself."""
        return vector

    def restore_row(self, candidate: Tensor) -> Tensor:
        """The rows of entities from their candidate vectors: [count, candidate width] → [count, entity width].

        The inverse of `finish_candidate`: a database holds candidate vectors alone, and a query walks from the row of
        its source. As written here it takes the first numbers; a model whose candidates hold a row in another way
        overrides it, and one whose candidates do not hold it cannot be exported to a database.
        """
        return candidate[:, : self.entity.shape[1]]

    def score(self, source: Tensor, path: Tensor, length: Tensor, target: Tensor) -> Tensor:
        """φ(s, p, o) of each row: [batch]."""
        return (self.embed_query(source, path, length) * self.candidates(target)).sum(dim=1)

    def score_relations(self, source: Tensor, target: Tensor, members: int = 1) -> Tensor:
        """φ(s, r, o) = Re Σ W_r[i, j, f] · G[i, j, f] for every id r, with G = s ō: outer products by frequency.

        Shapes: source [batch], target [batch] → [member, batch, 2R]. φ is the sum of its `members`, equal shares of the
        frequencies.
        """
        ids = torch.arange(2 * self.num_relations, device=self.entity.device)
        outer, operator = self._outer(source, target), self.operator(ids)
        if members == 1:
            return (outer.flatten(1) @ operator.flatten(1).T)[None]
        shares = zip(outer.chunk(members, dim=-1), operator.chunk(members, dim=-1), strict=True)
        return torch.stack([own.flatten(1) @ matrix.flatten(1).T for own, matrix in shares])

    def _outer(self, source: Tensor, target: Tensor) -> Tensor:
        """G, whose inner product with W_r is φ(s, r, o): [batch], [batch] → [batch, part, block i, block j, freq]."""
        s, o = (self.coordinates(rows(self.entity, ids)) for ids in (source, target))
        s, o = s[:, :, :, None, :], o[:, :, None, :, :]
        # Plain products: torch.einsum makes a tiny matrix product of each row and frequency, and takes most of a step.
        if s.shape[1] == 1:
            return s * o
        # s ō = (s.re o.re + s.im o.im) + i (s.im o.re - s.re o.im); Re(W·G) takes the imaginary part negative.
        (s_re, s_im), (o_re, o_im) = s.unbind(dim=1), o.unbind(dim=1)
        return torch.stack((s_re * o_re + s_im * o_im, s_re * o_im - s_im * o_re), dim=1)

    def retrace(self, target: Tensor, path: Tensor) -> Tensor:
        """W_{r1} … W_{rk} ē_o, conjugated, whose inner product with e_s is φ(s, r1/…/rk, o).

        Shapes: target [batch], path [batch, hop] → [batch, width].
        """
        vector = rows(self.entity, target)
        for step in reversed(range(path.shape[1])):
            vector = self.hop_back(vector, path[:, step])
        return vector

    def hop_back(self, vector: Tensor, relation: Tensor) -> Tensor:
        """W_r q̄, conjugated, whose inner product with e is that of q with e W_r; shapes as of `hop`."""
        raise NotImplementedError(f"the relations of {type(self).__name__} are not matrices")

    def coordinates(self, vector: Tensor) -> Tensor:
        """Stored or walked vectors as x, in which relations are blocks: [batch, width] → [batch, part, block, freq].

        A change of basis that keeps inner products, Re(xᵀȳ), and makes every relation b×b diagonal blocks.
        """
        raise NotImplementedError(f"the relations of {type(self).__name__} are not matrices")

    def operator(self, relation: Tensor) -> Tensor:
        """W_r of each id, tied inverses included, by which a hop multiplies x: x ↦ xᵀ W_r.

        Shapes: [batch] → [batch, part, block i, block j, freq].
        """
        raise NotImplementedError(f"the relations of {type(self).__name__} are not matrices")

    def path_operator(self, path: Tensor) -> Tensor:
        """W_{r1} … W_{rk} by frequency: [batch, hop] → [batch, part, block i, block j, freq]."""
        product = self.operator(path[:, 0])
        for hop in range(1, path.shape[1]):
            product = compose(product, self.operator(path[:, hop]))
        return product

    def parameter_count(self) -> int:
        """How many real numbers the model learns."""
        return sum(parameter.numel() for parameter in self.parameters())

    def relation_rows(self, relation: Tensor) -> Tensor:
        """The stored parameters of each id (of r for r⁻¹ when tied): [batch] → [batch, relation width]."""
        return rows(self.relation, relation % self.num_relations if self.tied else relation)

    def is_inverse(self, relation: Tensor) -> Tensor:
        """Which ids of the space of 2R are inverses: [batch] → bool [batch, 1]."""
        return (relation >= self.num_relations)[:, None]

    def _refuse_paths(self, hops: int) -> None:
        if hops > 1 and self.why_no_paths is not None:
            raise UndefinedPath(
                f"{type(self).__name__} scores single relations, not a path of {hops} hops: {self.why_no_paths}; "
                "use blockhole for paths."
            )


# As hops over arrays, for those who ask a trained model


@final
class TorchArrays(ArrayModel):
    """Any model by its own torch code; it is in float64, and holds no entities."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.tied = model.tied
        self.has_matrices = model.has_matrices
        self.plain_candidates = type(model).finish_candidate is Model.finish_candidate

    def hop(self, vector: Floats, relation: Ids) -> Floats:
        """As the model hops."""
        return _asked(self._model.hop, vector, relation)

    def hop_back(self, vector: Floats, relation: Ids) -> Floats:
        """As the model hops back."""
        return _asked(self._model.hop_back, vector, relation)

    def walk(self, vector: Floats, path: Ids, length: Ids) -> Floats:
        """As the model walks; one whose paths have no score refuses them."""
        return _asked(self._model.walk, vector, path, length)

    def finish_query(self, vector: Floats) -> Floats:
        """As the model finishes queries."""
        return _asked(self._model.finish_query, vector)

    def finish_candidate(self, vector: Floats) -> Floats:
        """As the model finishes candidates."""
        return _asked(self._model.finish_candidate, vector)

    def coordinates(self, vector: Floats) -> Floats:
        """As the model's."""
        return _asked(self._model.coordinates, vector)

    def operators(self, relation: Ids) -> Floats:
        """As the model's."""
        return _asked(self._model.operator, relation)


def _asked(ask: Callable[..., Tensor], *arrays: Floats | Ids) -> Floats:
    """What a method says of vectors and ids, in one thread.

    MKL shares a transform of a few rows out among threads, which wait for each other: where other programs keep the
    processors busy, milliseconds in place of microseconds.
    """
    tensors = (torch.from_numpy(each if each.dtype.kind == "f" else each.astype(np.int64)) for each in arrays)
    with torch_threads(1):
        array: Floats = ask(*tensors).numpy()
    return array


# Scores in float32, for those who only need to know which ones float64 must decide


def float32_slack(width: int, longest: float) -> float:
    """A bound on |float32 score - exact score| for a query vector of norm 1, whatever the order of summation.

    It is (width + 4) u max‖c‖ with u = 2⁻²⁴, of which 3 are for rounding the two vectors and what is compared with, and
    1 for terms of second order. It holds within `full_float32`, for query vectors made by `at_norm_1`, and as long as
    max‖c‖, `longest`, is far from where float32 ends, so that nothing overflows and nothing of weight vanishes.
    """
    return (width + 4) * 2.0**-24 * longest


def longest_norm(candidates: Tensor) -> float:
    """max‖c‖; NaN or infinite where a candidate is. Shape [C, width]."""
    norms = (float(part.double().norm(dim=1).max()) for part in torch.split(candidates, 2**14) if len(part))
    return float(np.max([*norms], initial=0.0))  # which, unlike Python's, is NaN where one is


def at_norm_1(vector: Tensor) -> Tensor:
    """Vectors divided by their norms, zero left as it is: [N, width] → [N, width]."""
    least = torch.finfo(vector.dtype).tiny
    for order in (torch.inf, 2):  # by the largest number first, so that squaring cannot overflow
        vector = vector / torch.linalg.vector_norm(vector, order, dim=1, keepdim=True).clamp_min(least)
    return vector


@contextmanager
def full_float32() -> Iterator[None]:
    """No TF32 and no bfloat16 inside products: the bound on their error is that of float32.

    The setting is one for all threads, so it is touched only where somebody has changed it.
    """
    before = torch.get_float32_matmul_precision()
    if before == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def rows(table: Tensor, index: Tensor) -> Tensor:
    """table[index]: [count, width], [batch] → [batch, width].

    Three ways to sum the gradient of a row over where it occurs: `embedding` beats plain indexing several times on a
    CPU; on CUDA it sorts, and a batch whose thousands of rows share twenty relations makes that the longest kernel of
    a step, so there a small table takes a matrix product and a large one atomic additions.
    """
    if not table.is_cuda:
        return functional.embedding(index, table)
    gathered: Tensor = _CudaRows.apply(table, index)  # type: ignore[no-untyped-call]
    return gathered


_FEW_ROWS = 1024


class _CudaRows(torch.autograd.Function):
    """table[index] with a gradient that neither sorts nor reads back to the host."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.count = len(table)
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        if ctx.count > _FEW_ROWS:
            return upstream.new_zeros(ctx.count, upstream.shape[1]).index_add_(0, index, upstream), None
        occurs = torch.arange(ctx.count, device=index.device)[:, None] == index
        return occurs.to(upstream.dtype) @ upstream, None


def _draw(count: int, width: int, scale: float, generator: torch.Generator) -> nn.Parameter:
    # NumPy asks the system for large pages, torch does not: a batch touches rows all over a table of gigabytes, and on
    # small pages each of them misses the processor's address cache.
    table = torch.from_numpy(np.empty((count, width), dtype=np.float32))
    return nn.Parameter(table.normal_(0.0, scale, generator=generator))
