"""Graphs as folders of ids: `facts.parquet` beside lists of names, and folders as BetaE was published."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from blockhole.errors import DataError
from blockhole.files.readers import read_graph, read_split
from tests.files.published import ENTITIES, FACTS, RELATIONS, write_pickle, write_published


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    (tmp_path / "entities.txt").write_text("".join(f"{name}\n" for name in ENTITIES))
    (tmp_path / "relations.txt").write_text("".join(f"{name}\n" for name in RELATIONS))
    rows = [(split, *fact) for split, facts in FACTS.items() for fact in facts]
    columns = pl.DataFrame(rows, schema=["split", "subject", "relation", "object"], orient="row")
    columns.write_parquet(tmp_path / "facts.parquet")
    return tmp_path


@pytest.mark.parametrize("layout", ["facts.parquet", "names by id", "ids by name"])
def test_facts_have_the_ids_and_names_of_their_files(ids: Path, tmp_path: Path, layout: str) -> None:
    folder = ids if layout == "facts.parquet" else write_published(tmp_path / "p", by_name=layout == "ids by name")
    split = read_split(folder)
    assert (list(split.entities), list(split.relations)) == (ENTITIES, RELATIONS)
    for name, facts in FACTS.items():
        assert getattr(split, name).tolist() == [list(fact) for fact in facts]


def test_a_train_file_comes_before_facts_by_id(ids: Path) -> None:
    (ids / "train.tsv").write_text("ann\tlikes\tbob\n")
    assert len(read_split(ids).train) == 1


def test_facts_by_id_are_no_file_of_names(ids: Path) -> None:
    with pytest.raises(
        DataError, match=r"facts by id, whose names are in the files beside it; name the folder instead"
    ):
        read_graph(ids / "facts.parquet")


BAD_FACTS = {
    "not a file of facts by id": pl.DataFrame({"split": ["train"], "subject": ["ann"], "relation": [0], "object": [1]}),
    "not a file of facts by id.*": pl.DataFrame({"a": [1], "b": [2]}),
    "the split 'dev', not train, valid or test": pl.DataFrame(
        {"split": ["train", "dev"], "subject": [0, 0], "relation": [0, 0], "object": [1, 1]}
    ),
    "an id is missing": pl.DataFrame({"split": ["train"], "subject": [None], "relation": [0], "object": [1]}),
    r"2 facts with ids beyond the 5 entities and 2 relations that entities.txt and relations.txt list, the first "
    r"\(5, 0, 1\); take all files from the same data set": pl.DataFrame(
        {"split": ["train"] * 3, "subject": [0, 5, 0], "relation": [0, 0, 2], "object": [1, 1, 1]}
    ),
    "no fact has the split train": pl.DataFrame({"split": ["test"], "subject": [0], "relation": [0], "object": [1]}),
}


@pytest.mark.parametrize("problem", BAD_FACTS)
def test_bad_facts_are_one_sentence(ids: Path, problem: str) -> None:
    BAD_FACTS[problem].write_parquet(ids / "facts.parquet")
    with pytest.raises(DataError, match=rf"facts\.parquet: {problem}"):
        read_split(ids)


def test_ids_without_names_are_refused(ids: Path) -> None:
    (ids / "relations.txt").unlink()
    with pytest.raises(DataError, match=r"has no relations\.txt, so that nothing says what its ids mean"):
        read_split(ids)


@pytest.mark.parametrize(
    ("file", "value", "problem"),
    [
        ("id2rel.pkl", {0: "likes", 1: "knows"}, r"'likes' is not followed by its inverse; number relations in pairs"),
        ("id2rel.pkl", {0: "+likes"}, r"'\+likes' is not followed by its inverse"),
        ("id2ent.pkl", {0: "ann", 2: "bob"}, r"not distinct names for the ids 0, 1, …"),
        ("id2ent.pkl", {0: "ann", 1: "ann"}, r"not distinct names for the ids 0, 1, …"),
        ("id2ent.pkl", ["ann"], r"not distinct names for the ids 0, 1, …"),
        ("id2ent.pkl", {0: "ann"}, r"8 facts with ids beyond the 1 entity and 4 relations that id2ent\.pkl"),
    ],
)
def test_bad_names_of_published_ids_are_one_sentence(tmp_path: Path, file: str, value: object, problem: str) -> None:
    write_published(tmp_path)
    write_pickle(tmp_path / file, value)
    with pytest.raises(DataError, match=problem):
        read_split(tmp_path)


def test_a_bad_line_of_published_facts_is_named(tmp_path: Path) -> None:
    write_published(tmp_path)
    (tmp_path / "valid.txt").write_text("0\t0\t1\n0\tlikes\t1\n")
    with pytest.raises(
        DataError, match=r"valid\.txt, line 2: '0\\tlikes\\t1' is not three ids; write source, relation"
    ):
        read_split(tmp_path)


def test_inverses_may_be_called_reverse(tmp_path: Path) -> None:
    write_published(tmp_path)
    names = [name for relation in RELATIONS for name in (relation, f"{relation}_reverse")]
    write_pickle(tmp_path / "id2rel.pkl", dict(enumerate(names)))
    assert list(read_split(tmp_path).relations) == RELATIONS
