"""Turtle, TriG, RDF/XML, N3 and JSON-LD; prefixes, literals and labels."""

from __future__ import annotations

import logging
from pathlib import Path

import pyoxigraph as ox
import pytest

from blockhole.cli.main import main
from blockhole.data.dataset import answers_from_facts, load, store
from blockhole.errors import NOTES, ConfigError, MalformedFile, UnknownName
from blockhole.files import rdf
from blockhole.files.readers import read_graph, read_split
from blockhole.files.writers import convert
from blockhole.fitting import train
from blockhole.runs.run import Run
from tests.files.facts import compress_zstd, facts_of

TURTLE = """@prefix : <http://x/> .
:William :fatherOf :George , :Charlotte ; :label "William"@en .
_:someone :knows [ :name "Ann \\"A\\" \\n" ] .
"""
NAMED = [
    ("http://x/William", "http://x/fatherOf", "http://x/George"),
    ("http://x/William", "http://x/fatherOf", "http://x/Charlotte"),
    ("http://x/William", "http://x/label", '"William"@en'),
]


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_turtle(tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf, "BATCH", batch)
    (tmp_path / "kin.ttl").write_text(TURTLE)
    facts = facts_of(read_graph(tmp_path / "kin.ttl"))
    assert facts[:3] == NAMED
    by_relation = {relation: (source, target) for source, relation, target in facts[3:]}
    someone, ann = by_relation["http://x/knows"]
    assert {someone, ann} == {"_:kin0", "_:kin1"}
    assert by_relation["http://x/name"] == (ann, '"Ann \\"A\\" \\n"')


def test_blank_nodes_of_different_files_are_different(tmp_path: Path) -> None:
    (tmp_path / "train.ttl").write_text("_:x <p:p> <a:a> . <a:a> <p:p> _:x .")
    (tmp_path / "test.ttl").write_text("<a:a> <p:p> _:x .")
    with pytest.warns(UserWarning, match="1 entity of valid and test, in 1 triple"):
        split = read_split(tmp_path)
    assert list(split.entities) == ["_:train0", "a:a", "_:test0"]


def test_trig_unites_its_graphs(tmp_path: Path) -> None:
    (tmp_path / "kin.trig.zst").write_bytes(compress_zstd(b"<g:g> { <a:a> <p:p> <b:b> } <a:a> <p:q> <b:b> ."))
    assert facts_of(read_graph(tmp_path / "kin.trig.zst")) == [("a:a", "p:p", "b:b"), ("a:a", "p:q", "b:b")]


@pytest.mark.parametrize("suffix", ["ttl", "trig", "nt", "nq", "rdf", "tsv", "csv", "ttl.zst"])
def test_a_byte_order_mark_belongs_to_no_name(suffix: str, tmp_path: Path) -> None:
    triple = "<a:a> <p:p> <b:b> .\n"
    body = {"rdf": XML.format(dtd="", target="b:b"), "tsv": "a:a\tp:p\tb:b\n", "csv": "a:a,p:p,b:b\n"}
    content = b"\xef\xbb\xbf" + body.get(suffix, triple).encode()
    (tmp_path / f"f.{suffix}").write_bytes(compress_zstd(content) if suffix.endswith("zst") else content)
    assert facts_of(read_graph(tmp_path / f"f.{suffix}")) == [("a:a", "p:p", "b:b")]


XML = """<?xml version="1.0"?>
{dtd}
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:p="p:">
<rdf:Description rdf:about="a:a"><p:p rdf:resource="{target}"/></rdf:Description>
</rdf:RDF>"""


@pytest.mark.parametrize(
    "definitions",
    [
        '<!ENTITY ex "http://example.org/">',
        '<!ENTITY host "example.org"><!ENTITY ex "http://&host;/">',
        '\n  <!ENTITY\n ex\n "http://example.org/"\n>\n',
    ],
)
def test_entities_abbreviate(definitions: str, tmp_path: Path) -> None:
    """OWL files begin so."""
    (tmp_path / "f.owl").write_text(XML.format(dtd=f"<!DOCTYPE rdf:RDF [{definitions}]>", target="&ex;b"))
    assert facts_of(read_graph(tmp_path / "f.owl")) == [("a:a", "p:p", "http://example.org/b")]


@pytest.mark.parametrize("newline", ["", "\n"])
def test_entities_do_not_grow_without_bound(newline: str, tmp_path: Path) -> None:
    bomb = '<!ENTITY e0 "0123456789">' + "".join(
        f'<!ENTITY{newline} e{i} {newline}"{f"&e{i - 1};{newline}" * 10}"{newline}>' for i in range(1, 12)
    )
    for definitions in (bomb, f"<!-- no {newline} comment {bomb} -->", f'<!ENTITY e11 "{"x" * 300}">',
                        f'<!ENTITY e11 "{"x" * 100_000}">', f'<!ENTITY e11 "{f"x{newline}" * 100_000}'):  # fmt: skip
        (tmp_path / "f.rdf").write_text(XML.format(dtd=f"<!DOCTYPE rdf:RDF [{definitions}]>", target="&e11;"))
        with pytest.raises(
            MalformedFile, match=r"f\.rdf, line \d+: .* stands for more than 256 characters; write them out"
        ):
            read_graph(tmp_path / "f.rdf")


def test_rdf_xml(tmp_path: Path) -> None:
    quads = [
        ox.Quad(ox.NamedNode(source), ox.NamedNode(relation), ox.NamedNode(target))
        for source, relation, target in NAMED[:2]
    ]
    ox.serialize(quads, str(tmp_path / "kin.rdf"), format=ox.RdfFormat.RDF_XML)
    assert facts_of(read_graph(tmp_path / "kin.rdf")) == NAMED[:2]


@pytest.mark.parametrize(
    "text",
    [
        "@prefix : <http://x/{long}> .\n:a :p :b .\n",
        "@base <http://x/{long}/> .\n<a> <p> <b> .\n",
        "@prefix x: <http://x/> .\n" + "x:a x:p x:b .\n" * 200 + "@prefix x: <http://x/{long}> .\nx:a x:p x:c .\n",
    ],
)
def test_a_prefix_of_thousands_of_characters_is_refused(tmp_path: Path, text: str) -> None:
    """A file of kilobytes with a long prefix and many short names would be gigabytes in memory."""
    path = tmp_path / "facts.ttl"
    path.write_text(text.replace("{long}", "y" * 1900), encoding="utf-8")
    assert read_graph(path).num_entities >= 2
    path.write_text(text.replace("{long}", "y" * 2100), encoding="utf-8")
    with pytest.raises(MalformedFile, match=r"a prefix stands for 2,1.. characters; shorten it to 2,048 at most"):
        read_graph(path)


GEO = """@prefix : <http://x/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:France :borders :Spain ; rdfs:label "La \\"France\\""@fr , "France" ; :population 68000000 .
:Spain :borders :France ; :population 48000000 .
"""
BORDERS = [
    ("http://x/France", "http://x/borders", "http://x/Spain"),
    ("http://x/Spain", "http://x/borders", "http://x/France"),
]
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


@pytest.mark.parametrize(("name", "content"), [
    ("geo.n3", "@prefix : <http://x/> . :France :borders :Spain . :Spain :borders :France ."),
    ("geo.jsonld", '\ufeff{"@context": {"ex": "http://x/", "borders": {"@id": "ex:borders", "@type": "@id"}}, '
     '"@graph": [{"@id": "ex:France", "borders": "ex:Spain"}, {"@id": "ex:Spain", "borders": "ex:France"}]}'),
])  # fmt: skip
def test_n3_and_json_ld(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert facts_of(read_graph(tmp_path / name)) == BORDERS


def test_keys_of_json_ld_that_no_context_explains_say_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=NOTES)
    path = tmp_path / "geo.jsonld"
    path.write_text('{"@context": {"name": "http://x/name"}, "@id": "http://x/a", "name": "A", "size": 3, "age": 4}')
    assert facts_of(read_graph(path)) == [("http://x/a", "http://x/name", '"A"')]
    path.write_text('[{"source": "a", "relation": "r", "target": "b"}]')
    with pytest.raises(MalformedFile, match="the file holds no facts"):
        read_graph(path)
    advice = "if the file is a table of facts, write it as CSV."
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: 2 keys that no @context explains left out, such as 'size'; {advice}",
        f"{path}: 3 keys that no @context explains left out, such as 'source'; {advice}",
    ]


@pytest.mark.parametrize("suffix", [".ttl", ".nt"])
@pytest.mark.parametrize(("literals", "relations", "dropped"), [
    (None, {"http://x/borders", LABEL, "http://x/population"}, None),
    ("keep", {"http://x/borders", LABEL, "http://x/population"}, None),
    ("drop", {"http://x/borders"}, 4),
    ("rdfs:label", {"http://x/borders", LABEL}, 2),
    (["<http://x/population>"], {"http://x/borders", "http://x/population"}, 2),
])  # fmt: skip
def test_literals_are_kept_dropped_or_chosen(
    tmp_path: Path,
    suffix: str,
    literals: str | list[str] | None,
    relations: set[str],
    dropped: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "geo.ttl").write_text(GEO)
    path = tmp_path / f"geo{suffix}"
    if suffix != ".ttl":
        convert(tmp_path / "geo.ttl", path)
    caplog.set_level(logging.INFO, logger=NOTES)
    assert set(read_graph(path, literals=literals).relations) == relations
    said = [] if dropped is None else [f"{path}: {dropped} triples with literals left out."]
    assert [record.getMessage() for record in caplog.records] == said


def test_predicates_without_literals_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "geo.ttl"
    path.write_text(GEO)
    caplog.set_level(logging.INFO, logger=NOTES)
    read_graph(path, literals="rdfs:label,rdfs:labl,x:none")
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: 2 triples with literals left out; none has the predicate rdfs:labl or x:none."
    ]
    with pytest.raises(ConfigError, match="literals must be keep, drop, or the predicates whose literals are kept"):
        read_graph(path, literals=" , ")


def test_a_misspelt_name_with_a_prefix_finds_what_is_like_it(tmp_path: Path) -> None:
    path = tmp_path / "geo.ttl"
    path.write_text(GEO)
    with pytest.raises(UnknownName) as failure:
        read_graph(path).relations.id(":bordrs")
    assert failure.value.nearest == ("http://x/borders",)


def test_a_name_in_quotes_is_no_literal(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('source,relation,target\na,r,"""b"""\n"""b""",r,c\n')
    convert(tmp_path / "a.csv", tmp_path / "a.nt")
    assert len(read_graph(tmp_path / "a.nt", literals="drop")) == 2


def test_prefixes_are_kept_with_the_graph_and_the_run(tmp_path: Path) -> None:
    (tmp_path / "geo.ttl").write_text(GEO)
    graph = read_graph(tmp_path / "geo.ttl")
    assert graph.entities.find(":France") == graph.entities.id("http://x/France")
    assert graph.relations.find("rdfs:label") == graph.relations.id(LABEL)
    assert graph.entities.find("rdfs:France") is None
    assert [graph.entities.shortened(name) for name in ("http://x/Spain", "http://y/Spain", "http://x/")] == [
        ":Spain", "http://y/Spain", "http://x/",
    ]  # fmt: skip
    assert answers_from_facts(str(tmp_path / "geo.ttl"), ":France/:borders").entities == ("http://x/Spain",)
    store(load(tmp_path / "geo.ttl").split, tmp_path / "stored", origin={})
    run = train(tmp_path / "stored", epochs=1, threads=1, out=tmp_path / "run")
    for kept in (run, Run.open(tmp_path / "run")):
        assert kept.entities.prefixes == {"": "http://x/", "rdfs": LABEL.removesuffix("label")}
        assert kept.relations.find(":borders") == 0
    (tmp_path / "stored" / "prefixes.json").write_text("[]")
    with pytest.raises(
        MalformedFile, match=r"prefixes\.json: not prefixes and what they stand for; delete it, or write"
    ):
        read_split(tmp_path / "stored")


def test_turtle_is_written_with_the_prefixes_it_had(tmp_path: Path) -> None:
    (tmp_path / "geo.ttl").write_text(GEO)
    convert(tmp_path / "geo.ttl", tmp_path / "again.ttl")
    assert (tmp_path / "again.ttl").read_text().splitlines()[2] == ":France :borders :Spain ;"
    assert read_graph(tmp_path / "again.ttl") == read_graph(tmp_path / "geo.ttl")


def test_labels_are_shown_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "geo.ttl"
    path.write_text(GEO)
    assert rdf.labels(read_graph(path)) == {"http://x/France": 'La "France"'}
    for names, shown in (("full", "http://x/France"), ("short", ":France"), ("label", 'La "France"')):
        with pytest.raises(SystemExit) as stop:
            main(["answers", str(path), ":Spain/:borders", "--names", names])
        assert not stop.value.code
        assert capsys.readouterr().out == f"{shown}\n"
