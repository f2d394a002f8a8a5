"""Results in the standard's formats, read back by the parsers of pyoxigraph; triples by those of RDF."""

from __future__ import annotations

import io

import pyoxigraph as ox
import pytest
from rdflib import RDF, Graph, Literal, URIRef

from blockhole.answering.sparql.results import Solution, Solutions, Statement, Statements, Truth, written
from blockhole.errors import ConfigError
from tests.sparql.worlds import EXAMPLE, rdf_engine

TERMS = (
    "<http://example.org/a>",
    '"a \\"quoted\\"\\ttext, <b> & more\\n"@en',
    '"7"^^<http://www.w3.org/2001/XMLSchema#integer>',
    "_:b0",
    None,
)
ROWS = Solutions(
    ("a", "b", "c", "d", "e"), (Solution(TERMS, 0.5, "predicted"), Solution((None,) * 5, 1.0, "known")), True
)
FORMATS = {
    "json": ox.QueryResultsFormat.JSON,
    "xml": ox.QueryResultsFormat.XML,
    "tsv": ox.QueryResultsFormat.TSV,
}


@pytest.mark.parametrize("form", FORMATS)
def test_rows_are_read_back(form: str) -> None:
    found = ox.parse_query_results(io.BytesIO(written(ROWS, form).encode()), format=FORMATS[form])
    assert isinstance(found, ox.QuerySolutions)
    assert [each.value for each in found.variables] == list(ROWS.variables)
    first, second = ([row[name] for name in ROWS.variables] for row in found)
    spelled = [None if term is None else str(term) for term in first]
    assert spelled[:3] == list(TERMS[:3])
    assert isinstance(first[3], ox.BlankNode)
    assert [first[4], *second] == [None] * 6


def test_csv_is_plain() -> None:
    lines = ROWS.written("csv").split("\r\n")
    assert lines[0] == "a,b,c,d,e"
    assert "\r\n".join(lines[1:]) == 'http://example.org/a,"a ""quoted""\ttext, <b> & more\n",7,_:b0,\r\n,,,,\r\n'


@pytest.mark.parametrize("holds", [True, False])
def test_truth_is_read_back(holds: bool) -> None:
    truth = Truth(holds, 0.5, "predicted", True)
    for form in ("json", "xml"):
        found = ox.parse_query_results(io.BytesIO(written(truth, form).encode()), format=FORMATS[form])
        assert bool(found) is holds
    assert written(truth, None) == written(truth, "tsv") == f"{'true' if holds else 'false'}\n"


def test_constructed_triples_have_their_probability() -> None:
    engine = rdf_engine(2)
    query = "CONSTRUCT { ?x ex:r0 ?y . ?y ex:new [] } { ex:e0 ex:r1 ?x . ?x ex:r0 ?y FILTER(?probability > 0.01) }"
    made = engine.sparql(query)
    rows = engine.sparql(query.replace("CONSTRUCT { ?x ex:r0 ?y . ?y ex:new [] }", "SELECT ?x ?y"))
    assert isinstance(made, Statements)
    assert isinstance(rows, Solutions)
    ours = {(each.source, each.target): each for each in made if each.relation == f"<{EXAMPLE}r0>"}
    expected = {row.terms: row for row in rows if not (row.terms[0] or "").startswith('"')}
    assert ours.keys() == expected.keys()
    assert {each.status for each in ours.values()} == {"known", "predicted"}
    for pair, each in ours.items():
        assert (each.probability, each.status) == (expected[pair].probability, expected[pair].status)
    kinds = {
        "turtle": ox.RdfFormat.TURTLE, "ntriples": ox.RdfFormat.N_TRIPLES,
        "rdfxml": ox.RdfFormat.RDF_XML, "jsonld": ox.RdfFormat.JSON_LD,
        "turtle-1.2": ox.RdfFormat.TURTLE, "ntriples-1.2": ox.RdfFormat.N_TRIPLES,
    }  # fmt: skip
    predicted = sum(each.status == "predicted" for each in made)
    for form, kind in kinds.items():
        store = ox.Store()
        for quad in ox.parse(written(made, form), format=kind):
            store.add(quad)
        assert len(store) == len(made) + (2 if form.endswith("-1.2") else 5) * predicted
        probabilities = store.query("SELECT ?p { ?s <urn:blockhole-answers:probability> ?p }")
        assert sorted(float(row["p"].value) for row in probabilities) == pytest.approx(  # type: ignore[union-attr]
            sorted(each.probability for each in made if each.status == "predicted"), rel=1e-5
        )


def test_triples_of_rdf_1_2_are_about_the_triple_itself_and_those_of_1_1_are_for_every_reader() -> None:
    made = Statements((Statement("<urn:a>", "<urn:r>", '"1"', 0.75, "predicted"),), {}, True)
    about = next(
        quad for quad in ox.parse(written(made, "turtle-1.2"), format=ox.RdfFormat.TURTLE) if "reifies" in str(quad)
    )
    assert str(about.object) == '<urn:a> <urn:r> "1"'
    for form, name in (("turtle", "turtle"), ("ntriples", "nt"), ("rdfxml", "xml")):
        graph = Graph().parse(data=written(made, form), format=name)
        (statement,) = graph.subjects(RDF.type, RDF.Statement)
        assert (graph.value(statement, RDF.subject), graph.value(statement, RDF.object)) == (
            URIRef("urn:a"),
            Literal("1"),
        )
        assert float(str(graph.value(statement, URIRef("urn:blockhole-answers:probability")))) == 0.75


def test_formats_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="results are written as json, xml, csv or tsv, not as turtle"):
        written(ROWS, "turtle")
    with pytest.raises(ConfigError, match=r"triples are written as turtle, ntriples, .* or ntriples-1\.2, not as csv"):
        written(Statements((), {}, True), "csv")
