"""Lists that people review: what is decided comes back, and nothing else becomes a fact."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockhole.data.reviews import FactList, ListedFact, read_decisions, with_decisions
from blockhole.errors import ConfigError, DataError, MalformedFile, UnknownName
from blockhole.files.readers import NegativesLeftOut, read_graph, read_split

NAMES = ("plain", 'with "quotes", commas', "tab\tand; bar|", "übung")
FACTS = FactList(tuple(ListedFact(name, "knows", f"{name} too", 0.5, 0.5, "because, of\tthis") for name in NAMES))


def decided(path: Path, *decisions: str) -> Path:
    """A list in which the first rows are decided on."""
    import polars as pl

    FACTS.write(path)
    rows = [*decisions, *[""] * (len(NAMES) - len(decisions))]
    match path.suffix:
        case ".parquet":
            pl.read_parquet(path).with_columns(decision=pl.Series(rows)).write_parquet(path)
        case ".jsonl":
            pl.read_ndjson(path).with_columns(decision=pl.Series(rows)).write_ndjson(path)
        case suffix:
            mark = "," if suffix == ".csv" else "\t"
            frame = pl.read_csv(path, separator=mark, infer_schema=False)
            frame.with_columns(decision=pl.Series(rows)).write_csv(path, separator=mark, quote_style="always")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_decisions_come_back(tmp_path: Path, suffix: str) -> None:
    path = decided(tmp_path / f"list{suffix}", " Accept", "reject", "yes")
    rows = read_decisions(path).rows()
    assert rows == [
        (name, "knows", f"{name} too", accepted) for name, accepted in zip(NAMES, (True, False, True), strict=False)
    ]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_only_accepted_rows_are_facts(tmp_path: Path, suffix: str) -> None:
    with pytest.warns(NegativesLeftOut, match="1 line labelled -1 or rejected left out"):
        graph = read_graph(decided(tmp_path / f"list{suffix}", "accept", "reject"))
    assert [graph.entities[s] for s in graph.triples[:, 0]] == [NAMES[0]]
    with pytest.raises(DataError, match="the file holds no facts"):
        read_graph(decided(tmp_path / f"none{suffix}"))


@pytest.mark.parametrize(
    ("suffix", "where"), [(".csv", ", line 2: "), (".parquet", " of row 1 "), (".jsonl", " of row 1 ")]
)
def test_other_words_are_refused(tmp_path: Path, suffix: str, where: str) -> None:
    with pytest.raises(MalformedFile, match=r"the decision 'perhaps'.* is not known; write accept") as refused:
        read_decisions(decided(tmp_path / f"list{suffix}", "perhaps"))
    assert where in str(refused.value)


def test_a_column_that_means_something_else(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("source,relation,target,decision\na,cites,b,overruled\nb,cites,c,upheld\n")
    with pytest.raises(MalformedFile, match="if the column means something else, name the others with --columns"):
        read_graph(tmp_path / "cases.csv")
    assert len(read_graph(tmp_path / "cases.csv", columns="source,relation,target")) == 2


def test_files_that_are_no_lists(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a list is written as \.parquet, \.csv, \.tsv or \.jsonl"):
        FACTS.write(tmp_path / "list.xlsx")
    (tmp_path / "bad.jsonl").write_text('{"source": "a"}\n')
    with pytest.raises(MalformedFile, match="line 1: source, relation, target or decision is missing"):
        read_decisions(tmp_path / "bad.jsonl")
    (tmp_path / "bad.jsonl").write_text("source\n")
    with pytest.raises(MalformedFile, match="line 1: this is not JSON"):
        read_decisions(tmp_path / "bad.jsonl")


def test_a_review_changes_the_data(tmp_path: Path) -> None:
    for part, lines in {"train": "a\tr\tb\nb\tr\tc\nc\ts\ta\n", "valid": "a\tr\tc\n", "test": "c\tr\tb\n"}.items():
        (tmp_path / f"{part}.tsv").write_text(lines)
    split = read_split(tmp_path)
    header = "source,relation,target,decision\n"
    (tmp_path / "one.csv").write_text(header + "b,r,a,accept\na,r,b,reject\nnew,s,a,accept\na,s,b,\n")
    (tmp_path / "two.csv").write_text(header + "c,r,b,reject\na,r,b,accept\n")
    reviewed = with_decisions(split, [tmp_path / "one.csv", tmp_path / "two.csv"])
    assert (reviewed.added, reviewed.removed) == (2, 1)  # the second list had the last word on a r b
    names = reviewed.split.entities
    train = [(names[s], reviewed.split.relations[r], names[o]) for s, r, o in reviewed.split.train.tolist()]
    assert train == [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a"), ("b", "r", "a"), ("new", "s", "a")]
    assert (len(reviewed.split.valid), len(reviewed.split.test)) == (1, 0)
    (tmp_path / "three.csv").write_text(header + "a,r,b,\n")
    with pytest.raises(DataError, match="no row has a decision; write accept or reject"):
        with_decisions(split, [tmp_path / "three.csv"])
    (tmp_path / "four.csv").write_text(header + "a,q,b,accept\n")
    with pytest.raises(UnknownName, match="unknown relation 'q'"):
        with_decisions(split, [tmp_path / "four.csv"])


def test_a_notebook_shows_the_first_rows() -> None:
    rows = tuple(ListedFact(f"<{i}>", "knows", "b", i / 23_456, None, "") for i in range(23))
    shown = FactList(rows)._repr_html_()
    assert shown.startswith(
        "<table><caption>FactList: 23</caption>"
        "<tr><th>source</th><th>relation</th><th>target</th><th>score</th></tr>"
        "<tr><td>&lt;0&gt;</td><td>knows</td><td>b</td><td>0.000</td></tr>"
        "<tr><td>&lt;1&gt;</td><td>knows</td><td>b</td><td>4.26e-05</td></tr>"
    )
    assert shown.count("<tr>") == 1 + 20 + 1
    assert shown.endswith('<tr><td colspan="4">and 3 more</td></tr></table>')
    assert FactList(())._repr_html_() == "<table><caption>FactList: 0</caption><tr></tr></table>"
