"""The words of entity names as facts, so that entities that share a word share what is learned about it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError
from blockhole.graph.split import SplitGraph
from blockhole.graph.vocabulary import Vocabulary

WORD = "word"
"""The relation from an entity to a word of its name; the words are entities called `word:…`."""

SHARED_BY = 2
"""Entities that must have a word for it to count: a word of one name says nothing about others."""

_LETTERS = re.compile(r"[^\W\d_]+")


def with_words(split: SplitGraph) -> SplitGraph:
    """The split with train facts (e, word, w) for every word w of the name of e that other names have too.

    Words are runs of letters, in small letters. The ids of entities and relations stay; words and the relation come
    after them. Valid and test stay as they are: of an entity that is only there, train then knows its words alone.
    """
    if WORD in split.relations:
        raise DataError(f"the data has a relation {WORD!r} already; rename it before words of names are added.")
    words = [sorted(set(_LETTERS.findall(name.lower()))) for name in split.entities]
    names = Counter(word for each in words for word in each)
    shared = sorted(word for word, count in names.items() if count >= SHARED_BY)
    number = {word: len(split.entities) + place for place, word in enumerate(shared)}
    relation = len(split.relations)
    facts = [(entity, relation, number[word]) for entity, each in enumerate(words) for word in each if word in number]
    return replace(
        split,
        entities=Vocabulary([*split.entities, *(f"{WORD}:{word}" for word in shared)], "entity"),
        relations=Vocabulary([*split.relations, WORD], "relation"),
        train=np.concatenate([split.train, np.array(facts, dtype=np.int32).reshape(-1, 3)]),
    )


def words_of(split: SplitGraph) -> NDArray[np.int64]:
    """The pairs of an entity and the number of a word that `with_words` put among the train facts; [count, 2]."""
    facts = split.train[split.train[:, 1] == split.relations.id(WORD)]
    pairs: NDArray[np.int64] = facts[:, [0, 2]].astype(np.int64)
    _, pairs[:, 1] = np.unique(pairs[:, 1], return_inverse=True)
    return pairs
