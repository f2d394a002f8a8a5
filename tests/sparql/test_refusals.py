"""What cannot be read, is unknown, or is not supported is refused by name, with its line and column."""

from __future__ import annotations

import re

import pytest

from blockhole.answering.search import Deadline
from blockhole.errors import ConfigError, OutOfTime, QueryError, QueryTooCostly, RunError, SparqlError
from tests.answering.toys import make_engine
from tests.sparql.worlds import rdf_engine

ENGINE = rdf_engine(0)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "line 1, column 1: the query is empty; write SELECT, ASK or CONSTRUCT."),
        ("SELECT ?x { ?x ex:r0 ", "line 1, column 22: the query ends too early: a brace, a term"),
        ("SELECT ?x {\n  ?x ex:r0 }", "line 2, column 12: the query cannot be read from '}' on."),
        ("SELECT ?x { ?x foo:r0 ?y }", "line 1, column 16: the prefix foo: is not declared; declared are :, ex:."),
        ("INSERT DATA { ex:e0 ex:r0 ex:e1 }", "line 1, column 1: SPARQL Update is not supported: a run is read, never"),
        ("PREFIX a: <b:c>\nDELETE WHERE { ?x ex:r0 ?y }", "line 2, column 1: SPARQL Update is not supported"),
        ("SELECT ?x { SERVICE <a:b> { ?x ex:r0 ?y } }", "line 1, column 13: SERVICE is not supported"),
        ("SELECT ?x { ?x ex:r0 ex:e99 }", "line 1, column 22: unknown entity 'http://example.org/e99'; did you mean <"),
        ("SELECT ?x {\n?x ex:r0|ex:r9 ?y }", "line 2, column 10: unknown relation 'http://example.org/r9'; did you"),
        ("SELECT ?x { ?x ex:e0 ?y }", "line 1, column 16: unknown relation 'http://example.org/e0'; it is an entity."),
        ("SELECT ?x { ?x :knows%20of :Ada%20Lovelac }", "unknown entity 'Ada Lovelac'; did you mean <urn:blockhole:"),
        ('SELECT ?x { ?x ex:r0 "Ida"@en }', "line 1, column 22: unknown entity '\"Ida\"@en'; did you mean \"Ada\"@en"),
        ("SELECT ?p { ex:e0 ?p ?y }", "line 1, column 19: a variable in the place of a relation is not supported: ?p."),
        ("SELECT ?x { ?x !ex:r0 ?y }", "line 1, column 16: a negated property !r is not supported"),
        ("SELECT ?x { GRAPH ?g { ?x ex:r0 ?y } }", "line 1, column 13: GRAPH is not supported: there is one graph."),
        ("SELECT ?x FROM <a:b> { ?x ex:r0 ?y }", "line 1, column 11: there is one graph: leave out FROM."),
        ("DESCRIBE ex:e0", "line 1, column 1: DESCRIBE is not supported; write SELECT, ASK or CONSTRUCT."),
        ("SELECT ?x { ?x ex:r0 ?y BIND(1 AS ?z) }", "line 1, column 25: BIND is not supported"),
        ("SELECT ?x { BIND(1 AS ?x) }", "line 1, column 13: BIND is not supported"),
        ("SELECT ?x { ?x ex:r0 ?y FILTER(REGEX(STR(?x), 'e[')) }", "column 32: the pattern 'e[' of REGEX cannot"),
        ("SELECT ?x { ?x ex:r0 ?y FILTER(REGEX(STR(?x), '(?=e)')) }", "column 32: the pattern '(?=e)' of REGEX cannot"),
        ("SELECT (SUM(?y) AS ?n) { ?x ex:r0 ?y }", "line 1, column 9: SUM is not supported; COUNT is."),
        ("SELECT (?x + 1 AS ?n) { ?x ex:r0 ?y }", "column 16: an expression in SELECT is not supported"),
        ("SELECT ?x (COUNT(*) AS ?n) { ?x ex:r0 ?y } GROUP BY ?x HAVING (?n > 1)", "HAVING is not supported"),
        ("SELECT ?x { { SELECT ?x { ?x ex:r0 ?y } } }", "line 1, column 15: a query inside a query is not supported"),
        ("SELECT ?x { ?x ex:r0 ?y FILTER(MD5(STR(?x)) = 'a') }", "line 1, column 32: MD5 is not supported in"),
        ("SELECT ?x { ?x ex:r0 ?y FILTER(?x = ex:e0 || EXISTS { ?x ex:r1 ?y }) }", "EXISTS joined by || or ! is not"),
        ("SELECT ?x { ?x ex:r0 ?probability }", "?probability and ?status are what the answer says of itself"),
        ("SELECT ?x { { ?x ex:r0 ?y FILTER(?status = 'known') } UNION { ?x ex:r1 ?y } }", "in the outermost group"),
        ("SELECT (COUNT(*) AS ?n) ?probability { ?x ex:r0 ?y } GROUP BY ?probability", "a count has no probability"),
        ("PREFIX a: <urn:blockhole-answers:most> ASK {}", "ends in known or in a probability above 0, such as 0.9."),
        ("PREFIX a: <urn:blockhole-answers:0> ASK {}", "ends in known or in a probability above 0, such as 0.9."),
        ("ASK { " + " " * 20_000 + "}", "the query has 20,007 characters; a query may have 16,384 at most."),
        ("ASK " + "{" * 3000 + "}" * 3000, "line 1, column "),
    ],
)  # fmt: skip
def test_what_is_refused(query: str, message: str) -> None:
    with pytest.raises(SparqlError) as refused:
        ENGINE.sparql(query)
    first = str(refused.value).partition("\n")[0]
    assert message in first
    assert re.match(r"line \d+, column \d+: ", first)
    assert first[-1] in ".?"
    assert (refused.value.line, refused.value.column) >= (1, 1)


def test_the_place_is_drawn() -> None:
    with pytest.raises(SparqlError, match=r"\n  \?x ex:r9 \?y }\n     \^$"):
        ENGINE.sparql("SELECT ?x {\n?x ex:r9 ?y }")


def test_products_are_refused_with_their_size() -> None:
    engine, _ = make_engine(E=200, R=2, facts=4000, seed=1)
    with pytest.raises(QueryTooCostly, match=r"has [\d,]+ solutions, and 1,000,000 are allowed; join its patterns"):
        engine.sparql("SELECT * { ?a :r0 ?b . ?c :r1 ?d }")
    with pytest.raises(QueryTooCostly, match="1,000,000 are allowed"):
        engine.sparql("SELECT ?a { ?a :r0 ?b . ?c :r1 ?d }", known=True)


def test_what_is_too_costly_is_refused_where_it_stands() -> None:
    engine, _ = make_engine(E=200, R=2, facts=4000, seed=1)
    with pytest.raises(
        QueryTooCostly, match=r"^line 3, column 25: a part of the query has [\d,]+ solutions"
    ) as refused:
        engine.sparql("SELECT ?d # ?d\n{ ?a :r0 ?b .\n?d :r1 ?a . ?a :r1 ?e . ?f :r1 ?g }", known=True)
    assert isinstance(refused.value, SparqlError)
    assert (refused.value.line, refused.value.column) == (3, 25)


def test_a_search_that_ends_at_a_limit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=30, R=3, facts=60)
    query = "SELECT ?x ?y ?z ?probability { ?x :r0 ?y . ?y :r1 ?z }"
    every = engine.sparql(query)
    assert every.complete
    from blockhole.answering.sparql import tables

    monkeypatch.setattr(tables, "MOST_ROWS", 150)
    best = engine.sparql(f"{query} LIMIT 100")
    assert not best.complete
    assert list(best) == list(every)[: len(best)]  # type: ignore[arg-type]
    assert len(best) > 10  # type: ignore[arg-type]


def test_what_is_in_one_another_without_end_is_refused() -> None:
    with pytest.raises(QueryError, match="too many triples or braces in one another"):
        ENGINE.sparql("SELECT ?x " + "{" * 3000 + " ?x ex:r0 ?y " + "}" * 3000)
    for depth in (100, 200, 400):
        try:
            ENGINE.sparql("SELECT ?x { ?x ex:r0 ?y " + " MINUS { ?x ex:r1 ?z " * depth + "}" * depth + " }", known=True)
        except QueryError as refused:
            assert depth > 100
            assert "in one another; ask for less at once" in str(refused)  # noqa: PT017


def test_many_triples_are_read() -> None:
    triples = " ".join(f"?x ex:r0 ?y{number} ." for number in range(200))
    assert ENGINE.sparql(f"SELECT ?x {{ VALUES ?x {{ ex:e99 }} {triples} }}", known=True).complete


def test_time_and_arguments_and_calibration() -> None:
    with pytest.raises(OutOfTime):
        ENGINE.sparql("SELECT ?x { ?x ex:r0 ?y }", deadline=Deadline(-1))
    for threshold in (0.0, 1.5, -1.0):
        with pytest.raises(ConfigError, match="threshold must be a probability above 0, at most 1"):
            ENGINE.sparql("ASK {}", threshold=threshold)
    bare, _ = make_engine(calibrated=False)
    with pytest.raises(RunError, match="calibrate"):
        bare.sparql("SELECT ?x { :e1 :r0 ?x }")
    assert bare.sparql("SELECT ?x { :e1 :r0 ?x }", known=True).complete
    assert bare.sparql("PREFIX a: <urn:blockhole-answers:known> SELECT ?x { :e1 :r0 ?x }").complete
