"""Mining of Horn rules, in ids: a model's matrices propose bodies, the facts of the graph count them.

The ordered product of a body's matrices W_{r1} … W_{rk} is compared with the head's W_r. Entities use a part of the
space alone, so two matrices are alike if they score entities alike:

    sim(A, B) = Re⟨A, B⟩ / √(⟨A, A⟩⟨B, B⟩),   ⟨A, B⟩ = tr(A G Bᴴ G),

with G the second moment of the entities, frequency by frequency. ⟨A, A⟩ is the mean squared score of two entities drawn
by G, as if frequencies were independent. The graph decides: every body that is proposed is followed over the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.vectors import Vectors
from blockhole.errors import ConfigError, RunError, grouped
from blockhole.machine import memory_bytes
from blockhole.models.catalogue import models_with_matrices
from blockhole.queries.bodies import LONGEST, Bodies, Body, Counts

Progress = Callable[[int, int], None]
"""Hears how many bodies have been counted, of how many."""

MIN_SUPPORT = 10
CANDIDATES = 5000
"""Bodies of each length that the model proposes for a head: a few heads of FB15k-237 have hundreds of perfect rules."""
_AT_ONCE = 2**24
"""Numbers of the products, or similarities, of bodies that are compared together."""
_BYTES = 16
"""Memory that a body takes while it waits to be compared."""
_ROWS = 2**14
"""Entities whose second moment is added up together."""


class Mined(NamedTuple):
    """N rules in ids, with what was counted of each, scaled to all sources where a part was looked at; [N] each."""

    head: NDArray[np.int64]
    body: tuple[Body, ...]
    similarity: NDArray[np.float64]
    support: NDArray[np.float64]
    said: NDArray[np.float64]
    of_subjects: NDArray[np.float64]
    new_right: NDArray[np.float64]
    new: NDArray[np.float64]
    head_facts: NDArray[np.float64]

    @property
    def confidence(self) -> NDArray[np.float64]:
        """support / pairs that the body says."""
        return self.support / self.said

    @property
    def pca_confidence(self) -> NDArray[np.float64]:
        """support / pairs that the body says about subjects of the head."""
        return self.support / self.of_subjects

    @property
    def head_coverage(self) -> NDArray[np.float64]:
        """support / facts of the head."""
        return np.minimum(self.support / np.maximum(self.head_facts, 1), 1.0)

    @property
    def valid_confidence(self) -> NDArray[np.float64]:
        """The share of new pairs that are validation facts; NaN where there are none."""
        share: NDArray[np.float64] = np.full(len(self.new), np.nan)
        np.divide(self.new_right, self.new, out=share, where=self.new > 0)
        return share

    def order(self) -> NDArray[np.intp]:
        """By PCA confidence, then support, then similarity, best first."""
        return np.lexsort((-self.similarity, -self.support, -self.pca_confidence))

    def take(self, index: NDArray[np.integer]) -> Mined:
        """Some of the rules."""
        columns = {name: getattr(self, name)[index] for name in self._fields if name != "body"}
        return Mined(body=tuple(self.body[i] for i in index.tolist()), **columns)

    def without_redundant(self) -> NDArray[np.intp]:
        """The rules whose body is right more often than every shorter one that it contains, in order, with gaps or not.

        A body that comes with its shorter part says less, or the same by a longer way.
        """
        known: Mapping[tuple[int, Body], float] = dict(
            zip(zip(self.head.tolist(), self.body, strict=True), self.pca_confidence.tolist(), strict=True)
        )
        return np.array(
            [
                i
                for i, ((head, body), own) in enumerate(known.items())
                if not any(known.get((head, part), 0.0) >= own for part in _parts(body))
            ],
            dtype=np.intp,
        )

    @classmethod
    def together(cls, parts: Sequence[Mined]) -> Mined:
        """The rules of all parts."""
        columns = {
            name: np.concatenate([getattr(each, name) for each in parts]) for name in cls._fields if name != "body"
        }
        return cls(body=tuple(body for each in parts for body in each.body), **columns)


def _parts(body: Body) -> Iterator[Body]:
    """What is left of a body without some of its hops."""
    for length in range(1, len(body)):
        yield from combinations(body, length)


def mine(
    matrices: Matrices,
    bodies: Bodies,
    *,
    heads: Sequence[int] | None = None,
    max_length: int = LONGEST,
    min_support: int = MIN_SUPPORT,
    candidates: int = CANDIDATES,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Mined:
    """Every rule with support among the bodies that the relations' matrices propose; unordered, redundant ones too."""
    graph = bodies.graph
    if not len(graph):
        raise RunError("the run has no facts, and rules are counted on facts; train one on a graph that has some.")
    wanted = np.arange(graph.num_relations) if heads is None else np.array(heads)
    _check_length(bodies, max_length)
    lengths = range(1, max_length + 1)
    listed = [proposed(matrices, bodies, wanted, length, min_support, candidates) for length in lengths]
    found, done, of = [_no_rules()], 0, sum(map(len, listed))
    two = np.unique(graph.triples[graph.triples[:, 0] != graph.triples[:, 2]], axis=0)  # bodies say no other facts
    facts = np.bincount(two[:, 1], minlength=graph.num_relations)
    for counts in chain.from_iterable(bodies.counted(some, threads=threads) for some in listed):
        found.append(_supported(matrices, counts, wanted, min_support, facts))
        done += len(counts.bodies)
        if progress is not None:
            progress(done, of)
    return Mined.together(found)


def proposed(
    matrices: Matrices, bodies: Bodies, heads: NDArray[np.integer], length: int, least: int, most: int
) -> NDArray[np.int32]:
    """The bodies of a length, with at least so many ways, that are among the `most` alike for one of the heads.

    Shape [N, length], each body once.
    """
    best = _Best(len(heads), most)
    for some in bodies.with_ways(length, least):
        for part in np.array_split(some, max(1, -(-len(some) * max(matrices.width, len(heads)) // _AT_ONCE))):
            _propose(matrices, bodies, part, heads, best)
    rows = best.bodies(length)
    place = len(bodies.inverses) ** np.arange(length)  # one number says a body
    return rows[np.unique(rows @ place, return_index=True)[1]]


def _no_rules() -> Mined:
    return Mined(np.zeros(0, dtype=np.int64), (), *(np.zeros(0) for _ in range(7)))


def _check_length(bodies: Bodies, length: int) -> None:
    """Refuse, before anything is compared, bodies that cannot be counted or that memory does not hold."""
    if not 1 <= length <= LONGEST:
        raise ConfigError(
            f"max_length must be the number of relations in a body, 1 to {LONGEST}, not {grouped(length)}."
        )
    most = 0 if length == 1 else bodies.most_bodies(length)
    if most * _BYTES > memory_bytes():
        raise ConfigError(
            f"there are up to {most:,} bodies of {length} relations, {most * _BYTES / 1e9:,.1f} GB, more than memory "
            f"holds; ask for max_length {length - 1}."
        )


def _propose(
    matrices: Matrices, bodies: Bodies, some: NDArray[np.int32], heads: NDArray[np.integer], best: _Best
) -> None:
    """Compare bodies with the heads that have subjects and objects where they begin and end."""
    if not len(some):
        return
    first, last = some[:, 0], bodies.inverses[some[:, -1]]
    fits = bodies.shared[np.ix_(first, heads)] & bodies.shared[np.ix_(last, bodies.inverses[heads])]
    if some.shape[1] == 1:
        fits &= some != heads
    similarity = np.where(fits, matrices.similarity(some, heads), -np.inf)
    best.add(some, similarity)


@final
class _Best:
    """The bodies that are most like each of H heads, at most so many."""

    def __init__(self, heads: int, most: int) -> None:
        self._most = most
        self._kept: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = [
            (np.zeros((0, 0), dtype=np.int32), np.zeros(0, dtype=np.float32)) for _ in range(heads)
        ]

    def add(self, bodies: NDArray[np.int32], similarity: NDArray[np.float32]) -> None:
        """Look at further bodies: [N, hop], [N, H]."""
        for head, (kept, own) in enumerate(self._kept):
            fits = np.flatnonzero(similarity[:, head] > (own.min() if len(own) == self._most else -np.inf))
            if not len(fits):
                continue
            both = np.concatenate([own, similarity[fits, head]])
            all_bodies = np.concatenate([kept.reshape(-1, bodies.shape[1]), bodies[fits]])
            if len(both) > self._most:
                place = np.argpartition(-both, self._most)[: self._most]
                both, all_bodies = both[place], all_bodies[place]
            self._kept[head] = all_bodies, both

    def bodies(self, length: int) -> NDArray[np.int32]:
        """All that are kept, for any head: [N, length]."""
        return np.concatenate([kept.reshape(-1, length) for kept, _ in self._kept])


def _supported(
    matrices: Matrices, counts: Counts, heads: NDArray[np.integer], least: int, facts: NDArray[np.int64]
) -> Mined:
    """The rules among some bodies and heads that have enough support."""
    share = counts.share[:, None]
    enough = counts.right[:, heads] >= least * share
    own = np.array([len(body) == 1 for body in counts.bodies])[:, None]
    enough &= ~(own & (np.array([body[0] for body in counts.bodies])[:, None] == heads))
    row, place = np.nonzero(enough)
    head = heads[place].astype(np.int64)
    similarity = np.zeros(len(row))
    for length in range(1, LONGEST + 1):
        mine = np.flatnonzero([len(counts.bodies[i]) == length for i in row.tolist()])
        if len(mine):
            ids = np.array([counts.bodies[i] for i in row[mine].tolist()], dtype=np.int32)
            similarity[mine] = matrices.similarities(ids, head[mine])
    part = counts.share[row]
    return Mined(
        head=head,
        body=tuple(counts.bodies[i] for i in row.tolist()),
        similarity=similarity,
        support=counts.right[row, head] / part,
        said=counts.said[row] / part,
        of_subjects=counts.of_subjects[row, head] / part,
        new_right=counts.new_right[row, head] / part,
        new=counts.new[row, head] / part,
        head_facts=facts[head].astype(np.float64),
    )


@final
class Matrices:
    """The matrices of all relations, weighed on both sides by G^{1/2}, so that products of rows are ⟨A, B⟩.

    Shapes: `_plain` [2R, freq, block, block]; `_root` [freq, block, block].
    """

    def __init__(self, plain: NDArray[np.inexact], root: NDArray[np.inexact]) -> None:
        self._plain = plain
        self._root = root
        self._heads = self._rows(plain)

    @classmethod
    def of(cls, vectors: Vectors) -> Matrices:
        """Those of a model whose relations are matrices; others are refused."""
        if not vectors.settings.nature.has_matrices:
            raise RunError(
                f"rules are proposed by products of relation matrices, which {vectors.settings.name} does not have; "
                f"train one of {models_with_matrices()}."
            )
        plain = _complex(vectors.model.operators(np.arange(2 * vectors.num_relations))).transpose(0, 3, 1, 2)
        moment = np.zeros(plain.shape[1:], dtype=plain.dtype)
        for first in range(0, vectors.num_entities, _ROWS):
            rows = vectors.rows(np.arange(first, min(first + _ROWS, vectors.num_entities)))
            some = _complex(vectors.model.coordinates(rows)).transpose(2, 0, 1)
            moment += some.conj().transpose(0, 2, 1) @ some
        value, vector = np.linalg.eigh(moment / max(vectors.num_entities, 1))
        root = (vector * np.sqrt(np.maximum(value, 0))[:, None, :]) @ vector.conj().transpose(0, 2, 1)
        return cls(np.ascontiguousarray(plain), root.astype(plain.dtype))

    @property
    def width(self) -> int:
        """Numbers of a matrix."""
        return int(np.prod(self._plain.shape[1:]))

    def similarity(self, bodies: NDArray[np.integer], heads: NDArray[np.integer]) -> NDArray[np.float32]:
        """sim of each body with each head: [N, hop], [H] → [N, H]."""
        compared: NDArray[np.float32] = self._rows(self._product(bodies)) @ self._heads[heads].T
        return compared

    def similarities(self, bodies: NDArray[np.integer], head: NDArray[np.integer]) -> NDArray[np.float64]:
        """sim of each body with its own head: [N, hop], [N] → [N]."""
        own: NDArray[np.float64] = (self._rows(self._product(bodies)) * self._heads[head]).sum(axis=1, dtype=np.float64)
        return own

    def _product(self, bodies: NDArray[np.integer]) -> NDArray[np.inexact]:
        """W_{r1} … W_{rk}: [N, hop] → [N, freq, block, block]."""
        product: NDArray[np.inexact] = self._plain[bodies[:, 0]]
        for hop in range(1, bodies.shape[1]):
            product = product @ self._plain[bodies[:, hop]]
        return product

    def _rows(self, matrices: NDArray[np.inexact]) -> NDArray[np.float32]:
        """G^{1/2} A G^{1/2} as rows of length 1, real parts before imaginary parts: [N, …] → [N, width]."""
        rows: NDArray[np.floating] = (self._root @ matrices @ self._root).reshape(len(matrices), -1)
        if np.iscomplexobj(rows):
            rows = np.concatenate([rows.real, rows.imag], axis=1)
        norm = np.linalg.norm(rows, axis=1, keepdims=True)
        norm[norm == 0] = 1
        return np.asarray(rows / norm, dtype=np.float32)


def _complex(stored: NDArray[np.floating]) -> NDArray[np.inexact]:
    """[N, part, …] → [N, …], in single precision."""
    if stored.shape[1] == 1:
        return stored[:, 0].astype(np.float32)
    return (stored[:, 0] + 1j * stored[:, 1]).astype(np.complex64)
