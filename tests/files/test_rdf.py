"""Turtle, TriG and RDF/XML."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest

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


def test_rdf_xml(tmp_path: Path) -> None:
    quads = [
        ox.Quad(ox.NamedNode(source), ox.NamedNode(relation), ox.NamedNode(target))
        for source, relation, target in NAMED[:2]
    ]
    ox.serialize(quads, str(tmp_path / "kin.rdf"), format=ox.RdfFormat.RDF_XML)
    assert facts_of(read_graph(tmp_path / "kin.rdf")) == NAMED[:2]
