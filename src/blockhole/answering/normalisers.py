"""The normalisers of shares: sums over all objects of (s, r), for every s and r, exact or by a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from blockhole.answering.vectors import Floats, Table

if TYPE_CHECKING:
    from blockhole.answering.known import KnownFacts
    from blockhole.answering.vectors import Vectors

Ids = NDArray[np.integer]

_LEAST_SAMPLE = 128
"""Entities that a sampled normaliser runs over at least."""
_LARGEST_SAMPLE = 1024
"""Entities that a sampled normaliser runs over at most."""
_BUDGET = 2e9
"""Products of numbers that the normalisers of one relation may cost while somebody waits for an answer."""
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
        self, vectors: Vectors, candidates: Table, known: KnownFacts, scale: float | Floats, table: Table | None = None
    ) -> None:
        self._vectors = vectors
        self._candidates = candidates
        self._known = known
        self._scale = scale
        self.rows: dict[int, Table] = {}
        self._table = table

    def of(self, relation: int) -> Table:
        """The normalisers of a relation for every entity: [E]."""
        if relation not in self.rows:
            rows = np.full(self._vectors.num_entities, np.nan, dtype=np.float32)
            if self._table is not None:  # entities that were added later are not in it
                rows[: self._table.shape[1]] = self._table[relation]
            missing = np.flatnonzero(np.isnan(rows))
            if len(missing):
                rows[missing] = self.sums(missing, relation, self.affordable(len(missing), _BUDGET))
            self.rows[relation] = rows
        return self.rows[relation]

    def affordable(self, rows: int, budget: float) -> int:
        """How many entities each of so many sums may run over, for a number of products of numbers."""
        # The exponential of a score costs about as much as sixty products of numbers.
        affordable = int(budget / max(rows * (self._vectors.width + 64), 1))
        if affordable >= self._vectors.num_entities:
            return self._vectors.num_entities
        return min(max(affordable, _LEAST_SAMPLE), _LARGEST_SAMPLE)

    @np.errstate(over="ignore", invalid="ignore")  # a run that has diverged is refused when its shares are asked for
    def sums(self, entities: Ids, relation: int, sample: int) -> Table:
        """The normalisers of some entities, over all entities or a `sample` of them: [N] → [N]."""
        chosen, left = self.sample(relation, sample)
        score_of = self._scores_with(relation, chosen, len(entities))
        found = np.empty(len(entities), dtype=np.float32)
        size = max(1, min(4096, _AT_ONCE // max(len(chosen), 1)))
        for first in range(0, len(entities), size):
            part = entities[first : first + size]
            score = score_of(part)
            if len(chosen) < self._vectors.num_entities:
                score += left
                found[first : first + size] = self._with_facts(part, relation, score, chosen)
            else:
                found[first : first + size] = log_sum_exp(score)
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

    def _scores_with(self, relation: int, chosen: Ids, rows: int) -> Callable[[Ids], Table]:
        """What gives α φ(s, r, o) of some s and every o of `chosen`: [N] → [N, C].

        One side has to be walked. Where the model can walk back, it is the smaller one.
        """
        table = self._candidates if len(chosen) == len(self._candidates) else self._candidates[chosen]
        if self._vectors.model.has_matrices and len(chosen) < rows:
            entity, hops = self._vectors.entity, np.full(len(chosen), relation)
            back = (self._scale * self._vectors.model.hop_back(table.astype(np.float64), hops)).astype(np.float32)

            def score(part: Ids) -> Table:
                return entity[part].astype(np.float32) @ back.T
        else:

            def score(part: Ids) -> Table:
                vector = self._scale * self._vectors.walk(self._vectors.rows(part), [relation])
                return vector.astype(np.float32) @ table.T

        return score

    def _with_facts(self, entities: Ids, relation: int, score: Table, chosen: Ids) -> Table:
        """The sums of a sample's weighted scores [N, S], in which the known objects stand for themselves."""
        row, target = self._known.facts_of(entities, relation)
        if not len(row):
            return log_sum_exp(score)
        place = np.full(self._vectors.num_entities, -1)
        place[chosen] = np.arange(len(chosen))
        drawn = place[target] >= 0
        score[row[drawn], place[target][drawn]] = -np.inf
        with_facts, place_of = np.unique(row, return_inverse=True)
        vector = self._scale * self._vectors.walk(self._vectors.rows(entities[with_facts]), [relation])
        own = (vector[place_of] * self._vectors.candidates(target)).sum(axis=1).astype(np.float32)
        most = score.max(axis=1)
        np.maximum.at(most, row, own)
        score -= most[:, None]
        total = np.exp(score, out=score).sum(axis=1)
        np.add.at(total, row, np.exp(own - most[row]))
        found: Table = np.log(total) + most
        return found


def log_sum_exp(score: Table) -> Table:
    """log Σ exp of each row, which is written over: [N, C] → [N]."""
    most = score.max(axis=1)
    score -= most[:, None]
    found: Table = np.log(np.exp(score, out=score).sum(axis=1)) + most
    return found
