from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from blockhole.data.catalogue import catalogue
from blockhole.data.dataset import DataSet, load, sample_queries, store
from blockhole.errors import DataError, FetchError, MalformedFile, UnknownDataSet
from blockhole.queries.path_sets import PATH_PARTS, build_paths
from tests.files.published import write_published

PUBLISHED_PATHS = {
    "wn11": [2_129_539, 7_873, 3_404, 24_749, 21_828],
    "fb13": [6_266_058, 20_710, 6_453, 77_883, 31_674],
}
PUBLISHED_QUERIES = {
    "nell": ("betae-test", "query2box-test", "query2box-valid"),
    "fb15k-237-q2b": ("query2box-test", "query2box-valid"),
}
known_unseen = pytest.mark.filterwarnings("ignore:.*never occur in train:blockhole.errors.BlockholeWarning")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.tsv").write_text("ann\tmotherOf\tbob\nbob\tfatherOf\tcid\nbob\tfatherOf\tdot\n")
    (tmp_path / "dev.tsv").write_text("ann\tmotherOf\tdot\t1\nann\tmotherOf\tann\t-1\n")
    (tmp_path / "test.tsv").write_text("ann\tmotherOf\tcid\n")
    (tmp_path / "entities.txt").write_text("dot\ncid\nbob\nann\neve\n")
    return tmp_path


def add_parts(folder: Path) -> None:
    (folder / "paths").mkdir()
    for part in PATH_PARTS:
        (folder / "paths" / f"{part}.tsv").write_text("ann\tmotherOf,**motherOf\tann\nann\tmotherOf\tbob\n")


@known_unseen
@pytest.mark.parametrize("name", [name for name in catalogue() if name != "fb13"])
def test_a_named_data_set_has_the_sizes_of_the_catalogue(
    data_root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("BLOCKHOLE_DATA", str(data_root))
    entry, data = catalogue()[name], load(name)
    split = data.split
    found = (len(split.entities), len(split.relations), len(split.train), len(split.valid), len(split.test))
    assert found == (entry.entities, entry.relations, entry.train, entry.valid, entry.test)
    assert data.name == name
    assert data.has_paths == (name in PUBLISHED_PATHS)
    assert data.query_sets == PUBLISHED_QUERIES.get(name, ())


@known_unseen
@pytest.mark.slow
def test_published_path_queries_are_read_with_the_ids_of_the_graph(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKHOLE_DATA", str(data_root))
    data = load("wn11")
    assert [len(data.paths(part)) for part in PATH_PARTS] == PUBLISHED_PATHS["wn11"]
    first = (data_root / "wn11/paths/test_deduction.tsv").read_text(encoding="utf-8").splitlines()[0]
    source, path, target = first.split("\t")
    queries, graph = data.paths("test_deduction"), data.split.graph("train")
    assert graph.entities[int(queries.source[0])] == source
    assert graph.entities[int(queries.target[0])] == target
    hops = [graph.relation_name(int(hop)) for hop in queries.path[0, : queries.length[0]]]
    assert ",".join("**" * inverse + name for name, inverse in hops) == path


def test_a_folder_is_read_with_labels_and_listed_names(folder: Path) -> None:
    data = load(folder)
    assert data.name == str(folder)
    assert list(data.split.entities) == ["dot", "cid", "bob", "ann", "eve"]
    assert (len(data.split.train), len(data.split.valid), len(data.split.test)) == (3, 1, 1)
    assert len(data.split.valid_negatives) == 1
    assert not data.has_paths


def test_a_single_file_is_all_train(folder: Path) -> None:
    split = load(folder / "train.tsv").split
    assert (len(split.train), len(split.valid), len(split.test)) == (3, 0, 0)


def test_the_parts_of_a_folder_are_read_once(folder: Path) -> None:
    add_parts(folder)
    data = load(folder)
    assert data.has_paths
    queries = data.paths("test_induction")
    assert queries.length.tolist() == [2, 1]
    assert data.paths("test_induction") is queries


def test_a_data_set_without_paths_says_how_to_build_them(folder: Path) -> None:
    with pytest.raises(DataError) as failure:
        load(folder).paths("train")
    assert str(failure.value) == (
        f"{folder} has no train path queries; build them with "
        f"`blockhole data build {folder} --seed 0 --out FOLDER` and use FOLDER as the data set."
    )


def test_an_unknown_part_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"no part 'valid' .* train, dev_deduction, dev_induction, test_deduction"):
        load(folder).paths("valid")


def test_a_part_that_is_there_twice_is_refused(folder: Path) -> None:
    add_parts(folder)
    (folder / "paths" / "train.txt").write_text("ann\tmotherOf\tbob\n")
    with pytest.raises(DataError, match=r"holds train twice, as train\.tsv and train\.txt; keep one of them\."):
        load(folder)


def test_path_queries_can_be_given_in_memory(folder: Path) -> None:
    split = load(folder).split
    paths = build_paths(split, seed=1)
    data = DataSet("mine", split, splits=paths)
    assert data.has_paths
    assert data.paths("train") is paths.train
    assert repr(data) == "DataSet('mine', 3 train facts, with path queries)"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("wn12", "did you mean wn11"),
        ("FB13", "did you mean fb13"),
        ("zzz", "the data sets are family, wn11, fb13, fb15k-237, wn18rr, umls, kinship, nell, fb15k-237-q2b."),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UnknownDataSet) as failure:
        load(name)
    assert str(failure.value).startswith(f"there is no data set, file or folder {name!r}; {hint}")
    assert str(failure.value).endswith("A file or a folder of facts can be given too.")


def test_a_name_of_the_catalogue_wins_over_a_folder_unless_a_path_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "family").mkdir()
    (folder / "family" / "train.tsv").write_text("a\tr\tb\n")
    assert len(load("family").split.train) == catalogue()["family"].train
    assert len(load("./family").split.train) == 1
    assert len(load(Path("family")).split.train) == 1


def test_a_damaged_file_is_named_with_its_line(folder: Path) -> None:
    (folder / "test.tsv").write_text("bob\tfatherOf\tdot\nbob\tfatherOf\n")
    with pytest.raises(MalformedFile, match=r"test\.tsv, line 2: 2 columns instead of 3"):
        load(folder)


def test_facts_of_unlisted_entities_are_kept(folder: Path) -> None:
    (folder / "train.tsv").write_text("fay\tmotherOf\tgus\n")
    (folder / "dev.tsv").unlink()
    (folder / "test.tsv").unlink()
    split = load(folder).split
    assert {"fay", "gus", "eve"} <= set(split.entities)
    assert np.array_equal(split.train, [[split.entities.id("fay"), 0, split.entities.id("gus")]])


def test_a_folder_of_path_queries_alone_has_the_facts_of_length_1(tmp_path: Path) -> None:
    lines = {
        "train": "ann\tmotherOf\tbob\nann\tmotherOf,fatherOf\tcid\nbob\tfatherOf\tcid\nbob\t**motherOf\tann\n",
        "dev_deduction": "cid\t**fatherOf,**motherOf\tann\n",
        "dev_induction": "ann\tmotherOf\tcid\n",
        "test_deduction": "ann\tmotherOf,**motherOf\tann\n",
        "test_induction": "bob\tfatherOf\tbob\nbob\tfatherOf,**motherOf\tann\n",
    }
    for part, text in lines.items():
        (tmp_path / f"{part}.tsv").write_text(text)
    data = load(tmp_path)
    assert data.split.train.tolist() == [[0, 0, 1], [1, 1, 2]]
    assert data.split.valid.tolist() == [[0, 0, 2]]
    assert data.split.test.tolist() == [[1, 1, 1]]
    assert data.has_paths
    assert data.paths("train").lengths() == {1: 3, 2: 1}
    (tmp_path / "test.tsv").write_text("ann\tmotherOf,fatherOf\tcid\n")
    assert not load(tmp_path).has_paths


# Query sets


@pytest.fixture
def sampled(tmp_path: Path) -> Path:
    """The family with two small query sets."""
    split = load("family").split
    sets = [sample_queries("family", split=which, types=["2p", "2in"], count=5) for which in ("valid", "test")]
    store(split, tmp_path / "sampled", origin={}, queries=sets)
    return tmp_path / "sampled"


def test_a_query_set_is_found_by_name_and_split_by_full_name_or_as_a_file(sampled: Path, tmp_path: Path) -> None:
    data = load(sampled)
    assert data.query_sets == ("sampled-test", "sampled-valid")
    test = data.queries("sampled", "test")
    assert data.queries("sampled") is test
    assert data.queries("sampled-test") is test
    assert data.queries(str(sampled / "sampled-test.parquet")) is test
    assert data.queries(sampled / "sampled-test.parquet", "test") is test
    assert (test.name, test.split, [len(rows) for rows in test.ids.values()]) == ("sampled-test", "test", [5, 5])
    assert data.queries("sampled", "valid").split == "valid"
    mine = tmp_path / "mine.parquet"
    mine.write_bytes((sampled / "sampled-valid.parquet").read_bytes())
    assert (data.queries(mine).split, data.queries(mine, "valid").split) == ("test", "valid")


def test_a_query_set_that_is_not_there_is_one_sentence(sampled: Path) -> None:
    data = load(sampled)
    with pytest.raises(DataError) as failure:
        data.queries("betae", "test")
    assert str(failure.value) == (
        f"{sampled} has no query set betae for test, nor is that a file; it has sampled-test, sampled-valid, and "
        f"`blockhole data queries {sampled} --out FOLDER` samples some."
    )
    with pytest.raises(
        DataError, match=r"^family has no query set betae, nor is that a file; it has none, and `blockhole"
    ):
        load("family").queries("betae")
    with pytest.raises(
        DataError, match=r"sampled-test\.parquet holds test queries, not valid ones; leave the split out"
    ):
        data.queries(sampled / "sampled-test.parquet", "valid")


def test_a_set_of_another_graph_is_refused_though_its_ids_would_do(sampled: Path, folder: Path) -> None:
    data = load(folder)
    with pytest.raises(
        DataError, match=r"another graph: \d+ entities of its queries are missing from this one, the first"
    ):
        data.queries(sampled / "sampled-test.parquet")


def test_a_published_folder_is_a_data_set(tmp_path: Path) -> None:
    data = load(write_published(tmp_path / "p"))
    assert data.query_sets == ("published-test",)
    assert len(data.queries("published")) == 5


@pytest.mark.parametrize("name", ["nell", "fb15k-237-q2b"])
def test_a_data_set_that_users_fetch_says_where_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKHOLE_DATA", str(tmp_path))
    by_hand = catalogue()[name].by_hand
    assert by_hand is not None
    with pytest.raises(FetchError) as failure:
        load(name)
    assert str(failure.value) == (
        f"{name} is not on this machine, and is published only within an archive: unpack {by_hand.inside} of "
        "http://snap.stanford.edu/betae/KG_data.zip and name that folder wherever a data set is wanted, such as "
        f"--data, or call it {by_hand.folder} in the folder that BLOCKHOLE_DATA names."
    )
    (tmp_path / "queries").mkdir()
    write_published(tmp_path / by_hand.folder)
    assert len(load(name).split.train) == 4
