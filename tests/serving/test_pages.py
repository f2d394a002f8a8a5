"""What the explorer asks besides answers: what a text is, both languages, facets, relations, runs, maps."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import blockhole
from blockhole.answering.overview import entity_types, shared_facts
from blockhole.answering.sparql.writing import as_sparql, from_sparql
from blockhole.queries.language import parse
from blockhole.queries.repairs import quoted_names, repairs, with_name
from blockhole.runs.checkpoint import load_checkpoint, save_checkpoint, weights_id
from blockhole.runs.run import Run
from blockhole.saving import read_json
from blockhole.serving.page import joined_modules
from tests.serving.processes import serving
from tests.serving.random_run import write_random_run


def result(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["result"]


# Texts.


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("number 7/next", '"number 7"/next'),
        ("number 7 / ^next", '"number 7"/^next'),
        ("number 7/next & number 9/^next", '"number 7"/next & "number 9"/^next'),
        ("a/b//c", "a/b/c"),
        ("a/b/", "a/b"),
        ("(a/b & c/d", "(a/b & c/d)"),
        ('"a b/c', None),
        ("a/b &", "a/b"),
        ("a/b)", "a/b"),
        ("a/b&c/d", "a/b & c/d"),
        ("a/b | !c/d", "a/b & !c/d"),
        ("a/b or not c/d", "a/b & not c/d"),
        ("a/!b", 'a/"!b"'),
        ("a/b", None),
        ("a", None),
        ("", None),
        ("!" * 3000, None),
    ],
)
def test_texts_that_are_no_query_have_repairs(text: str, meant: str | None) -> None:
    found = repairs(text)
    assert meant is None or found[0] == meant
    for each in found:
        parse(each)
        assert each != text
    assert found or meant is None


@pytest.mark.parametrize("text", ["!a/b", "(!a/b)/c", "!(a/b & c/d)"])
def test_no_repair_asks_for_the_opposite(text: str) -> None:
    assert repairs(text) == []


@pytest.mark.parametrize(
    ("text", "wrong", "name", "meant"),
    [
        ("a/next/b", "next", "nxt", "a/nxt/b"),
        ("Rock & Roll/by", "Rock", "Rock & Roll", '"Rock & Roll"/by'),
        ("rock & roll/by", "rock", "Rock & Roll", '"Rock & Roll"/by'),
        ("a/boss/of", "boss", "boss/of", 'a/"boss/of"'),
        ("a/b | x|y/r", "y", "x|y", 'a/b | "x|y"/r'),
    ],
)
def test_a_name_takes_the_place_of_all_that_stands_there_of_it(text: str, wrong: str, name: str, meant: str) -> None:
    column = text.index(wrong)
    assert with_name(text, column, column + len(wrong), name) == meant


def test_quotes_go_around_names_that_need_them() -> None:
    assert quoted_names('a b/c|"d e"/f g') == '"a b"/c|"d e"/"f g"'


def test_a_text_is_an_entity_or_a_query(client: httpx.Client) -> None:
    def read(text: str) -> Any:
        return result(client.get("/api/v1/read", params={"query": text}))

    assert read("number 7") == {"entity": "number 7", "query": None, "repaired": False}
    assert read(' "number 7" ')["entity"] == "number 7"
    assert read("NUMBER 7") == {"entity": "number 7", "query": None, "repaired": True}
    assert read("number 7/next") == {"entity": None, "query": '"number 7"/next', "repaired": True}
    assert read('"number 7"/next') == {"entity": None, "query": '"number 7"/next', "repaired": False}
    unknown = client.get("/api/v1/read", params={"query": "nummber 7"})
    assert unknown.status_code == 404
    assert unknown.json()["error"]["nearest"]
    assert client.get("/api/v1/read", params={"query": "//"}).status_code == 400


def test_a_refusal_brings_texts_that_are_queries(client: httpx.Client) -> None:
    error = client.post("/api/v1/ask", json={"query": "number 7/next"}).json()["error"]
    assert (error["kind"], error["mended"]) == ("syntax", ['"number 7"/next'])


def test_a_query_has_a_tree(client: httpx.Client) -> None:
    query = '("number 7"/next & !"number 9"/^next)/double | "number 3"'
    tree = result(client.get("/api/v1/parse", params={"query": query}))["tree"]
    assert (tree["joined"], tree["entity"], tree["hops"]) == ("or", None, [])
    joined, alone = tree["parts"]
    assert alone["entity"] == {"name": "number 3", "text": '"number 3"'}
    assert joined["joined"] == "and"
    assert joined["hops"] == [{"name": "double", "inverse": False, "text": "double"}]
    assert [part["negated"] for part in joined["parts"]] == [False, True]


# Both languages.


@pytest.mark.parametrize(
    "query",
    [
        '"number 7"/next/double',
        '"number 7"/^next & "number 9"/next',
        '"number 7"/next & !"number 9"/next',
        '"number 7"/next | "number 9"/next',
        '("number 7"/next | "number 9"/next)/double & !"number 3"/next',
        '"remainder/1"/^next',
    ],
)
def test_a_query_and_its_sparql_are_one(client: httpx.Client, run: Path, query: str) -> None:
    both = result(client.get("/api/v1/translate", params={"query": query}))
    back = result(client.get("/api/v1/translate", params={"sparql": both["sparql"]}))
    assert parse(back["query"]).normal == parse(query).normal
    known = {each["answer"]["value"] for each in _bindings(client, both["sparql"])}
    asked = result(client.post("/api/v1/ask", json={"query": query, "only": "known", "top": 1000}))
    assert known == {_iri(each["entity"]) for each in asked["answers"]}


def _bindings(client: httpx.Client, sparql: str) -> list[dict[str, dict[str, str]]]:
    response = client.get("/sparql", params={"query": sparql, "known": "true"})
    found: list[dict[str, dict[str, str]]] = response.json()["results"]["bindings"]
    return found


def _iri(name: str) -> str:
    return "urn:blockhole:" + name.replace(" ", "%20").replace("/", "%2F")


def test_what_one_query_cannot_say_is_refused(client: httpx.Client) -> None:
    several = client.get("/api/v1/translate", params={"sparql": "SELECT ?a ?b { ?a :next ?b }"})
    assert several.status_code == 422
    assert "says more than one query can" in several.json()["error"]["message"]
    assert client.get("/api/v1/translate").status_code == 422
    assert client.get("/api/v1/translate", params={"sparql": "SELECT"}).status_code == 400


# Facets, relations, runs.


def test_facets_are_facts_that_several_have(run: Path, client: httpx.Client) -> None:
    graph = Run.open(run).graph
    found = result(client.post("/api/v1/facets", json={"query": '"remainder/1"/^mod6'}))
    assert found["entities"] > 2
    members = graph.adjacency.neighbours(graph.entities.id("remainder/1"), graph.relation_id("mod6", True))
    counted: dict[tuple[str, str], int] = {}
    for member in members.tolist():
        for relation in graph.adjacency.relations(member).tolist():
            for target in graph.adjacency.neighbours(member, relation).tolist():
                name, inverse = graph.relation_name(relation)
                key = ("^" * inverse + name, graph.entities[target])
                counted[key] = counted.get(key, 0) + 1
    assert found["facets"]
    assert found["facets"]
    assert "remainder/1" not in {facet["entity"] for facet in found["facets"]}  # which the query says already
    for facet in found["facets"]:
        assert counted[facet["text"], facet["entity"]] == facet["count"] >= 2
        narrowed = f'"remainder/1"/^mod6 & {facet["branch"]}'
        answers = result(client.post("/api/v1/ask", json={"query": narrowed, "only": "known"}))
        assert answers["known_count"] == facet["count"]
    assert [each["count"] for each in found["facets"]] == sorted((f["count"] for f in found["facets"]), reverse=True)


def test_one_entity_shares_its_facts_with_nobody_else(run: Path) -> None:
    graph = Run.open(run).graph
    alone = np.array([graph.entities.id("number 7")])
    assert all(each.count == 1 for each in shared_facts(graph, alone))
    assert shared_facts(graph, alone[:0]) == []


def test_a_relation_says_what_it_leads_from_and_to(client: httpx.Client, run: Path) -> None:
    graph = Run.open(run).graph
    relation = result(client.get("/api/v1/relation", params={"name": "next"}))
    edges = {(s, o) for s, r, o in graph.triples.tolist() if graph.relations[r] == "next"}
    named = {(graph.entities[s], graph.entities[o]) for s, o in edges}
    assert relation["facts"] == len(edges)
    assert relation["domain"]["entities"] == len({s for s, _ in edges})
    assert relation["range"]["entities"] == len({o for _, o in edges})
    assert all((fact["source"], fact["target"]) in named for fact in relation["examples"])
    assert result(client.get("/api/v1/relation", params={"name": "^next"})) == relation  # backwards, it is the same one
    assert client.get("/api/v1/relation", params={"name": "nextt"}).status_code == 404


def test_a_run_says_how_it_was_trained(client: httpx.Client) -> None:
    page = result(client.get("/api/v1/run"))
    assert page["settings"]["model.name"] == "blockhole"
    (loss,) = [curve for curve in page["curves"] if curve["name"].endswith(" loss")]
    assert len(loss["epoch"]) == len(loss["value"]) == page["run"]["epochs"]


def test_all_known_answers_come_at_once(client: httpx.Client) -> None:
    body = {"query": '"remainder/1"/^mod6', "only": "known", "top": 1_000_000}
    whole = result(client.post("/api/v1/ask", json=body))
    assert len(whole["answers"]) == whole["known_count"]
    assert client.post("/api/v1/ask", json={**body, "only": None}).status_code == 422


# The map and validation.


def test_the_map_is_made_once_and_kept_beside_the_run(own_run: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "log", own_run, "--port", 0) as server, server.client() as client:
        made = _when_made(client, "map")
        measured = _when_made(client, "validation")
    assert made["state"] == "ready"
    names = Run.open(own_run).graph.entities.names
    assert set(made["entities"]) == set(names)
    assert len(made["x"]) == len(made["y"]) == len(made["type"]) == len(names)
    assert all(0 <= value <= 1 for value in (*made["x"], *made["y"]))
    assert max(made["type"]) < len(made["types"])
    assert (own_run / "map.json").is_file()
    assert measured["state"] in ("ready", "missing")
    with serving(tmp_path / "log", own_run, "--port", 0) as server, server.client() as client:
        assert _when_made(client, "map") == made
    (own_run / "map.json").write_text("{}", encoding="utf-8")  # damaged: it is made again
    with serving(tmp_path / "log", own_run, "--port", 0) as server, server.client() as client:
        before = weights_id(own_run)
        save_checkpoint(own_run, load_checkpoint(own_run), best_changed=True)  # trained on, not loaded again
        assert _when_made(client, "map")["entities"] == made["entities"]
    # What is drawn of old weights is not kept for new ones.
    assert read_json(own_run / "map.json")["weights"] == before != weights_id(own_run)


def test_what_cannot_be_made_is_said_without_telling_where_a_run_lies(own_run: Path, tmp_path: Path) -> None:
    without_matrices = write_random_run(tmp_path / "turned", "transe", E=30, R=3, facts=60)
    with serving(tmp_path / "log", own_run, without_matrices, "--port", 0) as server, server.client() as client:
        made = _when_made(client, "rules?run=turned&name=r0")
        assert made["state"] == "missing"
        assert "relation matrices, which transe does not have; train one of" in made["message"]
        (own_run / "config.json").write_text("{", encoding="utf-8")
        said = [client.get("/api/v1/run"), client.post("/api/v1/runs/own/reload")]
        assert [each.status_code for each in said] == [422, 422]
        assert _when_made(client, "validation")["message"].startswith("own/config.json cannot be used")
        said.append(client.get("/api/v1/validation"))
        assert not any(str(tmp_path) in each.text for each in said)
        assert str(own_run) in server.log.read_text(encoding="utf-8")


def test_rules_are_counted_once_and_told_by_relation(family_run: Path, tmp_path: Path) -> None:
    own = tmp_path / "family"
    shutil.copytree(family_run, own)
    with serving(tmp_path / "log", own, "--port", 0) as server, server.client() as client:
        made = _when_made(client, "rules?name=spouseOf")
        backwards = _when_made(client, "rules?name=^spouseOf")
        assert client.get("/api/v1/rules?name=spouse").json()["error"]["nearest"][0] == "spouseOf"
    assert made["state"] == "ready"
    assert backwards == made
    rules = {rule["text"]: rule for rule in made["rules"]}
    counted = {str(rule): rule for rule in blockhole.rules(own, top=100_000, redundant=True)}
    for text, rule in rules.items():
        assert "spouseOf" in text
        assert rule["support"] == counted[text].support
        assert rule["confidence"] == counted[text].confidence
        assert rule["pca_confidence"] == counted[text].pca_confidence >= 0.1
    assert rules["^spouseOf ⇒ spouseOf"]["body"] == [{"name": "spouseOf", "inverse": True, "text": "^spouseOf"}]
    heads = [rule["head"]["name"] for rule in made["rules"]]
    assert 0 < heads.count("spouseOf") < len(heads)  # it is concluded by some, and used by others
    assert (own / "rules.json").is_file()


def _when_made(client: httpx.Client, what: str) -> Any:
    for _ in range(1200):
        found = result(client.get(f"/api/v1/{what}"))
        if found["state"] != "making":
            return found
        assert 0 <= found["done"] <= 1  # all of it, for a moment before the report is there
        time.sleep(0.1)
    raise AssertionError(f"the {what} did not come")


def test_types_are_what_most_facts_say(run: Path) -> None:
    graph = Run.open(run).graph
    names, types, relation = entity_types(graph, np.arange(graph.num_entities), most=2)
    assert relation is None
    assert len(names) <= 3
    assert set(types.tolist()) <= set(range(len(names)))


# The page's files.


def test_the_page_is_a_script_and_a_style_sheet_that_are_kept_for_good(client: httpx.Client) -> None:
    page = client.get("/").text
    files = re.findall(r'"(static/[^"]+)"', page)
    assert len(set(files)) == 4
    for name in files:
        response = client.get(f"/{name}")
        assert response.status_code == 200
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    (script,) = {name for name in files if "page-" in name and name.endswith(".js")}
    text = client.get(f"/{script}").text
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    assert "@param" not in text


def test_modules_are_joined_after_those_they_import(tmp_path: Path) -> None:
    (tmp_path / "main.js").write_text('import { b } from "./b-c.js";\nb();\n', encoding="utf-8")
    (tmp_path / "b-c.js").write_text(
        'import {\n  a,\n} from "./a.js";\n/** A note. */\n'
        "export function b() {\n  return a(/** @type {x} */ (1));\n}\n",
        encoding="utf-8",
    )
    (tmp_path / "a.js").write_text("export const a = (x) => x;\n", encoding="utf-8")
    assert joined_modules(tmp_path) == (
        "const in_a = (() => {\nconst a = (x) => x;\nreturn { a };\n})();\n"
        "const in_b_c = (() => {\nconst {\na,\n} = in_a;\nfunction b() {\nreturn a(/** @type {x} */ (1));\n}\n"
        "return { b };\n})();\n"
        "const { b } = in_b_c;\nb();\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        '"number 7"/next',
        '"number 7"/next/next & !("number 8" | "number 9")',
        '("number 7" | "number 8"/next)/next',
        '("number 8"/next & "number 9")/next',
    ],
)
def test_sparql_of_a_query_in_memory_round_trips(run: Path, text: str) -> None:
    from blockhole.answering.engine import Engine

    engine = Engine.open(run)
    query = parse(text)
    assert from_sparql(as_sparql(query, engine.graph), engine).normal == query.normal
