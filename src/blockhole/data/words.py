"""The words of entity names as facts, so that entities that share a word share what is learned about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet
from blockhole.errors import DataError
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.path_sets import PATH_PARTS, PathSplits
from blockhole.queries.paths import PathQueries

WORD = "word"
"""The relation from an entity to a word of its name; the words are entities called `word:…`."""

SHARED_BY = 2
"""Entities that must have a word for it to count: a word of one name says nothing about others."""

_LETTERS = re.compile(r"[^\W\d_]+")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words that names share, in the order of the alphabet, and who has them.

    Shapes: pairs [count, 2], int32: an entity, and the place in `words` of a word of its name.
    """

    words: tuple[str, ...]
    pairs: NDArray[np.int32]

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Words:
        """The words, runs of letters in small letters, that at least two of the names have."""
        words = [sorted(set(_LETTERS.findall(name.lower()))) for name in names]
        having = Counter(word for each in words for word in each)
        shared = tuple(sorted(word for word, count in having.items() if count >= SHARED_BY))
        place = {word: number for number, word in enumerate(shared)}
        pairs = [(entity, place[word]) for entity, each in enumerate(words) for word in each if word in place]
        return cls(shared, np.array(pairs, dtype=np.int32).reshape(-1, 2))


def with_words(data: DataSet, words: Words, copies: int = 1) -> DataSet:
    """The data set with a train fact (e, word, w) for every pair of `words`.

    The ids of entities and relations stay; words and the relation come after them. Valid and test stay as they are: of
    an entity that is only there, train then knows its words alone. Path queries stay too, and the train paths get
    every new fact as a path of one hop, `copies` times: there are many more paths than facts.
    """
    split = data.split
    if WORD in split.relations:
        raise DataError(f"the data has a relation {WORD!r} already; rename it before words of names are added.")
    relation = len(split.relations)
    facts = np.empty((len(words.pairs), 3), dtype=np.int32)
    facts[:, 0], facts[:, 1], facts[:, 2] = words.pairs[:, 0], relation, len(split.entities) + words.pairs[:, 1]
    worded = replace(
        split,
        entities=Vocabulary([*split.entities, *(f"{WORD}:{word}" for word in words.words)], "entity"),
        relations=Vocabulary([*split.relations, WORD], "relation"),
        train=np.concatenate([split.train, facts]),
    )
    if not data.has_paths:
        return DataSet(data.name, worded)
    parts = {part: _with_one_more_relation(data.paths(part), relation) for part in PATH_PARTS}
    parts["train"] = PathQueries.concatenate([parts["train"], *[PathQueries.from_triples(facts)] * copies])
    return DataSet(data.name, worded, splits=PathSplits(**parts))


def _with_one_more_relation(queries: PathQueries, relations: int) -> PathQueries:
    """The queries in the ids of a graph with one relation more: those of inverses, R + r, move up by one."""
    path = np.where(queries.path >= relations, queries.path + np.int32(1), queries.path)
    return PathQueries(queries.source, path, queries.length, queries.target)


def words_of(split: SplitGraph) -> NDArray[np.int64]:
    """The pairs of an entity and the number of a word that `with_words` put among the train facts; [count, 2]."""
    facts = split.train[split.train[:, 1] == split.relations.id(WORD)]
    pairs: NDArray[np.int64] = facts[:, [0, 2]].astype(np.int64)
    _, pairs[:, 1] = np.unique(pairs[:, 1], return_inverse=True)
    return pairs
