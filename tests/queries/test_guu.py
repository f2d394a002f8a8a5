"""Path files: round trips, and what is said of bad ones."""

from __future__ import annotations

import re
import tempfile
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.errors import DataError, MalformedFile
from blockhole.files.readers import UnseenEntities, read_split
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.path_sets import (
    PATH_PARTS,
    PathSplits,
    find_part_files,
    read_paths,
    write_path_splits,
    write_paths,
)
from blockhole.queries.paths import PathQueries

ENTITIES = Vocabulary(["anna", "bob", "carla"], "entity")
RELATIONS = Vocabulary(["knows", "likes"], "relation")


def same(a: PathQueries, b: PathQueries) -> bool:
    """Equal but for padding, which a file does not keep."""

    def rows(queries: PathQueries) -> list[tuple[int, list[int], int]]:
        columns = (queries.source.tolist(), queries.path.tolist(), queries.length.tolist(), queries.target.tolist())
        return [(s, path[:length], t) for s, path, length, t in zip(*columns, strict=True)]

    return rows(a) == rows(b)


def one_query() -> PathQueries:
    return PathQueries.from_triples(np.array([(0, 0, 1)], dtype=np.int32))


def write(folder: Path, text: str | bytes, name: str = "paths.tsv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_file_as_guu_writes_it(tmp_path: Path) -> None:
    path = write(tmp_path, "anna\tknows,**likes,knows\tbob\r\n\ncarla\t**knows\tanna\n")
    queries = read_paths(path, ENTITIES, RELATIONS)
    assert queries.source.tolist() == [0, 2]
    assert queries.path.tolist() == [[0, 3, 0], [2, 0, 0]]
    assert queries.length.tolist() == [3, 1]
    assert queries.target.tolist() == [1, 0]
    assert {array.dtype for array in (queries.source, queries.path, queries.length, queries.target)} == {
        np.dtype(np.int32)
    }


def test_what_is_written(tmp_path: Path) -> None:
    queries = PathQueries(
        source=np.array([0, 2], dtype=np.int32),
        path=np.array([[0, 3, 0], [2, 1, 1]], dtype=np.int32),
        length=np.array([3, 1], dtype=np.int32),
        target=np.array([1, 0], dtype=np.int32),
    )
    write_paths(queries, tmp_path / "a.tsv", ENTITIES, RELATIONS)
    assert (tmp_path / "a.tsv").read_text() == "anna\tknows,**likes,knows\tbob\ncarla\t**knows\tanna\n"
    write_paths(queries, tmp_path / "a.parquet", ENTITIES, RELATIONS)
    assert pl.read_parquet(tmp_path / "a.parquet").to_dict(as_series=False) == {
        "source": ["anna", "carla"],
        "path": ["knows,**likes,knows", "**knows"],
        "target": ["bob", "anna"],
    }


entity_names = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1)
relation_names = st.text(
    st.sampled_from('^*"<> \t\\/ab') | st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1
)


@st.composite
def named_queries(draw: st.DrawFn) -> tuple[PathQueries, Vocabulary, Vocabulary]:
    entities = draw(st.lists(entity_names, min_size=1, max_size=5, unique=True))
    relations = draw(st.lists(relation_names, min_size=1, max_size=3, unique=True))
    count, hops = draw(st.integers(0, 8)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return (
        PathQueries(
            source=rng.integers(0, len(entities), count, dtype=np.int32),
            path=rng.integers(0, 2 * len(relations), (count, hops), dtype=np.int32),
            length=rng.integers(1, hops + 1, count, dtype=np.int32),
            target=rng.integers(0, len(entities), count, dtype=np.int32),
        ),
        Vocabulary(entities, "entity"),
        Vocabulary(relations, "relation"),
    )


@given(named_queries(), st.sampled_from(["tsv", "tsv.gz", "tsv.zst", "txt", "parquet"]))
def test_round_trip(case: tuple[PathQueries, Vocabulary, Vocabulary], suffix: str) -> None:
    queries, entities, relations = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"paths.{suffix}"
        write_paths(queries, path, entities, relations)
        assert same(read_paths(path, entities, relations), queries)
        assert [file.name for file in Path(folder).iterdir()] == [path.name]


def test_published_files_come_back_byte_for_byte(data_root: Path, tmp_path: Path) -> None:
    with pytest.warns(UnseenEntities):
        split = read_split(data_root / "wn11")
    published = data_root / "wn11" / "paths" / "test_induction.tsv"
    queries = read_paths(published, split.entities, split.relations)
    assert len(queries) == 21_828
    write_paths(queries, tmp_path / "again.tsv", split.entities, split.relations)
    assert (tmp_path / "again.tsv").read_bytes() == published.read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("anna\tknows\tbob\nanna\tknows\n", "line 2: 2 columns instead of 3"),
        ("anna\tknows\tbob\t1\n", "4 columns instead of 3; write source, r1,**r2 and target, separated by tabs"),
        ("anna\tknows\tbob\n\nana\tknows\tbob\n", "line 3: unknown entity 'ana'; did you mean 'anna'?"),
        ("anna\tknows\tzzzzzz\n", "line 1: unknown entity 'zzzzzz'; it must be one of the data set's 3."),
        ("anna\tknows\tbob\nanna\tlikes,**knws\tbob\n", "line 2: unknown relation 'knws'; did you mean 'knows'?"),
        ("anna\tknows,,likes\tbob\n", "line 1: path 'knows,,likes' has an empty hop; write r1,**r2,r3 without gaps."),
        ("anna\tknows,**\tbob\n", "line 1: path 'knows,**' has an empty hop; write r1,**r2,r3 without gaps."),
        ("anna\t\tbob\n", "line 1: the relation is empty"),
        (b"anna\tknows\tb\xffb\n", "line 1: byte 0xff is not UTF-8"),
        ("anna\tknows/hates\tbob\n", "line 1: unknown relation 'hates'; it must be one of the data set's 2."),
        ("anna\tknows/likes,knows\tbob\n", "line 1: unknown relation 'knows/likes'; did you mean 'knows'?"),
        ("anna\tknows/\tbob\n", "line 1: unknown relation 'knows/'; did you mean 'knows'?"),
        ("anna\t/knows\tbob\n", "line 1: unknown relation '/knows'; did you mean 'knows'?"),
        ("anna\tknows/^\tbob\n", "line 1: unknown relation 'knows/^'; did you mean 'knows'?"),
        (
            "anna\t(knows|likes)\tbob\n",
            "line 1: path '(knows|likes)' cannot be read; one relation belongs here, such as ^fatherOf.",
        ),
        (
            'anna\t"knows\tbob\n',
            "line 1: path '\"knows' cannot be read; the quote that opens here is not closed.",
        ),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(MalformedFile) as caught:
        read_paths(path, ENTITIES, RELATIONS)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("knows/^likes", [0, 9]),
        ("^knows", [8]),
        ("knows^-1,likes", [8, 1]),
        ("a/b", [2]),
        ("a/b,knows", [2, 0]),
        ("^up", [3]),
        ("knows,^up", [0, 3]),
        ('"x,y",knows', [5, 0]),
        # a mark before a known name, and not the name that begins with one
        ("**down", [14]),
        ('"**down"', [7]),
    ],
)
def test_paths_are_read_as_queries_write_them_too(tmp_path: Path, text: str, hops: list[int]) -> None:
    relations = Vocabulary(["knows", "likes", "a/b", "^up", "z", "x,y", "down", "**down"], "relation")
    queries = read_paths(write(tmp_path, f"anna\t{text}\tbob\n"), ENTITIES, relations)
    assert queries.path.tolist() == [hops]
    assert queries.length.tolist() == [len(hops)]


def test_a_truncated_gzip_is_refused(tmp_path: Path) -> None:
    write_paths(one_query(), tmp_path / "whole.tsv.gz", ENTITIES, RELATIONS)
    path = write(tmp_path, (tmp_path / "whole.tsv.gz").read_bytes()[:-9], "cut.tsv.gz")
    with pytest.raises(MalformedFile, match="the compressed data ends early"):
        read_paths(path, ENTITIES, RELATIONS)


def test_an_unknown_name_in_parquet_is_named(tmp_path: Path) -> None:
    pl.DataFrame({"source": ["ana"], "path": ["knows"], "target": ["bob"]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(MalformedFile, match="unknown entity 'ana'; did you mean 'anna'"):
        read_paths(tmp_path / "x.parquet", ENTITIES, RELATIONS)


def test_an_empty_file_holds_no_queries(tmp_path: Path) -> None:
    queries = read_paths(write(tmp_path, ""), ENTITIES, RELATIONS)
    assert (len(queries), queries.path.shape) == (0, (0, 1))


def test_of_several_unknown_names_the_first_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "anna\tknows\tbob\nana\tknows\tbob\nbobb\tknows\tbob\n")
    with pytest.raises(MalformedFile, match="line 2: unknown entity 'ana'; did you mean 'anna'"):
        read_paths(path, ENTITIES, RELATIONS)


def test_of_several_names_the_nearest_is_offered_and_the_first_refused(tmp_path: Path) -> None:
    entities = Vocabulary(["hanna", "anna", "a\tb", "c\td"], "entity")
    path = write(tmp_path, "annna\tknows\thanna\n")
    assert entities.nearest("annna")[:2] == ["anna", "hanna"]
    with pytest.raises(MalformedFile, match=r"line 1: unknown entity 'annna'; did you mean 'anna'\?$"):
        read_paths(path, entities, RELATIONS)
    queries = PathQueries.from_triples(np.array([(3, 0, 2)], dtype=np.int32))
    with pytest.raises(DataError, match=r"the entity 'a\\tb' cannot be written"):
        write_paths(queries, tmp_path / "x.tsv", entities, RELATIONS)


def test_formats_without_path_queries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"path queries are kept as \.tsv, \.tsv\.gz, \.tsv\.zst or \.parquet"):
        read_paths(write(tmp_path, "", "paths.nt"), ENTITIES, RELATIONS)
    with pytest.raises(DataError, match="path queries are kept as"):
        write_paths(one_query(), tmp_path / "paths.csv", ENTITIES, RELATIONS)


@pytest.mark.parametrize("name", ["a,b", ""])
@pytest.mark.parametrize("suffix", ["tsv", "parquet"])
def test_relation_names_that_would_not_come_back_are_refused(tmp_path: Path, name: str, suffix: str) -> None:
    relations = Vocabulary([name, "fine"], "relation")
    with pytest.raises(DataError, match="cannot be written to a path file"):
        write_paths(one_query(), tmp_path / f"x.{suffix}", ENTITIES, relations)
    assert not list(tmp_path.iterdir())
    other = PathQueries.from_triples(np.array([(0, 1, 1)], dtype=np.int32))
    write_paths(other, tmp_path / f"x.{suffix}", ENTITIES, relations)
    for path in ([1, 0], [0, 1], [1, 2]):  # forth or back, and beside one that could be written
        array = np.array([path], dtype=np.int32)
        ends = np.zeros(1, dtype=np.int32)
        queries = PathQueries(ends, array, np.array([2], dtype=np.int32), ends)
        with pytest.raises(DataError, match=rf"the relation {re.escape(repr(name))} cannot be written"):
            write_paths(queries, tmp_path / f"y.{suffix}", ENTITIES, relations)


def test_entity_names_with_tabs_need_parquet(tmp_path: Path) -> None:
    entities = Vocabulary(["a\tb", "c"], "entity")
    with pytest.raises(DataError, match=r"the entity 'a\\tb' cannot be written"):
        write_paths(one_query(), tmp_path / "x.tsv", entities, RELATIONS)
    write_paths(one_query(), tmp_path / "x.parquet", entities, RELATIONS)
    assert same(read_paths(tmp_path / "x.parquet", entities, RELATIONS), one_query())


def splits() -> PathSplits:
    rows = np.array([(0, 0, 1), (1, 1, 2), (2, 0, 0)], dtype=np.int32)
    counts = {"train": 1, "dev_deduction": 2, "dev_induction": 3, "test_deduction": 1, "test_induction": 0}
    return PathSplits(**{part: PathQueries.from_triples(rows[:count]) for part, count in counts.items()})


def test_a_folder_of_five_parts(tmp_path: Path) -> None:
    folder = tmp_path / "paths"
    write_path_splits(splits(), folder, ENTITIES, RELATIONS)
    assert {path.name for path in folder.iterdir()} == {
        "train.parquet", "dev_deduction.tsv", "dev_induction.tsv", "test_deduction.tsv", "test_induction.tsv",
    }  # fmt: skip
    again = {part: read_paths(path, ENTITIES, RELATIONS) for part, path in find_part_files(folder).items()}
    assert set(again) == set(PATH_PARTS)
    assert all(same(again[part], getattr(splits(), part)) for part in PATH_PARTS)
    assert splits().counts() == {
        "train": 1,
        "dev_deduction": 2,
        "dev_induction": 3,
        "test_deduction": 1,
        "test_induction": 0,
    }


def test_a_path_data_set_cannot_be_changed_and_equals_itself_only() -> None:
    made = splits()
    with pytest.raises(FrozenInstanceError):
        made.train = made.test_induction  # type: ignore[misc]
    assert made != splits()
    assert {made: 1}[made] == 1


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        write_path_splits(splits(), tmp_path / "paths", ENTITIES, Vocabulary(["knows", "a,b"], "relation"))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "precious", "notes")
    with pytest.raises(DataError, match="exists already; name a new or an empty folder"):
        write_path_splits(splits(), tmp_path, ENTITIES, RELATIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_an_empty_folder_is_filled_and_a_file_is_left_alone(tmp_path: Path) -> None:
    write_path_splits(splits(), tmp_path, ENTITIES, RELATIONS)
    assert set(find_part_files(tmp_path)) == set(PATH_PARTS)
    with pytest.raises(DataError, match="exists already; name a new or an empty folder"):
        write_path_splits(splits(), tmp_path / "train.parquet", ENTITIES, RELATIONS)


def test_parts_are_found_and_refused_twice(tmp_path: Path) -> None:
    write(tmp_path, "anna\tknows\tbob\n", "train.tsv")
    for other in ("train.md", "train", "facts.tsv"):
        write(tmp_path, "nothing of ours", other)
    assert find_part_files(tmp_path) == {"train": tmp_path / "train.tsv"}
    assert find_part_files(tmp_path / "nowhere") == {}
    write_paths(one_query(), tmp_path / "train.parquet", ENTITIES, RELATIONS)
    with pytest.raises(DataError, match=r"holds train twice, as train\.parquet and train\.tsv; keep one of them"):
        find_part_files(tmp_path)
