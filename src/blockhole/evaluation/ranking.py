"""Ranks of true answers among type-matching candidates, and the figures that follow from ranks.

A rank is the same whatever the batch size, memory cap or device.
A block of queries is scored against its candidates by one float32 matrix product. Its rounding error has a bound, so
a rival further from the true answer than the bound is decided; the few that are nearer are scored again, in float64,
by the function that scores the true answer. Two float64 scores within `TOLERANCE` tie. So a rank does not hang on the
order in which some library adds, and equal vectors tie wherever they stand. LibKGE's evaluator has the same
tolerance for the same reason, but at 1e-4 of the score; ours is far below what float32 parameters can express.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.errors import BlockholeWarning, EvaluationError
from blockhole.evaluation.scorer import Columns, Scorer
from blockhole.evaluation.truth import Truth
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.machine import resident_bytes, rows_within
from blockhole.models.contract import Model, full_float32
from blockhole.queries.answer_masks import AnswerMasks
from blockhole.queries.exact import AnswerSets, answer_sets, holds
from blockhole.queries.paths import PathQueries

TieRule = Literal["half", "paper", "pessimistic"]

_LOST: dict[TieRule, float] = {"half": 0.5, "paper": 0.0, "pessimistic": 1.0}
"""The share of the tied negatives that counts as ranked above the true answer."""


class TiesCountAsWins(BlockholeWarning):
    """The paper's rule was applied to scores with ties, which it counts as wins."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """For each query the negatives in N(q): how many there are, score higher than the true answer, or tie with it.

    Shapes: better, tied, negatives [N] int64, in the order of the queries.
    """

    better: NDArray[np.int64]
    tied: NDArray[np.int64]
    negatives: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.negatives)

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which queries have a negative at all; the others count in no metric; shape [N]."""
        return self.negatives > 0

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Ranks:
        """The ranks of the queries at `index` (positions or mask)."""
        return Ranks(self.better[index], self.tied[index], self.negatives[index])

    def rank(self, ties: TieRule = "half") -> NDArray[np.float64]:
        """1 + |better| + a share of |tied|: ½ by default, the mean of the best and the worst possible; shape [N]."""
        return 1.0 + self.better + _LOST[ties] * self.tied

    def quantile(self, ties: TieRule = "half") -> NDArray[np.float64]:
        """The share of negatives below the true answer, Eq. (mq); NaN where there are none; shape [N]."""
        below = self.negatives - self.better - _LOST[ties] * self.tied
        quantile = np.full(len(self), np.nan)
        np.divide(below, self.negatives, out=quantile, where=self.evaluated)
        return quantile

    def hit(self, top: int, ties: TieRule = "half") -> NDArray[np.bool_]:
        """Whether the true answer ranks `top` or better among itself and the negatives; shape [N]."""
        return self.rank(ties) <= top


@final
@dataclass(frozen=True, slots=True)
class RankMetric:
    """A figure of ranks: the mean of what `of` gives to each query; shape [N]."""

    name: str
    """Its key in JSON."""
    title: str
    """Its column in tables."""
    of: Callable[[Ranks, TieRule], NDArray[Any]]
    digits: int = 1
    """Decimals in the table of completion."""


PATH_METRICS = (
    RankMetric("mq", "MQ", lambda ranks, ties: 100 * ranks.quantile(ties)),
    RankMetric("p_at_10", "P@10", lambda ranks, ties: 100 * ranks.hit(10, ties)),
)
"""The figures of path queries, in per cent, over the queries that have negatives."""

COMPLETION_METRICS = (
    RankMetric("mr", "MR", lambda ranks, ties: ranks.rank(ties)),
    RankMetric("mrr", "MRR", lambda ranks, ties: 1 / ranks.rank(ties), digits=4),
    RankMetric("hits_at_1", "Hits@1", lambda ranks, ties: ranks.hit(1, ties), digits=4),
    RankMetric("hits_at_3", "Hits@3", lambda ranks, ties: ranks.hit(3, ties), digits=4),
    RankMetric("hits_at_10", "Hits@10", lambda ranks, ties: ranks.hit(10, ties), digits=4),
)
"""The figures of completion, as fractions of 1."""


def values_of(metrics: Sequence[RankMetric], ranks: Ranks, ties: TieRule) -> dict[str, NDArray[np.float64]]:
    """What each metric gives to each query, by its name."""
    return {metric.name: np.asarray(metric.of(ranks, ties), dtype=np.float64) for metric in metrics}


TOLERANCE = 2.0**-32
"""Two scores tie when they differ by at most this times ‖query vector‖ times the candidates' root mean square norm."""

CandidateKind = Literal["typed", "all"]
"""Whom the true answer is ranked against: T(r_k), or every entity."""

_CPU_SCORES = 4_000_000
"""Scores in a block: rows enough for a fast product, and 16 MB still stay in the cache until they are compared."""
_DEVICE_SCORES = 128_000_000
_MOST_QUERIES = 8192
_BYTES_PER_SCORE = 64
"""Peak memory of a block over its scores, if every candidate is an answer and every score needs float64."""


Hide = Callable[[Tensor], Tensor]
"""Takes the known answers ⟦q⟧ of a block out of its scores [B, C], which become -∞; how many each query has, [B]."""


class _Group(NamedTuple):
    """Queries that share their candidates: `rows` of the whole, and the `entities` they are scored against.

    The first `candidates` of the entities are T(r_k); the rest are targets outside it, scored but no rivals.
    """

    rows: NDArray[np.intp]
    entities: NDArray[np.int32]
    candidates: int


def rank(
    model: Model,
    queries: PathQueries,
    truth: Truth,
    *,
    candidates: CandidateKind = "typed",
    memory: int | None = None,
    device: torch.device | str = "cpu",
    batch: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Ranks:
    """Rank the target of every query among itself and N(q) = T(r_k) \\ ⟦q⟧ under the scores of `model`.

    A target is always taken for an answer, also where F* lacks it. `memory` caps the bytes the process holds, `batch`
    the queries scored together; neither changes a rank. `progress` hears how many queries each block has finished.
    """
    if len(queries) == 0:
        raise EvaluationError("there are no queries to rank; choose a split that has some.")
    ranking = _Ranking(Scorer(model, truth.graph, device), queries, truth, memory, batch)
    ranks = Ranks(*(np.empty(len(queries), dtype=np.int64) for _ in range(3)))
    with torch.no_grad(), full_float32():
        for rows, found in ranking.blocks(list(_groups(queries, truth, candidates))):
            ranks.better[rows], ranks.tied[rows], ranks.negatives[rows] = (counts.cpu().numpy() for counts in found)
            if progress is not None:
                progress(len(rows))
    return ranks


def _groups(queries: PathQueries, truth: Truth, kind: CandidateKind) -> Iterator[_Group]:
    # Blocks of one length need no masks when they are embedded, and like paths make like answer sets.
    order = np.lexsort((queries.source, *queries.path.T[::-1], queries.length))
    if kind == "all":
        entities = np.arange(truth.graph.num_entities, dtype=np.int32)
        yield _Group(order, entities, len(entities))
        return
    last = queries.last_relation[order]
    for relation in np.unique(last):
        rows, candidates = order[last == relation], truth.candidates(int(relation))
        outside = np.setdiff1d(queries.target[rows], candidates)
        yield _Group(rows, np.concatenate([candidates, outside]), len(candidates))


class _Ranking:
    """One call of `rank`: what stays the same over its blocks."""

    def __init__(
        self, scorer: Scorer, queries: PathQueries, truth: Truth, memory: int | None, batch: int | None
    ) -> None:
        self._scorer = scorer
        self._queries = queries
        self._graph = truth.graph
        self._memory = memory
        self._batch = batch
        self._on_cpu = scorer.device.type == "cpu"
        self._masks = None if self._on_cpu else AnswerMasks(truth.graph, scorer.device)
        if memory is not None:
            # Answers bring compiled loops and the graph's adjacency into memory, to stay: they count as held.
            holds(truth.graph, queries.take(slice(0, 1)))
        # Measured once: what later blocks free, the allocator may keep, but will use again.
        self._held = resident_bytes()

    def blocks(self, groups: list[_Group]) -> Iterator[tuple[NDArray[np.intp], tuple[Tensor, Tensor, Tensor]]]:
        """The rows of each block, and how many of their negatives are better, tied, and there at all."""
        self._refuse_unscorable(groups)
        # The largest first: if the memory cap is too small, it is for them, and nothing has been done in vain.
        for group in sorted(groups, key=lambda group: -len(group.entities)):
            yield from self._group_blocks(group, self._block_size(group))

    def _group_blocks(
        self, group: _Group, size: int
    ) -> Iterator[tuple[NDArray[np.intp], tuple[Tensor, Tensor, Tensor]]]:
        columns = self._scorer.columns(group.entities)
        members = self._queries.take(group.rows)
        column_of = np.zeros(self._graph.num_entities, dtype=np.int64)
        column_of[group.entities] = np.arange(len(group.entities))
        hides = self._hides(members, size, group.entities)
        for first, hide in zip(range(0, len(members), size), hides, strict=True):
            block = members.take(slice(first, first + size))
            target = torch.from_numpy(column_of[block.target]).to(self._scorer.device)
            yield group.rows[first : first + size], self._rank_block(block, target, columns, group.candidates, hide)

    def _rank_block(
        self, block: PathQueries, target: Tensor, columns: Columns, candidates: int, hide: Hide
    ) -> tuple[Tensor, Tensor, Tensor]:
        vector = self._scorer.embed(block)
        if not torch.isfinite(vector).all():
            raise self._scorer.refuse(self._queries, np.zeros(len(self._queries), dtype=bool))
        rough = vector.float() @ columns.rough.T
        rough[:, candidates:] = -torch.inf
        answers = hide(rough)
        own = target[:, None]
        unlisted = torch.isfinite(rough.gather(1, own)).squeeze(1)
        rough.scatter_(1, own, -torch.inf)
        better, tied = _count(vector, columns, rough, target)
        return better, tied, candidates - answers - unlisted.to(answers.dtype)

    def _hides(self, members: PathQueries, size: int, entities: NDArray[np.int32]) -> Iterator[Hide]:
        if self._masks is None:
            return _hides_on_cpu(self._graph, members, size, entities)
        return _hides_on_device(self._masks, members, size, entities, self._scorer.device)

    def _block_size(self, group: _Group) -> int:
        """Queries in a block: as many as the cache likes, the memory cap allows and `batch` says."""
        rows, columns, width = len(group.rows), len(group.entities), self._scorer.width
        fitting = _CPU_SCORES // columns if self._on_cpu else _DEVICE_SCORES // self._graph.num_entities
        size = min(rows, self._batch or rows, max(1, fitting), _MOST_QUERIES)
        if self._memory is None or not self._on_cpu:
            return size
        vectors = 20 * columns * width  # in float64, once more while they are scaled, and in float32
        return rows_within(self._memory, size, _BYTES_PER_SCORE * columns + 48 * width, self._held + vectors)

    def _refuse_unscorable(self, groups: list[_Group]) -> None:
        unscorable = np.zeros(len(self._queries), dtype=bool)
        for group in groups:
            unscorable[group.rows] = not self._scorer.finite(group.entities)
        if unscorable.any():
            raise self._scorer.refuse(self._queries, unscorable)


def _hides_on_cpu(
    graph: KnowledgeGraph, queries: PathQueries, size: int, entities: NDArray[np.int32]
) -> Iterator[Hide]:
    """One `Hide` for each block of `size` queries whose scores have the columns `entities`, by listing answers."""
    column = np.zeros(graph.num_entities, dtype=np.int64)
    column[entities] = np.arange(len(entities))
    for sets in answer_sets(graph, queries, batch_size=size):
        yield partial(_hide_listed, sets, column)


def _hide_listed(sets: AnswerSets, column: NDArray[np.int64], scores: Tensor) -> Tensor:
    flat = column[sets.entities]
    flat += sets.row * scores.shape[1]
    scores.numpy().reshape(-1)[flat] = -np.inf
    return torch.from_numpy(np.diff(sets.indptr))


def _hides_on_device(
    masks: AnswerMasks, queries: PathQueries, size: int, entities: NDArray[np.int32], device: torch.device
) -> Iterator[Hide]:
    """The same by flags on a device."""
    columns = torch.from_numpy(entities.astype(np.int64)).to(device)
    for first in range(0, len(queries), size):
        block = queries.take(slice(first, first + size))
        ids = (torch.from_numpy(ids.astype(np.int64)) for ids in (block.source, block.path, block.length))
        yield partial(_hide_flagged, masks(*ids), columns)


def _hide_flagged(mask: Tensor, columns: Tensor, scores: Tensor) -> Tensor:
    known = mask.index_select(1, columns)
    scores.masked_fill_(known, -torch.inf)
    return known.sum(dim=1)


def _count(vector: Tensor, columns: Columns, rough: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """How many rivals score higher than the true answer and how many tie with it; shapes [B], [B].

    `rough` [B, C] are the float32 scores, -∞ for all that are no rivals.
    """
    truth = _exact_scores(vector, columns.exact[target])[:, None]
    slack = columns.slack + TOLERANCE
    decide = _decide_on_cpu if rough.device.type == "cpu" else _decide
    above, near = decide(rough, (truth - slack).float(), (truth + slack).float())
    if takes_whole_product(len(near), vector.shape[1], rough.numel()):
        exact = (vector @ columns.exact.T).masked_fill_(torch.isneginf(rough), -torch.inf)
        better = (exact > truth + TOLERANCE).sum(dim=1)
        return better, (exact >= truth - TOLERANCE).sum(dim=1) - better
    row, column = near // rough.shape[1], near % rough.shape[1]
    lead = _exact_scores(vector[row], columns.exact[column]) - truth[row, 0]
    better = above + torch.bincount(row[lead > TOLERANCE], minlength=len(vector))
    return better, torch.bincount(row[lead.abs() <= TOLERANCE], minlength=len(vector))


def takes_whole_product(near: int, width: int, scores: int) -> bool:
    """Whether all scores again take less than the near ones singly, a number of which costs as much as four."""
    return near * 4 * width > scores


def _exact_scores(vector: Tensor, candidate: Tensor) -> Tensor:
    """φ of pairs in float64: [N, width], [N, width] → [N]; true answers and close rivals alike."""
    return (vector * candidate).sum(dim=1)


def _decide(rough: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores of each row are surely above [B], and the flat positions of those too near to tell."""
    above = rough > high
    return above.sum(dim=1), ((rough >= low) != above).view(-1).nonzero().squeeze(1)


def _decide_on_cpu(rough: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The same with NumPy, which compares and finds five times faster than torch does on a CPU."""
    above = rough.numpy() > high.numpy()
    near = np.flatnonzero((rough.numpy() >= low.numpy()) != above)
    return torch.tensor([np.count_nonzero(row) for row in above]), torch.from_numpy(near)
