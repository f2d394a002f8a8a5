"""The probability of a hop (s, r, o): what every answer's probability is made of.

A model gives two shares: f = softmax over o of α φ(s, r, o), that of o among all objects of (s, r), and b, that of s
among all subjects of (r, o), which the inverse relation gives. n_f and n_b are the numbers of known ones, at least one.
η_o is how often an entity with as many known subjects of r as o has more of them, η_s the same of the objects of s: a
child whose father is known has room for no other. Then

    x = ½ (n_f f + n_b b) η_s η_o + 1 / 10 E
and the curve of `calibration` makes a probability p(s, r, o) of x;
a fact has p = 1. Read backwards, (o, r⁻¹, s) has the same probability. `calibrating` fits α and the curve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.answering.vectors import diverged
from blockhole.machine import torch_threads
from blockhole.models.contract import full_float32

if TYPE_CHECKING:
    from blockhole.answering.calibration import Curve
    from blockhole.answering.known import KnownFacts
    from blockhole.answering.vectors import Vectors

Ids = NDArray[np.integer]
Floats = NDArray[np.float64]
Table = NDArray[np.float32]

SURE = 0.9999
"""No prediction is surer than this: only a fact is certain."""
LANES = 8
"""Vectors are multiplied in blocks of this many, the last padded: a number is then the same in whatever company, and
wherever in memory. The product of a single vector would depend on how the table is aligned."""
_LEAST_SAMPLE = 128
"""Entities that a sampled normaliser runs over at least."""
_BUDGET = 2e9
"""Products of numbers that the normalisers of one relation may cost while somebody waits for an answer."""
_FULL = 0.05
"""A count is a limit where fewer than this share of those that reach it pass it; all other counts leave room."""
HIGHEST = np.float32(60)
"""The largest logarithm of a share, for a sampled normaliser may be much too small; float32 ends at 88."""
_WALKED = 4096
_CACHED = 2**17
"""Numbers of a table that stay in a processor's cache while rows are multiplied with them: 512 KiB."""
_LARGEST_SAMPLE = 1024
"""Entities that a sampled normaliser runs over at most."""
_AT_ONCE = 2**24
"""Scores in memory together."""


@final
class Normalisers:
    """log Σ_o exp(α φ(s, r, o)) over all entities o, for every entity s and relation r, made when first asked for.

    `table` holds those that were kept with a run: [2R, E], NaN where there are none. The sum over known objects of
    (s, r) is always exact. That over the others is exact where it is cheap; where it is not, it is that over a sample,
    fixed for each relation, of other objects of r and of all other entities.
    """

    def __init__(
        self, vectors: Vectors, candidates: Tensor, known: KnownFacts, scale: float, table: Table | None = None
    ) -> None:
        self._vectors = vectors
        self._candidates = candidates
        self._known = known
        self._scale = scale
        self._rows: dict[int, Table] = {}
        self._table = table

    def of(self, relation: int) -> Table:
        """The normalisers of a relation for every entity: [E]."""
        if relation not in self._rows:
            rows = np.full(self._vectors.num_entities, np.nan, dtype=np.float32)
            if self._table is not None:  # entities that were added later are not in it
                rows[: self._table.shape[1]] = self._table[relation]
            missing = np.flatnonzero(np.isnan(rows))
            if len(missing):
                rows[missing] = self.sums(missing, relation, self.affordable(len(missing), _BUDGET))
            self._rows[relation] = rows
        return self._rows[relation]

    def affordable(self, rows: int, budget: float) -> int:
        """How many entities each of so many sums may run over, for a number of products of numbers."""
        # The exponential of a score costs about as much as sixty products of numbers.
        affordable = int(budget / max(rows * (self._vectors.width + 64), 1))
        if affordable >= self._vectors.num_entities:
            return self._vectors.num_entities
        return min(max(affordable, _LEAST_SAMPLE), _LARGEST_SAMPLE)

    def sums(self, entities: Ids, relation: int, sample: int) -> Table:
        """The normalisers of some entities, over all entities or a `sample` of them: [N] → [N]."""
        chosen, left = self.sample(relation, sample)
        weight = torch.from_numpy(left)
        score_of = self._scores_with(relation, chosen, len(entities))
        found = np.empty(len(entities), dtype=np.float32)
        size = max(1, min(4096, _AT_ONCE // max(len(chosen), 1)))
        for first in range(0, len(entities), size):
            part = entities[first : first + size]
            score = score_of(part)
            if len(chosen) < self._vectors.num_entities:
                found[first : first + size] = self._with_facts(part, relation, score + weight, chosen)
            else:
                found[first : first + size] = score.logsumexp(dim=1).numpy()
        return found

    def sample(self, relation: int, size: int) -> tuple[NDArray[np.int64], Table]:
        """The entities that a sum of a relation runs over, and the logarithm of how many each stands for: [S], [S]."""
        everyone, objects = self._vectors.num_entities, self._known.candidates(relation)
        if size >= everyone:
            return np.arange(everyone), np.zeros(everyone, dtype=np.float32)
        rng = np.random.default_rng(relation)
        others = np.setdiff1d(np.arange(everyone, dtype=np.int32), objects, assume_unique=True)
        few = min(len(objects), size // 2)
        parts = [rng.choice(objects, few, replace=False), rng.choice(others, min(len(others), size - few), False)]
        sizes = np.array([len(part) for part in parts])
        left = np.repeat(np.log(np.array([len(objects), len(others)]) / np.maximum(sizes, 1)), sizes)
        return np.concatenate(parts).astype(np.int64), left.astype(np.float32)

    def _scores_with(self, relation: int, chosen: Ids, rows: int) -> Callable[[Ids], Tensor]:
        """What gives α φ(s, r, o) of some s and every o of `chosen`: [N] → [N, C].

        One side has to be walked. Where the model can walk back, it is the smaller one.
        """
        table = self._candidates.index_select(0, torch.from_numpy(chosen))
        if self._vectors.operators.linear_in_relations and len(chosen) < rows:
            entity = self._vectors.entity
            hops = torch.full((len(chosen),), relation)
            back = (self._scale * self._vectors.operators.hop_back(table.double(), hops)).float()

            def score(part: Ids) -> Tensor:
                with full_float32():
                    return entity.index_select(0, torch.from_numpy(part.astype(np.int64))).float() @ back.T
        else:

            def score(part: Ids) -> Tensor:
                vector = self._scale * self._vectors.walk(self._vectors.rows(part), [relation])
                with full_float32():
                    return vector.float() @ table.T

        return score

    def _with_facts(self, entities: Ids, relation: int, score: Tensor, chosen: Ids) -> Table:
        """The sums of a sample's weighted scores [N, S], in which the known objects stand for themselves."""
        row, target = self._known.facts_of(entities, relation)
        if not len(row):
            return score.logsumexp(dim=1).numpy()
        place = np.full(self._vectors.num_entities, -1)
        place[chosen] = np.arange(len(chosen))
        drawn = place[target] >= 0
        score[torch.from_numpy(row[drawn]), torch.from_numpy(place[target][drawn])] = -torch.inf
        with_facts, place_of = np.unique(row, return_inverse=True)
        vector = self._scale * self._vectors.walk(self._vectors.rows(entities[with_facts]), [relation])
        own = (vector[torch.from_numpy(place_of)] * self._vectors.candidates(target)).sum(dim=1).float()
        most = score.amax(dim=1)
        most = most.scatter_reduce(0, torch.from_numpy(row), own, "amax")
        total = (score - most[:, None]).exp().sum(dim=1)
        total = total.index_add(0, torch.from_numpy(row), (own - most[torch.from_numpy(row)]).exp())
        return (total.log() + most).numpy()


@final
@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The entities that rows of one relation lead to, all where none are named, and what is the same in every row.

    Shapes: table [C, width], behind [C] log n_b minus the normaliser of b, room [C] log η_o.
    """

    relation: int
    inverse: int
    entities: Ids | None
    table: Tensor
    behind: Table
    room: Table

    @property
    def index(self) -> Ids | slice:
        """Where they stand among all entities."""
        return slice(None) if self.entities is None else self.entities


@final
class Hops:
    """The probabilities of hops, by rows: from some entities to all, or to some, along one relation."""

    def __init__(
        self,
        vectors: Vectors,
        candidates: Tensor,
        known: KnownFacts,
        scale: float,
        curve: Curve | None,
        table: Table | None = None,
    ) -> None:
        self._vectors = vectors
        self._known = known
        self.scale = scale
        self.curve = curve
        self._candidates = candidates
        self.normalisers = Normalisers(vectors, candidates, known, scale, table)
        self._counts: dict[int, Table] = {}
        self._room: dict[int, Table] = {}

    def known_counts(self, relation: int) -> Table:
        """log max(n, 1) for the number n of known objects of (s, r), every s: [E]."""
        if relation not in self._counts:
            edges = self._known.edges
            groups = slice(edges.relation_start[relation], edges.relation_start[relation + 1])
            size = np.zeros(self._vectors.num_entities, dtype=np.float32)
            size[edges.group_source[groups]] = np.log(np.diff(edges.edge_start)[groups])
            self._counts[relation] = size
        return self._counts[relation]

    def log_room(self, relation: int) -> Table:
        """log η of every s: of the entities with at least as many known objects of r, the share that has more; [E].

        It is 0 for an s that has none: what is not known at all is missing. To take a count for a limit, two entities
        that have more are added, so that one which few reach proves nothing; to η itself, a quarter of one.
        """
        if relation not in self._room:
            edges = self._known.edges
            groups = slice(edges.relation_start[relation], edges.relation_start[relation + 1])
            size = np.diff(edges.edge_start)[groups]
            room = np.zeros(self._vectors.num_entities, dtype=np.float32)
            if len(size):
                ascending = np.sort(size)
                more = len(size) - np.searchsorted(ascending, size, side="right")
                as_many = len(size) - np.searchsorted(ascending, size, side="left")
                limit = (more + 2) / (as_many + 2) < _FULL
                room[edges.group_source[groups]] = np.where(limit, np.log((more + 0.25) / (as_many + 0.25)), 0.0)
            self._room[relation] = room
        return self._room[relation]

    def columns(self, relation: int, targets: Ids | None = None) -> Columns:
        """What rows of a relation are computed with, for hops to some entities or to every one."""
        index = slice(None) if targets is None else targets
        inverse = self._known.graph.inverse(relation)
        table = self._candidates
        if targets is not None:  # which is several times as fast as brackets
            table = table.index_select(0, torch.from_numpy(targets.astype(np.int64)))
        behind = self.known_counts(inverse)[index] - self.normalisers.of(inverse)[index]
        return Columns(relation, inverse, targets, table, behind, self.log_room(inverse)[index])

    def values(self, sources: Ids, columns: Columns) -> Table:
        """p of the hop from each source to each column, facts as if they were none: [S, C].

        Without a curve it is x. Each number is the same bit for bit whatever sources come with it.
        """
        value = self.shares(sources, columns)
        if self.curve is not None:
            value = self.curve.probability(value)
        return np.minimum(value, np.float32(SURE), out=value)

    def shares(self, sources: Ids, columns: Columns) -> Table:
        """x of the hop from each source to each column: [S, C].

        A tenth of an even share is added: no model is so sure that something is wrong as its exponents make it seem.
        """
        relation = columns.relation
        ahead = self.known_counts(relation)[sources] - self.normalisers.of(relation)[sources]
        room = self.log_room(relation)[sources]
        forward, backward = self._scores(sources, columns)
        forward += (ahead + room)[:, None]
        forward += columns.room
        backward += columns.behind + columns.room
        backward += room[:, None]
        if np.isnan(forward).any() or np.isnan(backward).any():
            raise diverged("the model's scores for this query")
        for score in (forward, backward):
            np.exp(np.minimum(score, HIGHEST, out=score), out=score)
        forward += backward
        forward *= np.float32(0.5)
        forward += np.float32(0.1 / self._vectors.num_entities)
        return forward

    def _scores(self, sources: Ids, columns: Columns) -> tuple[Table, Table]:
        """α φ(s, r, o) and α φ(o, r⁻¹, s): [S, C], [S, C]."""
        padded = np.concatenate([sources, np.repeat(sources[-1:], -len(sources) % LANES)])
        lanes = [self._lane(padded[first : first + LANES], columns) for first in range(0, len(padded), LANES)]
        forward, backward = (np.empty((len(padded), len(columns.table)), dtype=np.float32) for _ in range(2))
        # A part of the table is multiplied with every lane while it is in the cache.
        size = max(LANES, _CACHED // columns.table.shape[1] // LANES * LANES)
        with full_float32(), torch_threads(1):  # products so small are over before other threads would have begun
            for first in range(0, len(columns.table), size):
                part = columns.table[first : first + size].T
                for place, (ahead, behind) in enumerate(lanes):
                    rows, own = slice(place * LANES, (place + 1) * LANES), slice(first, first + size)
                    score = (ahead @ part).numpy()
                    forward[rows, own] = score[:LANES]
                    backward[rows, own] = score[-LANES:] if behind is None else behind[:, own]
        return forward[: len(sources)], backward[: len(sources)]

    def _lane(self, sources: Ids, columns: Columns) -> tuple[Tensor, Table | None]:
        """What a table of candidates is multiplied with for the scores of a lane ahead, and then behind.

        Where the model says nothing of how to walk back, the scores behind come as they are.
        """
        operators, start = self._vectors.operators, self._vectors.rows(sources)
        forward = self.scale * self._vectors.walk(start, [columns.relation])
        if operators.tied:
            return forward.float(), None
        if operators.linear_in_relations:
            backward = self.scale * operators.hop_back(start, torch.full((len(sources),), columns.inverse))
            return torch.cat([forward, backward]).float(), None
        # Every target asks for the sources.
        targets = np.arange(self._vectors.num_entities) if columns.entities is None else columns.entities
        answer = (self.scale * self._vectors.candidates(sources)).float()
        asked = [
            self._vectors.walk(self._vectors.rows(targets[first : first + _WALKED]), [columns.inverse]).float()
            @ answer.T
            for first in range(0, len(targets), _WALKED)
        ]
        return forward.float(), torch.cat(asked).T.contiguous().numpy()
