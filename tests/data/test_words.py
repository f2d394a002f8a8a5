"""Words of entity names as facts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from blockhole.data.dataset import DataSet
from blockhole.data.words import Words, count_words, read_texts, with_names, with_words, without_words, words_of
from blockhole.errors import DataError, MalformedFile
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.path_sets import PATH_PARTS, PathSplits
from blockhole.queries.paths import PathQueries


def data_of(entities: list[str], relations: list[str], *, splits: PathSplits | None = None) -> DataSet:
    line = np.array([[0, 0, 1]], dtype=np.int32)
    split = SplitGraph(
        Vocabulary(entities), Vocabulary(relations, "relation"), train=line, valid=line[:, [2, 1, 0]].copy()
    )
    return DataSet("small", split, splits=splits)


def worded(data: DataSet, copies: int = 1) -> DataSet:
    return with_words(data, Words.of_names(data.split.entities), copies)


def test_entities_that_share_a_word_share_a_neighbour() -> None:
    plain = data_of(["__genus_Rosa_1", "__genus_acer_2", "__rosa_rosa_1", "Rosalía", "maría_rosalía"], ["type_of"])
    split = worded(plain).split
    assert list(split.entities)[5:] == ["word:genus", "word:rosa", "word:rosalía"]
    assert list(split.relations) == ["type_of", "word"]
    # Once for each name, however often it has the word; acer and maría are in one name only.
    added = [(0, 1, 5), (0, 1, 6), (1, 1, 5), (2, 1, 6), (3, 1, 7), (4, 1, 7)]
    assert split.train.tolist() == [[0, 0, 1], *map(list, added)]
    assert split.valid is plain.split.valid
    assert words_of(split).tolist() == [[entity, word - 5] for entity, _, word in added]
    assert len(plain.split.train) == 1


def test_paths_mean_the_same_in_the_ids_of_one_more_relation() -> None:
    # Over r, s with ids 0, 1 and inverses 2, 3: from a along r/^s to b, and one hop ^r from b to a.
    paths = PathQueries(
        source=np.array([0, 1], dtype=np.int32),
        path=np.array([[0, 3], [2, 0]], dtype=np.int32),
        length=np.array([2, 1], dtype=np.int32),
        target=np.array([1, 0], dtype=np.int32),
    )
    plain = data_of(["x_a", "x_b"], ["r", "s"], splits=PathSplits(**dict.fromkeys(PATH_PARTS, paths)))
    names = plain.split.graph("train")
    data = worded(plain, copies=3)
    for part in PATH_PARTS:
        queries, graph = data.paths(part), data.split.graph("train")
        for row, length in enumerate(paths.length):
            hops = range(length)
            assert [graph.relation_name(queries.path[row, hop]) for hop in hops] == [
                names.relation_name(paths.path[row, hop]) for hop in hops
            ]
    train = data.paths("train")
    assert len(data.paths("dev_induction")) == 2
    # Both names have x, whose entity is 2: each fact three times, as a path of the relation 2.
    assert train.source.tolist() == [0, 1, *[0, 1] * 3]
    assert train.path[2:, 0].tolist() == [2] * 6
    assert train.length[2:].tolist() == [1] * 6
    assert train.target[2:].tolist() == [2] * 6
    assert len(data.split.train) == 3


def test_names_without_a_common_word() -> None:
    plain = data_of(["a1", "b2", "17"], ["r"])
    split = worded(plain).split
    assert split.train.tolist() == plain.split.train.tolist()
    assert split.train.dtype == np.int32
    assert words_of(split).shape == (0, 2)
    assert list(split.entities) == ["a1", "b2", "17"]


def test_a_relation_of_that_name() -> None:
    with pytest.raises(DataError, match="the data has a relation 'word' already; rename it before words"):
        worded(data_of(["a", "b"], ["word"]))


def test_letters_among_digits_are_no_words_nor_is_what_most_names_have() -> None:
    words = Words.of_names(["http://a.org/0dk3b_red", "http://a.org/0dk4b_red", "http://a.org/Q42_blue", "Q43_blue"])
    assert words.words == ("a", "blue", "http", "org", "red")
    telling = words.telling(4)
    assert telling.words == ("blue", "red")
    assert telling.pairs.tolist() == [[0, 1], [1, 1], [2, 0], [3, 0]]


def test_words_of_names_go_in_and_out_again() -> None:
    plain = data_of(["red ball", "red cube", "blue ball", "x7", "x8"], ["r"])
    data = with_names(plain)
    assert [*data.split.entities][5:] == ["word:ball", "word:red"]
    assert count_words(data.split) == 2
    back = without_words(data).split
    assert (back.entities, back.relations) == (plain.split.entities, plain.split.relations)
    assert back.train.tolist() == plain.split.train.tolist()


def test_names_that_are_numbers_teach_nothing() -> None:
    with pytest.raises(DataError, match=r"0 entities of 3 share a word .* names such as 'Q1'; train without names, or"):
        with_names(data_of(["Q1", "Q2", "Q42"], ["r"]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("texts.csv", 'id,label,about\nQ1,"red, round",ball\nQ2,cube,red\nQ2,again,\nQ9,red,\n'),
        ("texts.tsv", "Q1\tred, round\tball\nQ2\tcube\tred\nQ2\tagain\n"),
    ],
)
def test_a_table_of_texts_speaks_for_entities_without_names(tmp_path: Path, name: str, content: str) -> None:
    table = tmp_path / name
    table.write_text(content, encoding="utf-8-sig")
    told = read_texts(table)
    assert (told["Q1"], told["Q2"].split()) == ("red, round ball", ["cube", "red", "again"])
    data = with_names(data_of(["Q1", "Q2", "Q42", "Q43"], ["r"]), table)
    assert [*data.split.entities][4:] == ["word:red"]
    assert words_of(data.split).tolist() == [[0, 0], [1, 0]]


def test_texts_in_parquet(tmp_path: Path) -> None:
    import polars as pl

    pl.DataFrame({"id": ["Q1", "Q2"], "size": [1, 2], "about": ["red", None]}).write_parquet(tmp_path / "t.parquet")
    assert read_texts(tmp_path / "t.parquet") == {"Q1": "red", "Q2": ""}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"Q1\nQ2\n", "there is no column of texts; put the names of entities into the first column"),
        (b"Q1,\xff\n", "it is not text in UTF-8; save it as UTF-8"),
        (b"", "there is no column of texts"),
    ],
)
def test_tables_without_texts(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "texts.csv").write_bytes(content)
    with pytest.raises(MalformedFile, match=problem):
        read_texts(tmp_path / "texts.csv")


def test_texts_about_others(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="has none of the entities in its first column, such as 'Q1'; put their names"):
        with_names(data_of(["Q1", "Q2"], ["r"]), tmp_path / "texts.csv")
