"""Words of entity names as facts."""

from __future__ import annotations

import numpy as np
import pytest

from blockhole.data.words import with_words, words_of
from blockhole.errors import DataError
from blockhole.graph.split import SplitGraph
from blockhole.graph.vocabulary import Vocabulary


def split_of(entities: list[str], relations: list[str]) -> SplitGraph:
    line = np.array([[0, 0, 1]], dtype=np.int32)
    return SplitGraph(Vocabulary(entities), Vocabulary(relations, "relation"), train=line, valid=line[:, [2, 1, 0]])


def test_entities_that_share_a_word_share_a_neighbour() -> None:
    split = split_of(["__genus_Rosa_1", "__genus_acer_2", "__rosa_rosa_1", "Rosalía", "maría_rosalía"], ["type_of"])
    worded = with_words(split)
    assert list(worded.entities)[5:] == ["word:genus", "word:rosa", "word:rosalía"]
    assert list(worded.relations) == ["type_of", "word"]
    # Once for each name, however often it has the word; acer and maría are in one name only.
    added = [(0, 1, 5), (0, 1, 6), (1, 1, 5), (2, 1, 6), (3, 1, 7), (4, 1, 7)]
    assert worded.train.tolist() == [[0, 0, 1], *map(list, added)]
    assert worded.valid is split.valid
    assert words_of(worded).tolist() == [[entity, word - 5] for entity, _, word in added]
    assert len(split.train) == 1


def test_names_without_a_common_word() -> None:
    split = split_of(["a1", "b2", "17"], ["r"])
    worded = with_words(split)
    assert worded.train.tolist() == split.train.tolist()
    assert worded.train.dtype == np.int32
    assert words_of(worded).shape == (0, 2)
    assert list(worded.entities) == ["a1", "b2", "17"]


def test_a_relation_of_that_name() -> None:
    with pytest.raises(DataError, match="the data has a relation 'word' already; rename it before words"):
        with_words(split_of(["a", "b"], ["word"]))
