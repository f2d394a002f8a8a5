"""What follows from who was whose child and whose spouse: all facts of a family, in the relations of Figure 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

RELATIONS: Final = ("fatherOf", "motherOf", "brotherOf", "sisterOf", "spouseOf", "bornIn", "locatedIn")
"""The relations of every family graph, in id order."""

Pairs = NDArray[np.int32]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Kinship:
    """A family written down once: sexes, and the pairs from which every other fact follows.

    All ids share one space: people 0 … P-1, then places and countries. Shapes: male [P] bool; father_of (father,
    child), mother_of (mother, child), couples (each marriage once, either order), born_in (person, place) and
    located_in (place, country) are [count, 2] int32. A missing pair means that the fact is not known.
    """

    male: NDArray[np.bool_]
    father_of: Pairs
    mother_of: Pairs
    couples: Pairs
    born_in: Pairs
    located_in: Pairs

    def facts(self) -> NDArray[np.int32]:
        """All facts [T, 3], each once, sorted by (relation, source, target); relation ids are those of `RELATIONS`.

        Two people are siblings when they share a parent, so half-siblings are siblings too.
        """
        siblings = _distinct(np.concatenate([_same_parent(self.father_of), _same_parent(self.mother_of)]))
        brother = self.male[siblings[:, 0]]
        columns = (
            self.father_of,
            self.mother_of,
            siblings[brother],
            siblings[~brother],
            np.concatenate([self.couples, self.couples[:, ::-1]]),
            self.born_in,
            self.located_in,
        )
        return np.concatenate([_as_triples(_distinct(pairs), r) for r, pairs in enumerate(columns)])


def _same_parent(parent_of: Pairs) -> Pairs:
    """Ordered pairs of distinct children with one parent in common: (parent, child) [count, 2] → [pairs, 2]."""
    parent, child = parent_of[np.argsort(parent_of[:, 0], kind="stable")].T
    _, first, size = np.unique(parent, return_index=True, return_counts=True)
    # Each child meets every member of its own group: its row is repeated once for each of them.
    meetings, group_first = np.repeat(size, size), np.repeat(first, size)
    within = np.arange(meetings.sum()) - np.repeat(np.cumsum(meetings) - meetings, meetings)
    pairs = np.stack([np.repeat(child, meetings), child[np.repeat(group_first, meetings) + within]], axis=1)
    distinct: Pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return distinct


def _distinct(pairs: Pairs) -> Pairs:
    """The pairs sorted, each once."""
    width = int(pairs.max(initial=0)) + 1
    key = np.sort(pairs[:, 0].astype(np.int64) * width + pairs[:, 1])
    # np.unique would hash the keys: several times slower than sorting at millions of them.
    key = key[np.diff(key, prepend=-1) > 0]
    return np.stack(np.divmod(key, width), axis=1).astype(np.int32)


def _as_triples(pairs: Pairs, relation: int) -> NDArray[np.int32]:
    return np.insert(pairs, 1, relation, axis=1)
