"""`blockhole data` as its users meet it: arguments in, standard output, standard error and exit status out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from blockhole.cli.main import main
from blockhole.data.catalogue import catalogue, find
from blockhole.queries.path_sets import PATH_PARTS
from blockhole.queries.query_sets import QUERY_TYPES
from tests.files.published import write_published
from tests.outcomes import Command, command


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("BLOCKHOLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BLOCKHOLE_DATA", raising=False)

    return command(main, capfd, "data")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small ring of facts with labelled valid and test lines."""
    folder = tmp_path / "ring"
    folder.mkdir()
    facts = [f"e{i}\tr{i % 3}\te{(i * 7 + 1) % 40}" for i in range(40)]
    (folder / "train.tsv").write_text("".join(f"{fact}\n" for fact in facts))
    (folder / "valid.tsv").write_text("e1\tr0\te5\t1\ne1\tr0\te6\t-1\ne2\tr1\te9\t1\n")
    (folder / "test.tsv").write_text("e3\tr2\te5\t1\ne4\tr0\te6\t-1\n")
    return folder


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address of this machine at which nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setenv("BLOCKHOLE_MIRROR", f"http://{address}")
        yield address


def test_list_shows_every_name_and_what_is_here(run: Command) -> None:
    rows = {row["name"]: row for row in run("list", "--json").json()["data_sets"]}
    assert rows.keys() == catalogue().keys()
    assert rows["family"]["folder"] is not None
    assert rows["wn11"] == {
        "name": "wn11", "title": catalogue()["wn11"].title, "licence": "WordNet licence", "folder": None,
        "entities": 38_696, "relations": 11, "train": 112_581, "valid": 2_609, "test": 10_544,
    }  # fmt: skip
    shown = run("list")
    assert shown.status == 0
    assert all(name in shown.out for name in catalogue())
    assert "112,581" in shown.out


@pytest.mark.slow
def test_stats_of_the_published_data(run: Command, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKHOLE_DATA", str(data_root))
    outcome = run("stats", "wn11", "--json")
    stats = outcome.json()
    assert [stats[key] for key in ("entities", "relations", "train", "valid", "test")] == [
        38_696, 11, 112_581, 2_609, 10_544,
    ]  # fmt: skip
    assert stats["paths"] == {
        "train": 2_129_539,
        "dev_deduction": 7_873,
        "dev_induction": 3_404,
        "test_deduction": 24_749,
        "test_induction": 21_828,
    }
    assert {part: sum(counts.values()) for part, counts in stats["lengths"].items()} == stats["paths"]
    assert stats["lengths"]["test_induction"].keys() == {"1", "2", "3", "4", "5"}
    assert outcome.err.startswith("warning: ")
    assert outcome.err.count("\n") == outcome.err.count("warning: ")


def test_stats_of_a_file_without_paths(run: Command, folder: Path) -> None:
    assert run("stats", folder / "train.tsv", "--json").json() == {
        "entities": 40, "relations": 3, "train": 40, "valid": 0, "test": 0, "paths": None, "lengths": None,
        "query_sets": None,
    }  # fmt: skip


def test_stats_counts_positive_lines_only(run: Command, folder: Path) -> None:
    stats = run("stats", folder, "--json").json()
    assert (stats["train"], stats["valid"], stats["test"]) == (40, 2, 1)


def test_a_built_folder_is_a_data_set_with_the_same_facts_and_paths(run: Command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "built"
    built = run("build", folder, "--seed", 3, "--out", out, "--json").json()
    assert built.keys() == {"folder", "paths", "seconds"}
    assert built["paths"].keys() == set(PATH_PARTS)
    before, after = run("stats", folder, "--json").json(), run("stats", out, "--json").json()
    assert after["paths"] == built["paths"]
    assert after | {"paths": None, "lengths": None} == before
    assert sorted(path.name for path in (out / "paths").iterdir()) == [
        "dev_deduction.tsv", "dev_induction.tsv", "test_deduction.tsv", "test_induction.tsv", "train.parquet",
    ]  # fmt: skip
    assert (out / "valid.txt").read_text() == "e1\tr0\te5\t1\ne2\tr1\te9\t1\ne1\tr0\te6\t-1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["built", "ring"]


def test_the_same_seed_builds_the_same_files(run: Command, folder: Path, tmp_path: Path) -> None:
    contents = []
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        run("build", folder, "--seed", seed, "--out", tmp_path / name, "--json").json()
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name / "paths").iterdir()})
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


def test_build_takes_lengths_and_amounts(run: Command, folder: Path, tmp_path: Path) -> None:
    options = ("--lengths", "3", "--train-factor", 2, "--eval-factor", 0)
    run("build", folder, "--seed", 0, "--out", tmp_path / "built", *options, "--json").json()
    lengths = run("stats", tmp_path / "built", "--json").json()["lengths"]
    assert lengths["train"].keys() == {"1", "3"}
    assert lengths["train"]["3"] <= 80
    assert lengths["test_induction"] == {"1": 1}


def test_build_shows_a_table(run: Command, folder: Path, tmp_path: Path) -> None:
    shown = run("build", folder, "--seed", 0, "--out", tmp_path / "built")
    assert shown.status == 0
    assert "test_induction" in shown.out
    assert f"written to {tmp_path / 'built'}" in shown.out
    assert "dev_deduction" in run("stats", tmp_path / "built").out


@pytest.mark.parametrize("lengths", ["5-2", "0-3", "two", "2-", "-"])
def test_a_wrong_range_of_lengths_is_wrong_usage(run: Command, folder: Path, tmp_path: Path, lengths: str) -> None:
    outcome = run("build", folder, "--seed", 0, "--out", tmp_path / "built", "--lengths", lengths)
    assert (outcome.status, outcome.out) == (2, "")
    assert "--lengths" in outcome.err


def test_build_replaces_its_own_folder_but_no_other(run: Command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "built"
    for seed in (0, 1):
        run("build", folder, "--seed", seed, "--out", out, "--json").json()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    failure = run("build", folder, "--seed", 0, "--out", precious).failure()
    assert failure == (
        f"{precious} is a folder that holds other things; name a new folder, or give --overwrite to replace it."
    )
    assert [path.name for path in precious.iterdir()] == ["thesis.tex"]
    run("build", folder, "--seed", 0, "--out", precious, "--overwrite", "--json").json()
    assert not (precious / "thesis.tex").exists()


def test_build_never_replaces_what_it_reads(run: Command, folder: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for out in (folder, tmp_path):
        failure = run("build", folder, "--seed", 0, "--out", out, "--overwrite").failure()
        assert failure == f"{out} holds the data set that is read; name another folder."
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_build_that_fails_leaves_nothing_behind(run: Command, folder: Path, tmp_path: Path) -> None:
    (folder / "test.tsv").write_text("e1\tr0\n")
    assert "test.tsv, line 1: 2 columns" in run("build", folder, "--seed", 0, "--out", tmp_path / "built").failure()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ring"]


def test_split_sets_facts_aside_by_seed(run: Command, folder: Path, tmp_path: Path) -> None:
    whole = folder / "train.tsv"
    made = run(
        "split", whole, "--out", tmp_path / "a", "--valid", "0.1", "--test", "0.05", "--seed", 3, "--json"
    ).json()
    assert made == {"folder": str(tmp_path / "a"), "entities": 40, "relations": 3, "train": 34, "valid": 4, "test": 2}
    assert run("stats", tmp_path / "a", "--json").json()["valid"] == 4
    parts = [set((tmp_path / "a" / f"{part}.txt").read_text().splitlines()) for part in ("train", "valid", "test")]
    assert set.union(*parts) == set(whole.read_text().splitlines())
    assert sum(map(len, parts)) == 40
    for seed, same in ((3, True), (4, False)):
        again = run("split", whole, "--out", tmp_path / "b", "--valid", "0.1", "--test", "0.05", "--seed", seed)
        assert again.status == 0, again.err
        assert f"written to {tmp_path / 'b'}" in again.out
        written = [(tmp_path / name / "valid.txt").read_bytes() for name in "ab"]
        assert (written[0] == written[1]) is same


def test_split_says_where_nothing_could_be_set_aside(run: Command, tmp_path: Path) -> None:
    (tmp_path / "star.tsv").write_text("".join(f"hub\thas\tn{i}\n" for i in range(40)))
    status, _, err = run("split", str(tmp_path / "star.tsv"), "--out", str(tmp_path / "new"), "--test", "0")
    assert status == 0
    assert err.endswith("star.tsv: nothing set aside for valid, so that each entity and relation keeps a fact.\n")


def test_split_refuses_what_is_split_and_shares_that_leave_nothing(run: Command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("split", folder, "--out", out).failure() == (
        f"{folder} has facts for validation or test already; train on it as it is."
    )
    assert run("split", folder / "train.tsv", "--out", out, "--valid", "0.6", "--test", "0.5").failure() == (
        "shares of 0.6 for valid and 0.5 for test cannot be taken; give two numbers of at least 0 with a sum below 1."
    )
    assert not out.exists()


@pytest.mark.slow
def test_sampled_queries_are_a_data_set_with_the_same_facts(run: Command, tmp_path: Path) -> None:
    out = tmp_path / "sampled"
    made = run("queries", "family", "--count", 4, "--seed", 1, "--out", out, "--json").json()
    assert made.keys() == {"folder", "query_sets", "seconds"}
    assert made["query_sets"].keys() == {"sampled-valid", "sampled-test"}
    for counts in made["query_sets"].values():
        assert list(counts) == list(QUERY_TYPES)
        assert all(found["queries"] == 4 <= found["hard_answers"] <= 400 for found in counts.values())
    before, after = run("stats", "family", "--json").json(), run("stats", out, "--json").json()
    assert after == before | {"query_sets": made["query_sets"]}
    assert sorted(path.name for path in out.iterdir()) == [
        "entities.txt", "origin.json", "relations.txt", "sampled-test.parquet", "sampled-valid.parquet", "test.txt",
        "train.txt", "valid.txt",
    ]  # fmt: skip
    again = run("queries", "family", "--count", 4, "--seed", 1, "--out", tmp_path / "again")
    assert again.status == 0
    assert f"written to {tmp_path / 'again'} in" in again.out
    for name in made["query_sets"]:
        files = [folder / f"{name}.parquet" for folder in (out, tmp_path / "again")]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert "sampled-valid  2in" in run("stats", out).out


def test_sampling_takes_types_a_split_and_a_cap(run: Command, tmp_path: Path) -> None:
    options = ("--types", "3p, pni", "--count", 3, "--split", "valid", "--max-answers", 2)
    made = run("queries", "family", *options, "--out", tmp_path / "sampled", "--json").json()
    assert {name: list(counts) for name, counts in made["query_sets"].items()} == {"sampled-valid": ["3p", "pni"]}
    assert all(found["hard_answers"] <= 6 for found in made["query_sets"]["sampled-valid"].values())


def test_sets_of_a_split_without_facts_are_counted_without_answers(run: Command, tmp_path: Path) -> None:
    out = tmp_path / "sampled"
    made = run("queries", "family", "--types", "1p,pni", "--count", 3, "--out", out, "--json").json()
    (out / "valid.txt").unlink()
    found = run("stats", out, "--json").json()["query_sets"]
    assert found["sampled-valid"] == {type_: {"queries": 3, "hard_answers": None} for type_ in ("1p", "pni")}
    assert found["sampled-test"].keys() == made["query_sets"]["sampled-test"].keys()
    assert all(counts["hard_answers"] >= 3 for counts in found["sampled-test"].values())
    assert [line.split()[2:] for line in run("stats", out).out.splitlines() if "sampled-valid" in line] == [
        ["3", "–", "–"],
        ["3", "–", "–"],
    ]


def test_sampling_refuses_unknown_types_and_splits_without_facts(run: Command, folder: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", folder / "train.tsv"
    assert run("queries", folder, "--types", "2p,4p", "--out", out).failure() == (
        f"there is no query type '4p'; the types are {', '.join(QUERY_TYPES)}."
    )
    for split, kind in (("test", "test"), ("valid", "validation"), ("both", "test")):
        assert run("queries", whole, "--split", split, "--out", out).failure() == (
            f"{whole} has no {kind} facts, so that its {kind.removesuffix('ation')} queries have no hard answers; set "
            "some aside with `blockhole data split`, or name another split."
        )
    assert not out.exists()


HARD = {
    ("fb15k-237-q2b", "query2box-test"): {
        "1p": 40_876, "2p": 98_551, "3p": 159_699, "2i": 48_917, "3i": 37_745, "ip": 347_713, "pi": 202_531,
        "2u": 17_294, "up": 56_430,
    },
    ("nell", "query2box-test"): {
        "1p": 28_534, "2p": 36_357, "3p": 62_323, "2i": 29_880, "3i": 23_054, "ip": 209_554, "pi": 133_736,
        "2u": 8_311, "up": 34_597,
    },
    ("nell", "betae-test"): {
        "1p": 27_041, "2p": 59_457, "3p": 70_060, "2i": 22_857, "3i": 24_034, "ip": 69_624, "pi": 47_413,
        "2u": 59_416, "up": 76_197, "2in": 51_474, "3in": 44_512, "inp": 51_585, "pin": 63_893, "pni": 51_813,
    },
}  # fmt: skip
"""Sums over the queries of a set: answers over all facts that are none over those of train and valid."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nell", "fb15k-237-q2b"])
def test_stats_of_published_queries(run: Command, data_root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("BLOCKHOLE_DATA", str(data_root))
    if find(catalogue()[name]) is None:
        pytest.skip("the published queries are not here")
    stats = run("stats", name, "--json").json()
    for (data, which), sums in HARD.items():
        if data == name:
            counted = {type_: found["hard_answers"] for type_, found in stats["query_sets"][which].items()}
            assert counted == sums
    assert stats["query_sets"]["query2box-valid"].keys() == HARD["nell", "query2box-test"].keys()


def test_convert_and_back(run: Command, folder: Path, tmp_path: Path) -> None:
    result = run("convert", folder / "train.tsv", tmp_path / "facts.parquet", "--json").json()
    assert result["facts"] == 40
    run("convert", tmp_path / "facts.parquet", tmp_path / "back.tsv", "--json").json()
    assert (tmp_path / "back.tsv").read_text() == (folder / "train.tsv").read_text()
    assert "40 facts" in run("convert", folder / "train.tsv", tmp_path / "facts.nt").out


def test_a_packed_graph_is_a_data_set(run: Command, folder: Path, tmp_path: Path) -> None:
    packed = run("pack", folder, "--out", tmp_path / "packed", "--json").json()
    assert packed.keys() == {"folder", "entities", "relations", "facts", "edges", "seconds", "peak_rss_mb"}
    assert (
        run("stats", tmp_path / "packed", "--json").json()["train"]
        == run("stats", folder, "--json").json()["train"]
        == packed["facts"]
    )
    again = run("pack", folder, "--out", tmp_path / "packed")
    assert again.status == 0
    assert f"packed into {tmp_path / 'packed'} in" in again.out
    assert "is packed already" in run("pack", tmp_path / "packed", "--out", tmp_path / "more").failure()
    assert "not a size of memory" in run("pack", folder, "--out", tmp_path / "x", "--memory", "much").failure()


@pytest.mark.parametrize("layout", ["openke", "published", "facts by id"])
def test_a_folder_of_ids_is_converted_before_it_is_packed(run: Command, tmp_path: Path, layout: str) -> None:
    ids = tmp_path / "ids"
    ids.mkdir()
    if layout == "openke":
        (ids / "train2id.txt").write_text("1\n0 1 0\n")
    elif layout == "published":
        write_published(ids)
    else:
        (ids / "facts.parquet").touch()
    assert run("pack", ids, "--out", tmp_path / "packed").failure() == (
        f"{ids}: holds ids, not names; convert it with `blockhole data convert` and pack the result."
    )


def test_family_trees_of_any_size(run: Command, tmp_path: Path) -> None:
    made = run("family", "--people", 300, "--seed", 5, "--out", tmp_path / "trees", "--json").json()
    stats = run("stats", tmp_path / "trees", "--json").json()
    assert stats["entities"] >= 300
    assert {size: made[size] for size in ("entities", "relations", "train", "valid", "test")} == {
        size: stats[size] for size in ("entities", "relations", "train", "valid", "test")
    }
    again = run("family", "--people", 300, "--seed", 5, "--out", tmp_path / "again")
    assert again.status == 0
    assert (tmp_path / "again/train.txt").read_bytes() == (tmp_path / "trees/train.txt").read_bytes()


def test_fetch_from_a_mirror_then_from_the_cache(
    run: Command, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file in catalogue()["wn18rr"].files.items():
        assert file.home is not None
        copy = tmp_path / "mirror" / file.home
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((data_root / "wn18rr" / name).read_bytes())

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "mirror")) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("BLOCKHOLE_MIRROR", f"http://127.0.0.1:{server.server_port}")
        fetched = run("fetch", "wn18rr", "--json").json()
        server.shutdown()
        thread.join()
    assert fetched == {"name": "wn18rr", "folder": str(tmp_path / "cache" / "wn18rr")}
    assert run("fetch", "wn18rr").out == f"wn18rr is in {tmp_path / 'cache' / 'wn18rr'}\n"
    assert run("stats", "wn18rr", "--json").json()["train"] == 86_835


def test_no_network_is_one_clear_line(run: Command, unreachable: str, tmp_path: Path) -> None:
    failure = run("stats", "umls", "--json").failure()
    assert f"nothing arrives from {unreachable}; check the network and try again" in failure
    assert [path.name for path in (tmp_path / "cache" / "umls").iterdir()] == [".lock"]


def test_a_folder_of_data_sets_that_lacks_one_is_named(
    run: Command, unreachable: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKHOLE_DATA", str(folder))
    warning, error = run("fetch", "umls").err.splitlines()
    assert warning.startswith(f"warning: BLOCKHOLE_DATA ({folder}) has no umls/train.txt; fetching umls into ")
    assert error.startswith("error: cannot fetch ")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a\tr\tb\na\tr\n", "line 2: 2 columns instead of 3"),
        (b"", "the file holds no facts"),
        (b"a\tr\t\n", "line 1: the target is empty"),
        (b"a\tr\t\xff\n", "line 1: byte 0xff is not UTF-8"),
        (b"a\tr\tb\t1\na\tr\tc\t2\n", "line 2: label '2' is neither 1 nor -1"),
    ],
)
def test_bad_files_give_one_clear_line(run: Command, tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "facts.tsv").write_bytes(content)
    for arguments in (["stats"], ["build", "--seed", "0", "--out", tmp_path / "built"]):
        failure = run(arguments[0], tmp_path / "facts.tsv", *arguments[1:], "--json").failure()
        assert f"{tmp_path / 'facts.tsv'}" in failure
        assert problem in failure
    failure = run("convert", tmp_path / "facts.tsv", tmp_path / "facts.parquet").failure()
    assert problem in failure
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts.tsv"]


def test_unknown_names_give_one_clear_line(run: Command, tmp_path: Path) -> None:
    for arguments in (["stats", "wn1"], ["fetch", "wn1"], ["build", "wn1", "--seed", "0", "--out", tmp_path / "built"]):
        failure = run(*arguments).failure()
        assert failure.startswith("there is no data set, file or folder 'wn1'; did you mean wn11")
    assert list(tmp_path.iterdir()) == []


def test_an_unseen_valid_entity_is_one_line_of_warning(run: Command, folder: Path) -> None:
    (folder / "valid.tsv").write_text("e1\tr0\tnobody\n")
    outcome = run("stats", folder, "--json")
    assert outcome.json()["entities"] == 41
    assert outcome.err.startswith("warning: ")
    assert outcome.err.count("\n") == 1
