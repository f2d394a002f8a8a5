"""TSV and CSV against Python's own splitting and csv module."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blockhole.errors import DataError
from blockhole.files.readers import NegativesLeftOut, read_graph
from blockhole.files.tables import reads_as_facts
from tests.files.facts import (
    Fact,
    any_name,
    compress_zstd,
    fact_lists,
    facts_of,
    graph_of,
    line_name,
    odd_names,
    small_blocks,
)

pytestmark = odd_names

block_sizes = st.sampled_from([1, 2, 7, 40, 1 << 20])
not_a_header = fact_lists(line_name).filter(lambda facts: reads_as_facts("\t".join(facts[0]).encode() + b"\n"))


def read_text(tmp: Path, name: str, content: bytes) -> list[Fact]:
    (tmp / name).write_bytes(content)
    return facts_of(read_graph(tmp / name))


@given(facts=not_a_header, end=st.sampled_from(["\n", "\r\n"]), size=block_sizes, last=st.booleans())
def test_tsv_is_what_stands_between_tabs(
    facts: list[Fact], end: str, size: int, last: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = end.join("\t".join(fact) for fact in facts) + end * last
    path = tmp_path_factory.mktemp("tsv") / "facts.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())  # a byte order mark belongs to the file, not to a name
    with small_blocks(size):
        try:
            found = read_graph(path)
        except DataError as refused:  # words above rows that share nothing with them, which may be a header
            assume("looks like names of columns" not in str(refused))
            raise
        assert found == graph_of(facts)


@given(facts=fact_lists(any_name), end=st.sampled_from(["\n", "\r\n"]), size=block_sizes, quoting=st.booleans())
def test_csv_is_what_the_csv_module_writes(
    facts: list[Fact], end: str, size: int, quoting: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Without CRLF ends, the csv module leaves lone returns unquoted; spaces around unquoted names do not count.
    names = [name for fact in facts for name in fact]
    assume(quoting or end == "\r\n" or "\r" not in "".join(names))
    assume(quoting or all(name == name.strip(" \t") for name in names))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL if quoting else csv.QUOTE_MINIMAL)
    writer.writerow(["source", "relation", "target"])
    writer.writerows(facts)
    path = tmp_path_factory.mktemp("csv") / "facts.csv"
    path.write_bytes(text.getvalue().encode())
    with small_blocks(size):
        assert read_graph(path) == graph_of(facts)


@given(content=st.one_of(st.binary(max_size=60), st.text('ab\t\n\r",é', max_size=60).map(str.encode)), size=block_sizes)
def test_any_bytes_are_a_graph_or_a_data_error(
    content: bytes, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    for name in ("facts.tsv", "facts.csv"):
        (folder / name).write_bytes(content)
        with small_blocks(size):
            try:
                graph = read_graph(folder / name)
            except DataError:
                continue
            assert len(graph) > 0


@given(content=st.text("ab\t\n\r", max_size=40))
def test_tsv_agrees_with_plain_splitting(content: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("split") / "facts.txt"
    path.write_bytes(content.encode())
    rows = [line.removesuffix("\r").split("\t") for line in content.split("\n")]
    rows = [row for row in rows if row != [""]]
    good = bool(rows) and all(
        len(row) == 3 and all(row) and not any(name.endswith("\r") for name in row[:2]) for row in rows
    )
    try:
        graph = read_graph(path)
    except DataError:
        assert not good
    else:  # rows and columns of nothing are left out
        assert facts_of(graph) == [tuple(filter(None, row)) for row in rows if any(row)]


def test_tsv_knows_no_quotes_and_keeps_spaces(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a.tsv", b'"a\t b \tc"d\n') == [('"a', " b ", 'c"d')]


def test_csv_quotes_hold_commas_quotes_and_lines(tmp_path: Path) -> None:
    content = b'"a,b","r ""x""","c\nd"\ne,r,f\n'
    assert read_text(tmp_path, "a.csv", content) == [("a,b", 'r "x"', "c\nd"), ("e", "r", "f")]


@pytest.mark.parametrize("header", ["source,relation,target", "Head,Relation,Tail", '"subject",predicate,object'])
def test_a_first_row_of_column_names_is_no_fact(tmp_path: Path, header: str) -> None:
    assert read_text(tmp_path, "a.csv", f"{header}\na,r,b\n".encode()) == [("a", "r", "b")]
    tsv = header.replace(",", "\t").replace('"', "")
    assert read_text(tmp_path, "a.tsv", f"{tsv}\na\tr\tb\nsource\trelation\ttarget\n".encode()) == [
        ("a", "r", "b"),
        ("source", "relation", "target"),
    ]


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a.tsv", b"\n\r\na\tr\tb\n\n\nc\tr\td\n\n") == [("a", "r", "b"), ("c", "r", "d")]


def test_packed_text_reads_like_plain_text(tmp_path: Path) -> None:
    plain = b"a\tr\tb\r\nc\tr\td\n"
    assert read_text(tmp_path, "a.tsv.gz", gzip.compress(plain[:9]) + gzip.compress(plain[9:])) == [
        ("a", "r", "b"),
        ("c", "r", "d"),
    ]
    assert read_text(tmp_path, "a.txt.zst", compress_zstd(plain[:9]) + compress_zstd(plain[9:])) == [
        ("a", "r", "b"),
        ("c", "r", "d"),
    ]


def test_a_graph_holds_no_negatives(tmp_path: Path) -> None:
    with pytest.warns(NegativesLeftOut, match=r"dev\.txt: 2 lines labelled -1 or rejected left out"):
        facts = read_text(tmp_path, "dev.txt", b"a\tr\tb\t1\na\tr\tc\t-1\nb\tr\tc\t1\r\nb\tr\ta\t-1\n")
    assert facts == [("a", "r", "b"), ("b", "r", "c")]
