"""Questions over HTTP: the one success shape, and the results that the command line prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from blockhole.cli.main import main
from blockhole.runs.run import Run
from tests.serving.processes import ServerProcess

QUERY = '"number 3"/next/double'
JOINED = '("number 3"/next & !"number 5")/double | "number 7"/next & !"number 3"/next/double'


def _printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    with suppress(SystemExit):
        main([*map(str, arguments), "--json"])
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    printed.pop("milliseconds", None)
    return printed


def _result(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"run", "result"}
    for result in body["result"] if isinstance(body["result"], list) else [body["result"]]:
        result.pop("milliseconds", None)
    return body["result"]


@pytest.mark.parametrize(
    ("route", "body", "arguments"),
    [
        ("ask", {"query": QUERY}, ["ask", QUERY]),
        (
            "ask",
            {"query": QUERY, "top": 3, "candidates": "all", "only": "predicted"},
            ["ask", QUERY, "--top", 3, "--candidates", "all", "--only", "predicted"],
        ),
        ("ask", {"query": JOINED, "offset": 1}, ["ask", JOINED, "--offset", 1]),
        ("check", {"query": QUERY, "entity": "number 8"}, ["check", QUERY, "number 8"]),
        ("check", {"query": JOINED, "entity": "number 8"}, ["check", JOINED, "number 8"]),
        ("explain", {"query": QUERY, "entity": "number 8", "top": 2}, ["explain", QUERY, "number 8", "--top", 2]),
        ("explain", {"query": JOINED, "entity": "number 8", "top": 3}, ["explain", JOINED, "number 8", "--top", 3]),
        (
            "paths",
            {"source": "number 3", "target": "remainder/4", "max_length": 2, "top": 5},
            ["paths", "number 3", "remainder/4", "--max-length", 2, "--top", 5],
        ),
    ],
)
def test_results_are_what_the_command_line_prints(
    client: httpx.Client,
    run: Path,
    capsys: pytest.CaptureFixture[str],
    route: str,
    body: dict[str, Any],
    arguments: list[object],
) -> None:
    verb, *rest = arguments
    response = client.post(f"/api/v1/{route}", json=body)
    assert response.json()["run"] == "run"
    assert _result(response) == _printed(capsys, verb, run, *rest)


@pytest.mark.parametrize("top", [3, 3.0])
def test_a_whole_number_may_be_written_with_a_point(client: httpx.Client, top: float) -> None:
    assert _result(client.post("/api/v1/ask", json={"query": QUERY, "top": top}))["predicted_count"] == 3


def test_known_answers_are_counted_and_paged(client: httpx.Client) -> None:
    numbers = '"remainder/1"/^mod6/mod6/^mod6'
    whole = _result(client.post("/api/v1/ask", json={"query": numbers, "only": "known", "top": 100}))
    assert whole["known_count"] == len(whole["answers"]) > 4
    pages = [
        _result(client.post("/api/v1/ask", json={"query": numbers, "only": "known", "top": 3, "offset": offset}))
        for offset in range(0, whole["known_count"], 3)
    ]
    assert {page["known_count"] for page in pages} == {whole["known_count"]}
    assert [answer for page in pages for answer in page["answers"]] == whole["answers"]


def test_what_a_negation_is_over_is_said(client: httpx.Client) -> None:
    assert _result(client.post("/api/v1/ask", json={"query": QUERY}))["negation"] is None
    assert _result(client.post("/api/v1/ask", json={"query": JOINED}))["negation"] == "over known facts"


def test_ask_says_how_long_it_took(client: httpx.Client) -> None:
    assert client.post("/api/v1/ask", json={"query": QUERY}).json()["result"]["milliseconds"] > 0


def test_what_a_run_lacks_is_logged_once_and_the_run_is_served(server: ServerProcess, bare_run: Path) -> None:
    lacking = [line["event"] for line in server.log_lines() if line.get("category") == "BlockholeWarning"]
    assert len(lacking) == 2
    assert lacking[0].startswith("answers are searched for without the index: ")
    assert lacking[0].endswith(f" is missing; build it again with: blockhole index {bare_run} --kind exact")
    assert lacking[1].startswith(f"{bare_run} has no calibration for its weights")


def test_runs_are_named_by_their_folders_and_chosen_by_name(client: httpx.Client, run: Path) -> None:
    runs = _result(client.get("/api/v1/runs"))
    assert client.get("/api/v1/runs").json()["run"] is None
    assert runs["default"] == "run"
    first, second = runs["runs"]
    assert (first["name"], first["calibrated"], first["model"]) == ("run", True, "blockhole")
    assert (second["name"], second["calibrated"]) == ("bare", False)
    assert first["entities"] == 66
    assert first["parameters"] == Run.open(run).model.parameter_count()
    assert _result(client.post("/api/v1/ask", json={"query": first["example"], "only": "known"}))["answers"]
    bare = client.post("/api/v1/ask", json={"query": QUERY, "run": "bare"})
    assert bare.json()["run"] == "bare"
    assert {answer["probability"] for answer in _result(bare)["answers"] if answer["status"] == "predicted"} == {None}


def test_many_clients_at_once_get_the_answers_of_one_alone(server: ServerProcess) -> None:
    from concurrent.futures import ThreadPoolExecutor

    bodies = [
        {"query": f'"number {i}"/next/{hop}', "top": 1 + i % 7, "candidates": kind, "only": only}
        for i in range(20)
        for hop, kind, only in (("next", "typed", None), ("^double", "all", None), ("mod6", "typed", "predicted"))
    ]

    def ask(body: dict[str, Any]) -> Any:
        with server.client() as own:
            return _result(own.post("/api/v1/ask", json=body))

    alone = [ask(body) for body in bodies]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, bodies)) == alone


def test_an_entity_is_found_by_address_and_by_parameter(client: httpx.Client) -> None:
    by_address = _result(client.get("/api/v1/entity/remainder%2F4", params={"limit": 3}))
    assert by_address == _result(client.get("/api/v1/entity/remainder/4", params={"limit": 3}))
    assert by_address == _result(client.get("/api/v1/entity", params={"name": "remainder/4", "limit": 3}))
    assert (by_address["entity"], by_address["text"]) == ("remainder/4", '"remainder/4"')
    (group,) = by_address["relations"]
    assert (group["text"], group["inverse"], group["offset"], len(group["entities"])) == ("^mod6", True, 0, 3)
    rest = _result(client.get("/api/v1/entity", params={"name": "remainder/4", "relation": "^mod6", "offset": 3}))
    assert len(rest["relations"][0]["entities"]) == group["total"] - 3 == by_address["facts"] - 3


def test_health_metrics_and_the_page(client: httpx.Client) -> None:
    assert _result(client.get("/healthz"))["status"] == "ready"
    client.post("/api/v1/ask", json={"query": QUERY})
    figures = client.get("/metrics")
    assert figures.headers["content-type"].startswith("text/plain")
    assert 'blockhole_requests_total{method="POST",route="/api/v1/ask",status="200"}' in figures.text
    assert 'blockhole_lane_requests{lane="ask"} 0.0' in figures.text
    assert "process_resident_memory_bytes" in figures.text
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert client.get("/static/page.js").status_code == 200


ADDRESSES = [
    "/",
    "/static/page.js",
    "/api/v1/runs",
    "/api/v1/entities?prefix=n",
    "/healthz",
    "/openapi.json",
    "/nothing",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_head_is_get_without_its_body(client: httpx.Client, address: str) -> None:
    head, whole = client.head(address), client.get(address)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert head.headers["content-length"] == whole.headers["content-length"]


def test_head_is_no_post(client: httpx.Client) -> None:
    assert client.head("/api/v1/ask").status_code == 405


@pytest.mark.parametrize(("address", "policy"), [(each, "no-store") for each in ADDRESSES[2:]])
def test_answers_are_not_kept(client: httpx.Client, address: str, policy: str) -> None:
    assert client.get(address).headers["cache-control"] == policy


@pytest.mark.parametrize("address", ["/", "/static/page.js"])
def test_the_page_is_sent_again_only_where_it_has_changed(client: httpx.Client, address: str) -> None:
    first = client.get(address)
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f'"other", {tag}', "*"):
        again = client.get(address, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(address, headers={"If-None-Match": 'W/"other"'}).content == first.content


@pytest.mark.parametrize("address", ["/", "/static/page.css", "/openapi.json", "/api/v1/entities?limit=50"])
def test_long_responses_are_compressed_for_who_can_read_it(client: httpx.Client, address: str) -> None:
    plain = client.get(address, headers={"Accept-Encoding": "identity"})
    packed = client.get(address, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert packed.content == plain.content


def test_every_response_is_hardened_and_has_an_id(client: httpx.Client, server: ServerProcess) -> None:
    for response in (client.get("/"), client.get("/healthz"), client.get("/nothing"), client.post("/api/v1/ask")):
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'; ")
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert len(response.headers["x-request-id"]) == 16
    own = client.get("/nothing", headers={"X-Request-ID": "trace-7.b"})
    assert own.headers["x-request-id"] == own.json()["request_id"] == "trace-7.b"
    forged = client.get("/healthz", headers={"X-Request-ID": 'a"b'})
    assert forged.headers["x-request-id"] != 'a"b'
    lines = [line for line in server.log_lines() if line.get("request_id") == "trace-7.b"]
    assert [(line["event"], line["method"], line["path"], line["status"]) for line in lines] == [
        ("request", "GET", "/nothing", 404)
    ]
    assert {"time", "level", "route", "milliseconds", "client"} <= set(lines[0])


def test_the_openapi_document_has_every_route_and_examples(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {
        "/api/v1/ask",
        "/api/v1/check",
        "/api/v1/spread",
        "/api/v1/explain",
        "/api/v1/paths",
        "/api/v1/facets",
        "/api/v1/read",
        "/api/v1/translate",
        "/api/v1/relation",
        "/api/v1/rules",
        "/api/v1/run",
        "/api/v1/map",
        "/api/v1/validation",
        "/api/v1/searches/{search}",
        "/api/v1/entities",
        "/api/v1/relations",
        "/api/v1/complete",
        "/api/v1/parse",
        "/api/v1/entity",
        "/api/v1/entity/{name}",
        "/api/v1/runs",
        "/api/v1/runs/{name}/reload",
        "/sparql",
        "/healthz",
        "/metrics",
    }
    ask = document["components"]["schemas"]["AskBody"]["properties"]
    assert ask["query"]["examples"] == ["William/^fatherOf/brotherOf/fatherOf"]
    assert (ask["top"]["minimum"], ask["top"]["maximum"]) == (1, 1000)
    for route in document["paths"].values():
        for operation in route.values():
            for status, response in operation["responses"].items():
                if status != "200":
                    assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Failure"}


def test_many_questions_in_one_request(client: httpx.Client) -> None:
    texts = [QUERY, JOINED, QUERY]
    many = _result(client.post("/api/v1/ask", json={"query": texts, "top": 2}))
    for text, own in zip(texts, many, strict=True):
        assert own == _result(client.post("/api/v1/ask", json={"query": text, "top": 2}))
    refused = client.post("/api/v1/ask", json={"query": [QUERY, "nobody/next"]})
    assert refused.status_code == 404
    assert refused.json()["error"]["place"]["text"] == "nobody/next"
    for wrong, message in (
        ([], "query must be a list of at least 1."),
        ([QUERY] * 101, "query must be a list of at most 100."),
        ([QUERY, 5], "query.1 is text; put it in double quotes."),
    ):
        response = client.post("/api/v1/ask", json={"query": wrong})
        assert response.status_code == 422
        assert response.json()["error"]["message"].startswith(message), response.json()


READERS: dict[str, Callable[[BytesIO], pl.DataFrame]] = {
    "text/csv": pl.read_csv,
    "text/tab-separated-values": partial(pl.read_csv, separator="\t"),
    "application/x-ndjson": pl.read_ndjson,
    "application/vnd.apache.parquet": pl.read_parquet,
    "application/vnd.apache.arrow.stream": pl.read_ipc_stream,
}


@pytest.mark.parametrize("kind", READERS)
def test_answers_as_a_table(client: httpx.Client, kind: str) -> None:
    whole = _result(client.post("/api/v1/ask", json={"query": [QUERY, JOINED], "top": 3}))
    response = client.post(
        "/api/v1/ask", json={"query": [QUERY, JOINED], "top": 3}, headers={"Accept": f"{kind}, */*;q=0.1"}
    )
    assert response.headers["content-type"].partition(";")[0] == kind
    frame = READERS[kind](BytesIO(response.content))
    expected = [(each["query"], rank, a["entity"]) for each in whole for rank, a in enumerate(each["answers"], start=1)]
    assert frame.select("query", "rank", "entity").rows() == expected
    known = [a["probability"] for each in whole for a in each["answers"]]
    assert frame["probability"].to_list() == pytest.approx(known)


def test_kinds_of_content_that_there_are_not(client: httpx.Client) -> None:
    for accept in ("image/png", "application/json;q=0", "text/html;q=x"):
        response = client.post("/api/v1/ask", json={"query": QUERY}, headers={"Accept": accept})
        assert (response.status_code, response.json()["error"]["kind"]) == (406, "not_acceptable")
    for accept in ("*/*", "application/*", "text/html, application/json;q=0.5", ""):
        response = client.post("/api/v1/ask", json={"query": QUERY}, headers={"Accept": accept})
        assert response.headers["content-type"] == "application/json", accept


def test_searches_that_are_not_in_progress(client: httpx.Client) -> None:
    for method in ("GET", "DELETE"):
        response = client.request(method, "/api/v1/searches/none")
        assert (response.status_code, response.json()["error"]["kind"]) == (404, "not_found")
