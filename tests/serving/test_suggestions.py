"""Names that fit what was typed, queries taken apart, and queries to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.fitting import train
from blockhole.graph.vocabulary import NameIndex
from blockhole.queries.language import parse
from blockhole.serving.served_runs import ServedRun
from blockhole.serving.suggestions import similar


def _result(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()["result"]
    return result


def test_entities_are_completed_by_beginning_then_within_then_by_likeness(client: httpx.Client) -> None:
    def found(prefix: str, limit: int = 10) -> list[tuple[str, str]]:
        result = _result(client.get("/api/v1/entities", params={"prefix": prefix, "limit": limit}))
        assert result["prefix"] == prefix
        return [(each["text"], each["match"]) for each in result["entities"]]

    assert found("NUMBER 1", 3) == [('"number 1"', "prefix"), ('"number 10"', "prefix"), ('"number 11"', "prefix")]
    assert found('"remainder/4') == [
        ('"remainder/4"', "prefix"),
        *((f'"remainder/{i}"', "similar") for i in (0, 1, 2, 3, 5)),
    ]
    assert found('"remainder/4"', 1) == found("remainder/4", 1) == [('"remainder/4"', "prefix")]
    assert found('  "number 1" ', 1) == [('"number 1"', "prefix")]
    assert found("inder/2", 1) == [('"remainder/2"', "within")]
    assert found("nmuber 3", 1) == [('"number 3"', "similar")]
    assert found("zzzz") == []
    assert len(found("", 5)) == 5


def test_relations_are_those_that_make_sense_next(client: httpx.Client) -> None:
    def found(**parameters: str) -> list[str]:
        return [each["text"] for each in _result(client.get("/api/v1/relations", params=parameters))["relations"]]

    everything = {"next", "double", "mod6", "^next", "^double", "^mod6"}
    assert set(found()) == everything
    assert found(after='"number 3"/mod6') == ["^mod6"]  # a remainder is nothing else
    assert found(after='"number 3"/next & "number 3"/mod6') == ["^mod6"]  # the last path goes on
    assert found(after='("number 3"/mod6 & !"number 3"/next)') == ["^mod6"]
    assert set(found(after='("number 3"/next | "number 3"/mod6)')) == everything
    assert set(found(after='"number 3"')) == everything - {"^mod6"}
    assert set(found(after='"number 3"', prefix="^")) == {"^next", "^double"}
    assert found(after='"number 3"', prefix="NE") == ["next", "^next"]
    assert found(after='"number 3"', prefix="NE", limit="1") == ["next"]


def _complete(client: httpx.Client, text: str, **parameters: object) -> dict[str, Any]:
    return _result(client.get("/api/v1/complete", params={"text": text, **parameters}))  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("text", "caret", "piece", "texts"),
    [
        ("HOLD", None, (0, 4, "entity", False), []),
        ("NUMBER 59", None, (0, 9, "entity", False), None),
        ('"number 1"/mod6/', None, (16, 16, "relation", False), ["^mod6"]),
        ('"number 1"/^', None, (11, 12, "relation", True), None),
        ('"number 1"/^nxt', None, (11, 15, "relation", True), ["^next"]),
        ('"number 1"/^"NEX', None, (11, 16, "relation", True), ["^next"]),
        ('"number 1"/dou/mod6', 14, (11, 14, "relation", False), ["double", "^double"]),
        ('"number 1"/dou/mod6', 3, (0, 10, "entity", False), None),
        ("nobody/ne", None, (7, 9, "relation", False), []),
        ('"number 1"/next & "remainder/4', None, (18, 30, "entity", False), None),
        ('("number 1"/next | "number 2"/mod6)/', None, (36, 36, "relation", False), None),
        ('"number 2"/next & "number 1"/mod6/', None, (34, 34, "relation", False), ["^mod6"]),
        ('"number 2"/next & "number 1"/(double|mod6/', None, (42, 42, "relation", False), ["^mod6"]),
        ('"number 1"/(nxt|dou', None, (16, 19, "relation", False), ["double", "^double"]),
        ('("number 1"/next)', None, (12, 16, "relation", False), []),
        ('"number 1"/dou and "number 2"/mod6', 14, (11, 14, "relation", False), ["double", "^double"]),
        ('(!"number 1")/ne', None, (14, 16, "relation", False), []),
        ('"number 1"//ne', None, (12, 14, "relation", False), []),
        ('"number 1"/' + "next/" * 17, None, (96, 96, "relation", False), []),
        ("x", 10**9, (0, 1, "entity", False), None),
        ("x", -5, (0, 1, "entity", False), None),
    ],
)
def test_the_piece_at_the_caret_and_what_it_may_become(
    client: httpx.Client, text: str, caret: int | None, piece: tuple[Any, ...], texts: list[str] | None
) -> None:
    found = _complete(client, text, **({} if caret is None else {"caret": caret}))
    assert found["text"] == text
    at = found["piece"]
    assert (at["column"], at["end"], at["kind"], at["inverse"]) == piece
    assert at["text"] == text[at["column"] : at["end"]]
    suggested = [each["text"] for each in found["suggestions"]]
    if texts is not None:
        assert suggested == texts
    if at["inverse"]:
        assert suggested
        assert all(each.startswith("^") for each in suggested)
    assert found["complete"] is (at["text"].strip() in suggested)


def test_a_suggestion_shows_what_was_typed(client: httpx.Client) -> None:
    (inverse,) = _complete(client, '"number 1"/^EXT')["suggestions"]
    assert inverse == {"text": "^next", "label": "^next", "hit": [2, 5], "known": True, "similar": False}
    entity = _complete(client, "nubmer 17")["suggestions"][0]
    assert (entity["label"], entity["similar"], entity["known"], entity["hit"]) == ("number 17", True, None, [0, 0])


def test_a_name_begun_without_a_mark_comes_before_its_inverse(client: httpx.Client) -> None:
    """Also where facts lead on over the inverse alone, which otherwise comes first."""

    def known(number: int) -> dict[str, bool]:
        after = _result(client.get("/api/v1/relations", params={"after": f'"number {number}"'}))["relations"]
        return {each["text"]: each["known"] for each in after}

    number = next(i for i in range(60) if known(i)["^double"] and not known(i).get("double", True))
    after = f'"number {number}"'
    typed = [each["text"] for each in _complete(client, f"{after}/dou")["suggestions"]]
    assert typed == ["double", "^double"]
    begun = _result(client.get("/api/v1/relations", params={"after": after, "prefix": "dou"}))["relations"]
    assert [each["text"] for each in begun] == ["double", "^double"]
    untyped = [each["text"] for each in _complete(client, f"{after}/")["suggestions"]]
    assert untyped.index("^double") < untyped.index("double")


def test_a_query_taken_apart_and_in_other_orders(client: httpx.Client) -> None:
    def orders(query: str) -> list[str]:
        return [each["query"] for each in _result(client.get("/api/v1/parse", params={"query": query}))["orders"]]

    parsed = _result(client.get("/api/v1/parse", params={"query": ' "number 3" / ^^^next / "mod6"'}))
    assert parsed["query"] == '"number 3"/^next/mod6'
    assert [(each["text"], each["inverse"], each["name"]) for each in parsed["pieces"]] == [
        ('"number 3"', False, "number 3"),
        ("^next", True, "next"),
        ("mod6", False, "mod6"),
    ]
    assert orders("a/r/s/s") == ["a/s/r/s"]
    assert orders("a/r/^r") == ["a/^r/r"]
    assert orders("a/r/r") == orders("a/r") == []
    branches = _result(client.get("/api/v1/parse", params={"query": "a/r and not (b/s | c)"}))
    assert (branches["query"], branches["orders"]) == ("a/r & !(b/s | c)", [])
    assert [each["text"] for each in branches["pieces"]] == ["a", "r", "b", "s", "c"]
    wrong = client.get("/api/v1/parse", params={"query": "a//b"}).json()["error"]
    assert (wrong["kind"], wrong["place"]) == ("syntax", {"field": "query", "text": "a//b", "column": 2, "end": 3})


def test_runs_have_queries_to_begin_with(client: httpx.Client) -> None:
    run = _result(client.get("/api/v1/runs"))["runs"][0]
    assert [len(each["pieces"]) for each in run["examples"]] == [2, 3, 4]
    assert run["examples"][0]["query"] == run["example"]
    for each in run["examples"]:
        asked = client.post("/api/v1/ask", json={"query": each["query"], "candidates": each["candidates"]})
        assert _result(asked)["answers"][0]["status"] == "known"
        assert each["words"].startswith(f"from {each['pieces'][0]['name']}, ")


def test_the_royal_family_begins_with_the_paths_of_the_paper(tmp_path: Path) -> None:
    train("family", settings={"training.epochs": 1}, out=tmp_path / "run")
    examples = ServedRun.load("run", tmp_path / "run").report.examples
    assert [(each.query, each.candidates) for each in examples[:3]] == [
        ("William/^fatherOf/brotherOf/fatherOf", "all"),
        ("William/brotherOf/^fatherOf/fatherOf", "all"),
        ("William/^fatherOf/brotherOf/fatherOf & !Andrew/fatherOf", "all"),
    ]
    assert [len(parse(each.query).hops) for each in examples[3:]] == [2, 3]


def test_mended_queries_parse_and_have_the_name(client: httpx.Client) -> None:
    error = client.post("/api/v1/ask", json={"query": '"number 3"/^nxt^-1/double'}).json()["error"]
    assert (error["nearest"], error["mended"]) == (["next"], ['"number 3"/^next^-1/double'])
    entity = client.post("/api/v1/ask", json={"query": "numbr_3/next"}).json()["error"]
    assert entity["nearest"]
    for name, mended in zip(entity["nearest"], entity["mended"], strict=True):
        assert parse(mended).source == name


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("Wiliam", ["William", "William IV"]),
        ("wlliam i", ["William IV"]),
        ("Elisabet", ["Elizabeth of York"]),
        ("Wi", []),
        ("zzzz", []),
        ("x" * 1000, []),
    ],
)
def test_similar_beginnings(typed: str, found: list[str]) -> None:
    names = ["William IV", "William", "Elizabeth of York", "Anne", ""]
    assert [names[i] for i in similar(NameIndex(names), typed, 5)] == found


@given(st.lists(st.text("abc", max_size=6), unique=True, max_size=20), st.text("abc", min_size=3, max_size=6))
def test_what_begins_as_typed_is_most_similar(names: list[str], typed: str) -> None:
    found = similar(NameIndex(names), typed, len(names) + 1)
    assert len(found) == len(set(found))
    assert {i for i, name in enumerate(names) if name[: len(typed) + 1] == typed} <= set(found)
