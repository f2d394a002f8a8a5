"""Folders of train, valid and test files: which files, which ids, which warnings."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from blockhole.errors import MalformedFile
from blockhole.files.formats import bare_name, known_format
from blockhole.files.readers import UnseenEntities, read_graph, read_split


def write_files(folder: Path, **contents: str) -> Path:
    for name, content in contents.items():
        (folder / f"{name}.txt").write_text(content)
    return folder


def test_ids_follow_the_lists_then_first_appearance_over_train_valid_test(tmp_path: Path) -> None:
    write_files(tmp_path, train="b\tr\ta\nc\tq\tb\n", dev="c\tr\td\nd\tr\ta\n", test="e\tr\ta\n")
    write_files(tmp_path, entities="x\nc\r\n\n", relations="q\n")
    with pytest.warns(UnseenEntities):
        split = read_split(tmp_path)
    assert list(split.entities) == ["x", "c", "b", "a", "d", "e"]
    assert list(split.relations) == ["q", "r"]
    assert split.train.tolist() == [[2, 1, 3], [1, 0, 2]]
    assert split.valid.tolist() == [[1, 1, 4], [4, 1, 3]]
    assert split.test.tolist() == [[5, 1, 3]]


def test_labels_divide_valid_and_test(tmp_path: Path) -> None:
    train = "a\tr\tb\nb\tr\tc\n"
    write_files(tmp_path, train=train, dev="a\tr\tb\t1\na\tr\tc\t-1\n", test="c\tr\ta\t-1\n")
    split = read_split(tmp_path)
    assert split.valid.tolist() == [[0, 0, 1]]
    assert split.valid_negatives.tolist() == [[0, 0, 2]]
    assert split.test.tolist() == []
    assert split.test_negatives.tolist() == [[2, 0, 0]]


def test_formats_may_be_mixed_and_test_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "train.nt").write_text("<x:a> <x:r> <x:b> .\n")
    (tmp_path / "valid.csv").write_text("x:b,x:r,x:a\n")
    (tmp_path / "notes.md").write_text("not read")
    (tmp_path / "paths").mkdir()
    split = read_split(tmp_path)
    assert split.valid.tolist() == [[1, 0, 0]]
    assert split.test.shape == (0, 3)


def test_a_single_file_is_all_train(tmp_path: Path) -> None:
    write_files(tmp_path, facts="a\tr\tb\n")
    split = read_split(tmp_path / "facts.txt")
    assert split.train.tolist() == [[0, 0, 1]]
    assert len(split.valid) == len(split.test) == 0
    assert read_graph(str(tmp_path / "facts.txt")) == split.graph("train")


def test_names_unknown_to_train_are_kept_and_counted_in_one_warning(tmp_path: Path) -> None:
    write_files(tmp_path, train="a\tr\tb\n", valid="a\tr\tx\ny\tr\tx\n", test="a\tr\tb\na\tnew\tb\n", entities="a\nx\n")
    with pytest.warns(UnseenEntities) as caught:
        split = read_split(tmp_path)
    assert [str(warning.message) for warning in caught] == [
        f"{tmp_path}: 2 entities and 1 relation of valid and test, in 3 triples, never occur in train; "
        "they are kept, but nothing can be learned about them."
    ]
    assert caught[0].filename == __file__
    assert list(split.entities) == ["a", "x", "b", "y"]


OPENKE = {
    "entity2id": "3\nNew York\t1\na\t0\nb\t2\n",
    "relation2id": "2\nr\t0\ns\t1\n",
    "train2id": "2\n0 1 0\n1\t2\t1\n",
    "valid2id": "1\n2 0 1\n",
    "test2id": "1\r\n0 2 1\r\n",
}


def test_openke_writes_the_relation_last(tmp_path: Path) -> None:
    split = read_split(write_files(tmp_path, **OPENKE))
    assert list(split.entities) == ["a", "New York", "b"]
    assert list(split.relations) == ["r", "s"]
    assert split.train.tolist() == [[0, 0, 1], [1, 1, 2]]
    assert split.valid.tolist() == [[2, 1, 0]]
    assert split.test.tolist() == [[0, 1, 2]]
    assert read_graph(tmp_path / "test2id.txt").triples.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("train2id", "3\n0 1 0\n", "line 1: the first line says '3', but the number of lines after it is 1; "
         "write how many lines follow, or fetch the file again."),
        ("train2id", "2\n0 1 0\n0 1\n", "line 3: '0 1' is not three ids; write three ids, separated by a tab."),
        ("train2id", "1\n\n0 0 2\n", "line 3: an id that entity2id.txt or relation2id.txt does not have; "
         "write source, target, relation, in this order."),
        ("train2id", "", "the file is empty; write the number of lines, then three ids per line."),
        ("train2id", "0\n", "the file holds no facts; write one fact per line, or leave the file out."),
        ("entity2id", "2\na\t0\nb\t2\n", "line 3: id 2 where the ids should be 0 to 1, each once; "
         "number the names from 0 without gaps."),
        ("entity2id", "2\na\t0\na\t1\n", "line 3: 'a' is listed twice; keep one of the lines."),
        ("relation2id", "1\nr\n", "line 2: 'r' is not a name and an id; write a name and an id, separated by a tab."),
    ],
)  # fmt: skip
def test_bad_openke_files(tmp_path: Path, name: str, content: str, expected: str) -> None:
    write_files(tmp_path, **OPENKE | {name: content})
    with pytest.raises(MalformedFile) as failure:
        read_split(tmp_path)
    separator = ", " if expected.startswith("line") else ": "
    assert str(failure.value) == f"{tmp_path / f'{name}.txt'}{separator}{expected}"


@pytest.mark.parametrize(
    ("name", "bare", "known"),
    [
        ("train.tsv.gz", "train", True),
        ("TRAIN.TXT", "TRAIN", True),
        ("v1.2.nt.zst", "v1.2", True),
        ("train", "train", False),
        ("train.parquet.gz", "train", False),
        ("train.gz", "train", False),
        (".tsv", ".tsv", False),
    ],
)
def test_formats_are_told_by_suffix(name: str, bare: str, known: bool) -> None:
    assert bare_name(Path(name)) == bare
    assert (known_format(Path(name)) is not None) is known


REAL = {
    # entities, relations, train, valid, test, negatives of valid and test, unseen entities
    "wn11": (38_696, 11, 112_581, 2_609, 10_544, 2_609, 10_544, 357),
    "fb13": (75_043, 13, 316_232, 5_908, 23_733, 5_908, 23_733, 0),
    "fb15k-237": (14_541, 237, 272_115, 17_535, 20_466, 0, 0, 36),
    "wn18rr": (41_105, 11, 86_835, 3_034, 3_134, 0, 0, 391),
    "umls": (135, 46, 5_216, 652, 661, 0, 0, 0),
    "kinship": (104, 25, 8_544, 1_068, 1_074, 0, 0, 0),
}


@pytest.mark.parametrize("name", REAL)
def test_real_data(data_root: Path, name: str) -> None:
    *counts, unseen = REAL[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        split = read_split(data_root / name)
    arrays = (split.train, split.valid, split.test, split.valid_negatives, split.test_negatives)
    assert [len(split.entities), len(split.relations), *map(len, arrays)] == counts
    assert [f": {unseen} entities of" in str(warning.message) for warning in caught] == [True] * bool(unseen)
    assert not any(name.endswith("\r") for name in split.entities)
    first = (data_root / name / "train.txt").read_text().splitlines()[0].split("\t")
    source, relation, target = split.train[0].tolist()
    assert [split.entities[source], split.relations[relation], split.entities[target]] == first
