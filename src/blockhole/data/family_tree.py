"""Synthetic family trees of any size, with the relations of the bundled `family` graph and known ground truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.edge_split import check_shares, split_edges
from blockhole.errors import DataError, grouped
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary

# What follows from who was whose child and whose spouse: all facts of a family, in the relations of Figure 1.


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


# Synthetic family trees of any size, with the relations of the bundled `family` graph and known ground truth.


MIN_PEOPLE: Final = 7
MAX_PEOPLE: Final = 100_000_000

_GROWTH = 1.3  # each generation is this much larger than its parents'
_INCOMERS = 0.15  # share of a generation that marries in: its parents are not in the tree
_SINGLE = 0.15  # share that never marries
_REMARRIED = 0.05  # share of husbands who marry a second time: their children make half-siblings
_STAYED = 0.7  # share of children born where their father was

# fmt: off
_BOYS = ("Adam", "Ben", "Carl", "David", "Emil", "Felix", "Gustav", "Hugo", "Ivan", "Jacob", "Leo", "Max", "Noah")
_GIRLS = ("Anna", "Bella", "Clara", "Dora", "Emma", "Freya", "Greta", "Hanna", "Ida", "Julia", "Kira", "Lena", "Maria")
_PLACES = ("Ashford", "Birchwood", "Clayton", "Dunmore", "Eastbrook", "Fairview", "Glenfield", "Hillcrest", "Kingsley")
_COUNTRIES = ("Arcadia", "Borduria", "Carpania", "Dalmara", "Estoria")
# fmt: on


def generate_family(people: int, seed: int, *, valid: float = 0.075, test: float = 0.075) -> SplitGraph:
    """A family of `people` people over several generations, its facts split at random; equal seeds, equal graphs.

    The ground truth is the graph of all three splits: it holds every fact that follows from parents, marriages and
    birthplaces, and no other. Entities are the people, oldest generation first, then places, then countries; each
    has a fact in train.
    """
    if not MIN_PEOPLE <= people <= MAX_PEOPLE:
        raise DataError(
            f"a family tree of {grouped(people)} people cannot be made; ask for {MIN_PEOPLE} to {MAX_PEOPLE:,}."
        )
    if seed < 0:
        raise DataError(f"the seed of a family tree cannot be {seed}; give a whole number of at least 0.")
    check_shares(valid, test)
    rng = np.random.default_rng(seed)
    places = math.ceil(math.sqrt(people))
    countries = math.ceil(math.sqrt(places))
    kinship = _grow(people, places, countries, rng)
    names = _people_names(kinship.male, rng) + _numbered(_PLACES, places) + _numbered(_COUNTRIES, countries)
    relations = Vocabulary(RELATIONS, kind="relation")
    return split_edges(Vocabulary(names), relations, kinship.facts(), rng, valid=valid, test=test)


def _grow(people: int, places: int, countries: int, rng: np.random.Generator) -> Kinship:
    """Raise one generation after the other, each from the marriages of the one before."""
    male = rng.random(people) < 0.5
    birthplace = rng.integers(places, size=people)
    couples = [np.zeros((0, 2), dtype=np.int64)]
    parents = [np.zeros((0, 2), dtype=np.int64)]
    children = [np.zeros(0, dtype=np.int64)]
    start = 0
    for size in _generation_sizes(people):
        end = start + size
        natives = size - max(1, round(_INCOMERS * size)) if start else 0
        child = np.arange(start, start + natives)
        parents.append(couples[-1][rng.integers(len(couples[-1]), size=natives)] if natives else parents[0])
        children.append(child)
        stayed = child[rng.random(natives) < _STAYED]
        birthplace[stayed] = birthplace[parents[-1][stayed - start, 0]]
        # The first and the last of a generation can always marry: one of them has no parents in the tree.
        male[start], male[end - 1] = True, False
        couples.append(start + _marry(male[start:end], parents[-1], rng))
        start = end
    father, mother = np.concatenate(parents).T
    born = np.concatenate(children)
    place = people + np.arange(places)
    return Kinship(
        male=male,
        father_of=_pairs(father, born),
        mother_of=_pairs(mother, born),
        couples=np.concatenate(couples).astype(np.int32),
        born_in=_pairs(np.arange(people), people + birthplace),
        located_in=_pairs(place, people + places + np.arange(places) % countries),
    )


def _generation_sizes(people: int) -> list[int]:
    """Sizes that grow by `_GROWTH` and add up to `people`, the oldest generation first and of 2 at least."""
    generations = min(max(int(math.log2(people)), 3), 8)
    ends = np.cumsum(_GROWTH ** np.arange(generations))
    sizes: list[int] = np.diff(np.rint(people * ends / ends[-1]).astype(np.int64), prepend=0).tolist()
    return sizes


def _marry(male: NDArray[np.bool_], parents: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Couples (husband, wife) within one generation, never siblings; positions in the generation, [couples, 2].

    `parents` [natives, 2] are those of its first members; the others have none in the tree.
    """
    men, women = rng.permutation(np.flatnonzero(male)), rng.permutation(np.flatnonzero(~male))
    married = int((1 - _SINGLE) * min(len(men), len(women)))
    again = min(int(_REMARRIED * married), len(women) - married)
    husband = np.concatenate([men[:married], men[:again]])
    couples = np.stack([husband, women[: married + again]], axis=1)
    both_native = (couples < len(parents)).all(axis=1)
    siblings = np.zeros(len(couples), dtype=bool)
    siblings[both_native] = np.equal(*parents[couples[both_native].T]).any(axis=1)
    couples = couples[~siblings]
    return couples if len(couples) else np.array([[0, len(male) - 1]])


def _people_names(male: NDArray[np.bool_], rng: np.random.Generator) -> list[str]:
    """A first name for each person; bearers of one name are numbered: Anna, Anna2, Anna3."""
    stems = _BOYS + _GIRLS
    stem = rng.integers(len(_BOYS), size=len(male)) + np.where(male, 0, len(_BOYS))
    order = np.argsort(stem, kind="stable")
    bearers = np.bincount(stem, minlength=len(stems))
    number = np.empty(len(male), dtype=np.int64)
    number[order] = np.arange(len(male)) - np.repeat(np.cumsum(bearers) - bearers, bearers)
    return [_name(stems[s], n) for s, n in zip(stem.tolist(), number.tolist(), strict=True)]


def _numbered(stems: tuple[str, ...], count: int) -> list[str]:
    return [_name(stems[i % len(stems)], i // len(stems)) for i in range(count)]


def _name(stem: str, earlier: int) -> str:
    """The name of the next bearer of `stem` after `earlier` others."""
    return f"{stem}{earlier + 1}" if earlier else stem


def _pairs(left: NDArray[np.int64], right: NDArray[np.int64]) -> Pairs:
    return np.stack([left, right], axis=1).astype(np.int32)
