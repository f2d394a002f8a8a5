"""Turtle, TriG and RDF/XML."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest

from blockhole.errors import MalformedFile
from blockhole.files import rdf
from blockhole.files.readers import read_graph, read_split
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
