"""/sparql by the SPARQL 1.1 Protocol, asked by the clients that people have."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from rdflib import Graph, Literal, URIRef
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from SPARQLWrapper import CSV, GET, JSON, N3, POST, POSTDIRECTLY, TSV, URLENCODED, XML, SPARQLWrapper

import blockhole
from blockhole.answering.sparql.results import Solutions
from tests.serving.processes import ServerProcess, serving

NEXT = "SELECT ?x { :number%203 :next ?x }"
BEST = "SELECT ?x ?y ?probability ?status { ?x :double ?y } ORDER BY DESC(?probability) ?x LIMIT 3"
FOUR = "urn:blockhole:number%204"
DIRECT = {"Content-Type": "application/sparql-query"}
SITE = "https://yasgui.example.org"


@pytest.fixture(scope="module")
def shared(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a key that pages of one other site may ask."""
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_text("open-sesame")
    log = tmp_path_factory.mktemp("shared") / "log"
    with serving(log, run, "--port", 0, "--cors-origin", SITE, "--api-key-file", key, "--timeout", 2) as process:
        yield process


# Clients


@pytest.mark.parametrize(("method", "request_method"), [(GET, URLENCODED), (POST, URLENCODED), (POST, POSTDIRECTLY)])
def test_sparqlwrapper(method: str, request_method: str, server: ServerProcess) -> None:
    client: Any = SPARQLWrapper(f"{server.url}sparql")
    client.setMethod(method)
    client.setRequestMethod(request_method)
    client.setQuery(NEXT)
    client.setReturnFormat(JSON)
    assert client.queryAndConvert()["results"]["bindings"] == [{"x": {"type": "uri", "value": FOUR}}]
    client.setReturnFormat(XML)
    assert FOUR in client.queryAndConvert().toxml()
    client.setReturnFormat(CSV)
    assert client.queryAndConvert() == f"x\r\n{FOUR}\r\n".encode()
    client.setReturnFormat(TSV)
    assert client.queryAndConvert() == f"?x\n<{FOUR}>\n".encode()
    client.setQuery("ASK { :number%203 :next :number%204 }")
    client.setReturnFormat(JSON)
    assert client.queryAndConvert()["boolean"] is True
    client.setQuery("CONSTRUCT WHERE { :number%203 :next ?x }")
    client.setReturnFormat(N3)
    assert b"number\\%204" in client.queryAndConvert()


def test_store_of_rdflib(server: ServerProcess, run: Path) -> None:
    graph: Any = Graph(SPARQLStore(f"{server.url}sparql"))
    assert [row.x for row in graph.query(NEXT)] == [URIRef(FOUR)]
    assert bool(graph.query("ASK { :number%203 :next :number%205 }")) is False
    name = URIRef("urn:blockhole:number%203")
    assert list(graph.objects(name, URIRef("urn:blockhole:next"))) == [URIRef(FOUR)]
    expected = blockhole.sparql(run, BEST)
    assert isinstance(expected, Solutions)
    found = list(graph.query(BEST))
    assert [tuple(row)[:2] for row in found] == [
        tuple(URIRef((term or "")[1:-1]) for term in row.terms[:2]) for row in expected
    ]
    assert [row[3] for row in found] == [Literal(row.status) for row in expected]


def test_curl(server: ServerProcess) -> None:
    def curl(*options: str) -> str:
        command = ["curl", "--silent", "--fail-with-body", f"{server.url}sparql", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert curl("--get", "--data-urlencode", f"query={NEXT}", "-H", "Accept: text/csv") == f"x\n{FOUR}\n"
    found = json.loads(curl("--data-urlencode", f"query={NEXT}"))
    assert found == {"head": {"vars": ["x"]}, "results": {"bindings": [{"x": {"type": "uri", "value": FOUR}}]}}
    found = json.loads(curl("--data-binary", NEXT, "-H", "Content-Type: application/sparql-query"))
    assert found["head"]["vars"] == ["x"]


# The protocol


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("*/*", "application/sparql-results+json"),
        ("application/json", "application/sparql-results+json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/sparql-results+xml"),
        ("text/csv;q=0.5, text/tab-separated-values", "text/tab-separated-values"),
        ("text/turtle, text/csv;q=0.1", "text/csv"),
        ("application/*", "application/sparql-results+json"),
        ("application/*;q=0, text/csv;q=0.1", "text/csv"),
    ],
)
def test_the_format_is_the_one_that_accept_prefers(accept: str, media: str, client: httpx.Client) -> None:
    answer = client.get("/sparql", params={"query": NEXT}, headers={"Accept": accept})
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == media
    assert "Accept" in answer.headers["vary"]


def test_triples_are_of_rdf_1_2_where_accept_names_that_version(client: httpx.Client) -> None:
    query = "CONSTRUCT { ?x :double ?y } { ?x :double ?y FILTER(?status = 'predicted') } LIMIT 1"
    for accept, shown in (("text/turtle", "Statement"), ("text/turtle; version=1.2", "<<("), ("text/*", "Statement")):
        answer = client.get("/sparql", params={"query": query}, headers={"Accept": accept})
        assert answer.headers["content-type"].startswith("text/turtle")
        assert ("version=1.2" in answer.headers["content-type"]) == (shown == "<<(")
        assert shown in answer.text
    answer = client.get("/sparql", params={"query": NEXT}, headers={"Accept": "text/csv; version=1.2"})
    assert answer.headers["content-type"].startswith("text/csv")  # a parameter that says nothing here


def test_results_are_those_of_the_engine(run: Path, client: httpx.Client) -> None:
    query = "SELECT ?x ?y ?probability { ?x :double ?y }"
    every: list[dict[str, Any]] = [{}, {"known": True}, {"threshold": 0.2}]
    for options in every:
        expected = blockhole.sparql(run, query, **options)
        assert isinstance(expected, Solutions)
        params = {"query": query, **{name: str(value).lower() for name, value in options.items()}}
        assert client.get("/sparql", params=params).json() == json.loads(expected.written("json"))
        assert client.post("/sparql", data=params).json() == json.loads(expected.written("json"))
    assert len(blockhole.sparql(run, query)) > len(blockhole.sparql(run, query, known=True))  # type: ignore[arg-type]


def test_xml_is_xml(client: httpx.Client) -> None:
    answer = client.get("/sparql", params={"query": BEST}, headers={"Accept": "application/sparql-results+xml"})
    rows = ElementTree.fromstring(answer.text).findall(".//{*}result")
    assert len(rows) == 3


def test_the_service_describes_itself(client: httpx.Client) -> None:
    for media in ("text/turtle", "application/rdf+xml", "application/n-triples", "application/ld+json"):
        answer = client.get("/sparql", headers={"Accept": media})
        assert answer.headers["content-type"].partition(";")[0] == media
        if media == "application/ld+json":  # rdflib warns of its own reader
            assert answer.json()
            continue
        described = Graph().parse(data=answer.text, format=media)
        language = URIRef("http://www.w3.org/ns/sparql-service-description#supportedLanguage")
        assert len(list(described.objects(None, language))) == 1
        comment = next(described.objects(None, URIRef("http://www.w3.org/2000/01/rdf-schema#comment")))
        assert "one half" in str(comment)


def test_what_is_refused(client: httpx.Client) -> None:
    def refused(status: int, **request: object) -> str:
        answer = client.request(str(request.pop("method", "GET")), "/sparql", **request)  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        message: str = answer.json()["error"]["message"]
        return message

    def asked(query: str) -> dict[str, object]:
        return {"params": {"query": query}}

    assert refused(400, **asked("SELECT ?x {")) == (
        "line 1, column 12: the query ends too early: a brace, a term or a clause is missing."
    )
    assert refused(400, **asked("SELECT ?x {\n  :number%203 :nex ?x }")) == (
        "line 2, column 15: unknown relation 'nex'; did you mean <urn:blockhole:next>?"
    )
    assert "Update is not supported" in refused(400, **asked("DELETE WHERE { ?x :next ?y }"))
    assert "Update is not supported" in refused(400, method="POST", data={"update": "CLEAR ALL"})
    assert "query is missing" in refused(400, method="POST", data={"nothing": "1"})
    assert "did you mean known?" in refused(422, method="POST", data={"query": NEXT, "knwon": "true"})
    assert client.get("/sparql", params={"query": NEXT, "format": "json", "output": "x"}).status_code == 200
    assert "one graph" in refused(400, params={"query": NEXT, "default-graph-uri": "http://example.org/"})
    assert "16,384 at most" in refused(400, **asked(NEXT + " " * 20_000))
    assert "these are application/sparql-results+json, " in refused(406, **asked(NEXT), headers={"Accept": "image/png"})
    assert "these are text/turtle, application/n-triples, application/rdf+xml, " in refused(
        406, **asked("CONSTRUCT WHERE { ?x :next ?y }"), headers={"Accept": "text/csv"}
    )
    assert "application/sparql-query" in refused(415, method="POST", json={"query": NEXT})
    assert "UTF-8" in refused(400, method="POST", content=b"\xff", headers=DIRECT)
    assert "threshold" in refused(422, params={"query": NEXT, "threshold": "2"})
    assert "threshold" in refused(422, method="POST", data={"query": NEXT, "threshold": "much"})
    assert "known must be true or false" in refused(422, method="POST", data={"query": NEXT, "known": "maybe"})
    assert "'typed' or 'all'" in refused(422, method="POST", data={"query": NEXT, "candidates": "some"})
    assert "1,000,000 are allowed" in refused(
        422, **asked("SELECT * { ?a :next ?b . ?c :next ?d . ?e :next ?f . ?g :next ?h }")
    )
    assert "there is no run" in refused(404, params={"query": NEXT, "run": "nobody"})
    assert "calibrate" in refused(422, params={"query": NEXT, "run": "bare"})
    known = client.get("/sparql", params={"query": NEXT, "run": "bare", "known": "true"})
    assert known.json()["results"]["bindings"] == [{"x": {"type": "uri", "value": FOUR}}]


# Pages of other sites


def test_pages_of_a_named_site_may_ask_and_of_no_other(shared: ServerProcess) -> None:
    with httpx.Client(base_url=shared.url) as client:
        wanted = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
        before = client.options("/sparql", headers=wanted)  # which carries no key
        assert before.status_code == 204
        assert before.headers["access-control-allow-origin"] == SITE
        assert "content-type" in before.headers["access-control-allow-headers"]
        key = {"Authorization": "Bearer open-sesame", "Sec-Fetch-Site": "cross-site"}
        answer = client.post("/sparql", content=NEXT, headers={**DIRECT, **key, "Origin": SITE})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == SITE
        assert "access-control-allow-credentials" not in answer.headers
        assert client.post("/sparql", content=NEXT, headers={**DIRECT, "Origin": SITE}).status_code == 401
        other = {**key, "Origin": "https://elsewhere.example.org"}
        refused = client.post("/sparql", content=NEXT, headers={**DIRECT, **other})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
        # Nothing but /sparql is theirs.
        body = {"query": '"number 3"/next'}
        assert client.post("/api/ask", json=body, headers={**key, "Origin": SITE}).status_code == 403


def test_without_being_told_no_other_site_may_ask(client: httpx.Client) -> None:
    assert client.get("/sparql", params={"query": NEXT}, headers={"Origin": SITE}).status_code == 403
    cross_site = {"Sec-Fetch-Site": "cross-site"}
    assert client.get("/sparql", params={"query": NEXT}, headers=cross_site).status_code == 403
