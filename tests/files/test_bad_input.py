"""Every kind of bad input gives one clear error: file, line, what is wrong, what to do."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.data.packing import pack
from blockhole.errors import ConfigError, DataError, MalformedFile
from blockhole.files.readers import read_graph, read_split
from blockhole.files.tables import LABEL_REMEDY
from blockhole.files.writers import write_graph
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.parquet import panics_as_errors
from tests.files.facts import compress_zstd, graph_of, small_blocks

GOOD = b"a\tr\tb\n"
COLUMNS = "write source, relation and target, separated by tabs."
NAME = "give it a name or delete the line."
LABELLED = "write source, relation and target, and the label 1 or -1, separated by tabs."
PLAIN_RDF = (
    "an empty IRI, a character that IRIs cannot hold, or a triple inside a triple; "
    "write plain IRIs (a space is %20), blank nodes and literals."
)
QUOTE = (
    'a quote that does not enclose a whole field; enclose the field in quotes and write a quote inside it twice ("").'
)

TEXT = {
    "two columns": ("f.tsv", GOOD + b"\n" + GOOD + b"a\tr\n", ", line 4: 2 columns instead of 3; " + COLUMNS),
    "one column": ("f.txt", b"a r b\n" + GOOD, ", line 1: 1 column instead of 3; " + COLUMNS),
    "five columns": ("f.tsv", GOOD + b"a\tr\tb\tc\td\n", ", line 2: 5 columns instead of 3; " + COLUMNS),
    "labels end": ("f.tsv", b"a\tr\tb\t1\n" + GOOD, ", line 2: 3 columns instead of 4; " + LABELLED),
    "csv columns": (
        "f.csv",
        b'"a\n",r,b\na,b\n',
        ", line 3: 2 columns instead of 3; write source, relation and target, separated by commas.",
    ),
    "empty file": ("f.tsv", b"", ": the file holds no facts; write one fact per line, or leave the file out."),
    "blank file": ("f.tsv", b"\n\r\n", ": the file holds no facts; write one fact per line, or leave the file out."),
    "empty source": ("f.tsv", GOOD + b"\tr\tb\n", f", line 2: the source is empty; {NAME}"),
    "empty relation": ("f.tsv", GOOD + b"\na\t\tb\n", f", line 3: the relation is empty; {NAME}"),
    "empty target": ("f.tsv", b"a\tr\t\r\n", f", line 1: the target is empty; {NAME}"),
    "empty quotes": ("f.csv", b'"x\ny",r,b\n"",r,b\n', f", line 3: the source is empty; {NAME}"),
    "not UTF-8": ("f.tsv", GOOD + b"caf\xe9\tr\tb\n", ", line 2: byte 0xe9 is not UTF-8; save the file as UTF-8."),
    "label": (
        "f.tsv",
        b"a\tr\tb\t1\na\tr\tb\t0\n",
        ", line 2: label '0' is neither 1 nor -1; " + LABEL_REMEDY + ".",
    ),
    "no label": (
        "f.tsv",
        b"a\tr\tb\t\nb\tr\tc\t1\n",
        ", line 1: label '' is neither 1 nor -1; " + LABEL_REMEDY + ".",
    ),
    "stray return": (
        "f.tsv",
        GOOD + b"a\r\tr\tb\n",
        ", line 2: a carriage return at the end of a name; delete it; only whole lines may end in one.",
    ),
    "stray quote": ("f.csv", b'a,r,b\na"b,r,c\n', f", line 2: {QUOTE}"),
    "text after quote": ("f.csv", b'a,r,b\n"a"b,r,c\n', f", line 2: {QUOTE}"),
    "open quote": ("f.csv", b'a,r,b\n"a,r,c\nd,r,e\n', f", line 2: {QUOTE}"),
    "not gzip": ("f.tsv.gz", GOOD, ", line 1: the compressed data is damaged; fetch or compress the file again."),
    "not zstd": ("f.nt.zst", GOOD, ", line 1: the compressed data is damaged; fetch or compress the file again."),
    "N-Triples": (
        "f.nt",
        b"# one\n\n<a:a> <a:r> <a:b> .\n<a:a> <a:r> .\n",
        ", line 4: not valid RDF (The object of a triple must be an IRI, a blank node or a literal); "
        "correct the statement there.",
    ),
    "RDF not UTF-8": ("f.nt", b"<a:a> <a:r> <\xff> .\n", ", line 1: byte 0xff is not UTF-8; save the file as UTF-8."),
    "space in IRI": ("f.nt", b"<a:a> <a:r> <a:b> .\n<a:a> <a:r> <a:b c> .\n", f", line 2: {PLAIN_RDF}"),
    "empty IRI": ("f.nq", b"<a:a> <a:r> <> <a:g> .\n", f", line 1: {PLAIN_RDF}"),
    "triple term": ("f.nt", b"<a:a> <a:r> <<( <a:a> <a:r> <a:b> )>> .\n", f", line 1: {PLAIN_RDF}"),
    "long literal": (
        "f.nt",
        b'<a:a> <a:r> <a:b> .\n<a:a> <a:r> "one\ntwo" .\n',
        ", line 2: not valid RDF (Unexpected end of file); correct the statement there.",
    ),
    "Turtle": (
        "f.ttl",
        b"@prefix : <http://x/> .\n:a :r :b .\n:a :r\n",
        ", line 4: not valid RDF (Unexpected end); correct the statement there.",
    ),
    "RDF/XML": (
        "f.rdf",
        b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n<rdf:Description>\n</rdf:RDF>\n',
        ", line 3: not valid RDF (ill-formed document: expected `</rdf:Description>`, but `</rdf:RDF>` was found); "
        "correct the statement there.",
    ),
    "JSON-LD": (
        "f.jsonld",
        b'{"@id": "http://x/a",\n"http://x/r": {"@id": "http://x/b"}\n',
        ", line 3: not valid RDF (Object values must be followed by a comma to add a new value or a curly bracket to "
        "end the object); correct the statement there.",
    ),
    "a context elsewhere": (
        "f.jsonld",
        b'{"@context": "http://schema.org/", "@id": "a:b"}',
        ": its @context is elsewhere, and nothing is fetched; write the context into the file.",
    ),
    "a rule": (
        "f.n3",
        b"@prefix : <http://x/> .\n{ :a :r :b } => { :b :r :a } .\n",
        ": a formula in braces, which is not a fact; keep only plain statements.",
    ),
    "no RDF": ("f.ttl", b"# nothing\n", ": the file holds no facts; write one fact per line, or leave the file out."),
}  # fmt: skip


@pytest.mark.parametrize("block_size", [1, 8, 1 << 22])
@pytest.mark.parametrize("case", TEXT)
def test_bad_text(tmp_path: Path, case: str, block_size: int) -> None:
    name, content, expected = TEXT[case]
    path = tmp_path / name
    path.write_bytes(content)
    with small_blocks(block_size), pytest.raises(DataError) as failure:
        read_graph(path)
    assert str(failure.value) == f"{path}{expected}"


@pytest.mark.parametrize(("name", "content"), [("f.nt", b"x" * 99), ("f.csv", b'"' + b"a,r,b\n" * 20)])
def test_a_row_without_end(tmp_path: Path, name: str, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blockhole.files.formats.LONGEST_ROW", 50)
    path = tmp_path / name
    path.write_bytes(b"#,r,b\n" + content)
    with small_blocks(8), pytest.raises(MalformedFile) as failure:
        read_graph(path)
    assert str(failure.value) == (
        f"{path}, line 2: no row ends within 64 MB; check that this is a text file, and that quotes are closed."
    )


@given(content=st.one_of(st.binary(max_size=40), st.text('<a:b> _"\\@.[]{}#^', max_size=40).map(str.encode)))
@pytest.mark.parametrize(
    "name", ["f.nt", "f.nq", "f.ttl", "f.trig", "f.rdf", "f.n3", "f.jsonld", "f.parquet", "f.tsv.gz", "f.nt.zst"]
)
def test_any_bytes_are_a_graph_or_a_data_error(
    name: str, content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(content)
    try:
        graph = read_graph(path)
    except DataError:
        return
    assert len(graph) > 0


@pytest.mark.parametrize("cut", [5, 12, 40])
@pytest.mark.parametrize("name", ["f.tsv.gz", "f.tsv.zst"])
def test_packed_data_cut_short(tmp_path: Path, name: str, cut: int) -> None:
    generator = random.Random(0)
    text = "".join(f"{generator.random()}\tr\tb\n" for _ in range(50)).encode()
    packed = gzip.compress(text) if name.endswith("gz") else compress_zstd(text)
    path = tmp_path / name
    path.write_bytes(packed[: len(packed) - cut])
    with pytest.raises(
        MalformedFile, match="the compressed data ends early; fetch or compress the file again"
    ) as failure:
        read_graph(path)
    assert failure.value.line is not None
    assert 1 <= failure.value.line <= 51


def test_packed_turtle_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "f.ttl.gz"
    path.write_bytes(gzip.compress(b"<a:a> <a:r> <a:b> .\n" * 5)[:-9])
    with pytest.raises(MalformedFile, match=r"f\.ttl\.gz: the compressed data ends early"):
        read_graph(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError) as failure:
        read_graph(tmp_path / "none.tsv")
    assert str(failure.value) == f"{tmp_path / 'none.tsv'}: no such file or folder; check the name."


def test_unknown_suffix(tmp_path: Path) -> None:
    (tmp_path / "f.doc").write_bytes(GOOD)
    with pytest.raises(DataError) as failure:
        read_graph(tmp_path / "f.doc")
    assert str(failure.value) == (
        f"{tmp_path / 'f.doc'}: the format cannot be told from the name; end it in one of .tsv, .txt, .csv, "
        ".parquet, .nt, .nq, .ttl, .trig, .rdf, .owl, .xml, .n3, .jsonld, "
        "the text formats optionally followed by .gz or .zst."
    )


def test_folder_without_train(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_bytes(GOOD)
    with pytest.raises(DataError) as failure:
        read_split(tmp_path)
    assert str(failure.value) == (
        f"{tmp_path}: no file of train facts in this folder; "
        "it should hold train, valid and test, such as train.tsv, valid.tsv and test.tsv."
    )


def test_split_there_twice(tmp_path: Path) -> None:
    for name in ("train.tsv", "valid.csv", "dev.txt"):
        (tmp_path / name).write_bytes(GOOD)
    with pytest.raises(DataError) as failure:
        read_split(tmp_path)
    assert str(failure.value) == f"{tmp_path}: both dev.txt and valid.csv hold valid facts; keep one of them."


def test_folder_as_graph(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder; read_split reads a folder"):
        read_graph(tmp_path)


def test_bad_lists_of_names(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes(GOOD)
    (tmp_path / "entities.txt").write_text("x\na\nx\n")
    with pytest.raises(MalformedFile) as failure:
        read_split(tmp_path)
    assert str(failure.value) == (
        f"{tmp_path / 'entities.txt'}, line 3: 'x' is listed already, in line 1; keep one of the lines."
    )
    (tmp_path / "entities.txt").write_text("x\na\t3\n")
    with pytest.raises(MalformedFile) as failure:
        read_split(tmp_path)
    assert (
        str(failure.value) == f"{tmp_path / 'entities.txt'}, line 2: a tab in a list of names; write one name per line."
    )


def test_parquet_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(GOOD)
    with pytest.raises(MalformedFile) as failure:
        read_graph(path)
    assert str(failure.value).startswith(f"{path}: not a Parquet file of names (")
    assert str(failure.value).endswith("); write it again, with text columns source, relation, target.")


def test_parquet_that_its_library_panics_over(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One byte of a good file was changed: polars prints a page about it and raises what no `except Exception` sees."""
    path = tmp_path / "f.parquet"
    path.write_bytes((Path(__file__).parent / "damaged.parquet").read_bytes())
    with pytest.raises(
        MalformedFile,
        match=r"f\.parquet: not a Parquet file of names \(damaged: what it holds cannot be unpacked\); write",
    ) as failure:
        read_graph(path)
    assert len(str(failure.value).splitlines()) == 1
    with pytest.raises(MalformedFile, match="not a Parquet file of names"):
        pack(path, tmp_path / "packed")
    assert capfd.readouterr().err == ""
    assert [file.name for file in tmp_path.iterdir()] == ["f.parquet"]


def test_what_others_print_while_parquet_is_read_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    with panics_as_errors():
        os.write(2, b"said meanwhile\n")
    assert capsys.readouterr().err == "said meanwhile\n"


def test_a_split_is_not_a_graph(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_bytes(GOOD)
    with pytest.raises(
        ConfigError, match=r"graph must be a KnowledgeGraph, not a SplitGraph; .* split\.graph\('train'"
    ):
        write_graph(read_split(tmp_path / "f.tsv"), tmp_path / "g.tsv")  # type: ignore[arg-type]
    assert not (tmp_path / "g.tsv").exists()


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"a": ["x"], "b": ["y"]}, "2 columns (a, b) instead of 3; write columns source, relation and target."),
        (
            {"s": ["x", "y"], "p": ["r", None], "o": ["z", "z"]},
            "the relation of row 2 is empty; give it a name or delete the row.",
        ),
        (
            {"source": ["x"], "relation": ["r"], "target": ["y"], "label": [2]},
            "label '2' of row 1 is neither 1 nor -1; " + LABEL_REMEDY + ".",
        ),
        (
            {"source": [], "type": [], "target": []},
            "the file holds no facts; write one fact per line, or leave the file out.",
        ),
    ],
)
def test_bad_parquet(tmp_path: Path, table: dict[str, list[object]], expected: str) -> None:
    path = tmp_path / "f.parquet"
    pl.DataFrame(table).write_parquet(path)
    with pytest.raises(MalformedFile) as failure:
        read_graph(path)
    assert str(failure.value) == f"{path}: {expected}"


def test_parquet_of_lists(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pl.DataFrame({"s": [[1]], "p": ["r"], "o": ["d"]}).write_parquet(path)
    with pytest.raises(MalformedFile, match="not a Parquet file of names"):
        read_graph(path)


@pytest.mark.parametrize("character", ["\t", "\n", "\r"])
def test_tsv_refuses_names_it_cannot_hold_and_leaves_nothing(tmp_path: Path, character: str) -> None:
    graph: KnowledgeGraph = graph_of([(f"a{character}b", "r", "c")])
    path = tmp_path / "f.tsv"
    path.write_bytes(b"old")
    with pytest.raises(DataError) as failure:
        write_graph(graph, path)
    assert str(failure.value) == (
        f"{path}: the name {f'a{character}b'!r} holds a tab or a line break, which TSV cannot hold; "
        "write .parquet, .csv or .nt."
    )
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("f.tsv", b"old")]


def test_formats_that_are_only_read(tmp_path: Path) -> None:
    with pytest.raises(DataError) as failure:
        write_graph(graph_of([("a", "r", "b")]), tmp_path / "f.rdf")
    assert str(failure.value) == (
        f"{tmp_path / 'f.rdf'}: this format is read, but not written; write .tsv, .csv, .parquet, .nt, .ttl or .jsonld."
    )
