"""What is refused: the one shape of failures, with the sentences of the command line and the place in the request."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockhole.answering.engine import Engine
from blockhole.cli.main import main
from blockhole.errors import BlockholeWarning
from blockhole.serving.app import State, build_app
from blockhole.serving.observing import Metrics, logger
from blockhole.serving.served_runs import ServedRun, ServedRuns
from blockhole.serving.service import Service
from blockhole.serving.settings import ServerSettings
from tests.sweep import draws

QUERY = '"number 3"/next/double'


def _failure(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    assert set(body) == {"error", "request_id"}
    assert set(body["error"]) == {"kind", "message", "place", "nearest", "mended"}
    assert body["request_id"] == response.headers["x-request-id"]
    assert "\n" not in body["error"]["message"]
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(
    ("route", "body", "arguments", "status", "place"),
    [
        ("ask", {"query": "number 3/next"}, ["ask", "number 3/next"], 400, ("query", 7, 8)),
        ("ask", {"query": ""}, ["ask", ""], 400, ("query", 0, 1)),
        ("ask", {"query": '"numbr 3"/next'}, ["ask", '"numbr 3"/next'], 404, ("query", 0, 9)),
        ("ask", {"query": '"number 3"/^nxt'}, ["ask", '"number 3"/^nxt'], 404, ("query", 12, 15)),
        ("ask", {"query": '"number 3"/ nxt^-1 /next'}, ["ask", '"number 3"/ nxt^-1 /next'], 404, ("query", 12, 15)),
        ("ask", {"query": QUERY, "top": 0}, ["ask", QUERY, "--top", "0"], 422, "top"),
        ("check", {"query": QUERY, "entity": "numer 8"}, ["check", QUERY, "numer 8"], 404, ("entity", 0, 7)),
        ("check", {"query": "^next", "entity": "x"}, ["check", "^next", "x"], 400, ("query", 0, 5)),
        ("explain", {"query": QUERY, "entity": ""}, ["explain", QUERY, ""], 404, ("entity", 0, 0)),
        ("explain", {"query": QUERY, "entity": "x", "top": -1}, ["explain", QUERY, "x", "--top", "-1"], 422, "top"),
        ("paths", {"source": "number 3", "target": "y"}, ["paths", "number 3", "y"], 404, ("target", 0, 1)),
        (
            "paths",
            {"source": "number 3", "target": "number 4", "max_length": 5},
            ["paths", "number 3", "number 4", "--max-length", "5"],
            422,
            "max_length",
        ),
    ],
)
def test_what_the_command_line_refuses_gets_the_same_sentence(
    client: httpx.Client,
    run: Path,
    capsys: pytest.CaptureFixture[str],
    route: str,
    body: dict[str, Any],
    arguments: list[str],
    status: int,
    place: tuple[str, int, int] | str,
) -> None:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([arguments[0], str(run), *arguments[1:]])
    assert stop.value.code == 1
    sentence = capsys.readouterr().err.removeprefix("error: ").splitlines()[0]
    response = client.post(f"/api/v1/{route}", json=body)
    error = _failure(response)
    assert (response.status_code, error["message"]) == (status, sentence)
    if isinstance(place, str):  # a number out of range
        assert error["place"] == {"field": place, "text": None, "column": None, "end": None}
    else:
        field, column, end = place
        assert error["place"] == {"field": field, "text": body[field], "column": column, "end": end}


@pytest.mark.parametrize("route", ["check", "explain", "spread"])
def test_a_run_without_calibration_says_so(client: httpx.Client, route: str) -> None:
    body = {"query": QUERY} | ({} if route == "spread" else {"entity": "number 9"})
    response = client.post(f"/api/v1/{route}", json={**body, "run": "bare"})
    assert response.status_code == 422
    error = _failure(response)
    assert (error["kind"], error["message"]) == (
        "run",
        "bare has no calibration for its weights, which turns scores into probabilities; "
        "make it with `blockhole calibrate bare`.",
    )


def test_a_run_of_train_facts_alone_is_not_told_to_calibrate(run: Path, tmp_path: Path) -> None:
    """`blockhole calibrate` would refuse it. Where the data lie is kept to the server."""
    data = tmp_path / "facts.tsv"
    data.write_text("a\tr\tb\n", encoding="utf-8")
    settings = json.loads((run / "config.json").read_text(encoding="utf-8"))
    del settings["seal"]
    folder = shutil.copytree(run, tmp_path / "own")
    (folder / "calibration.json").unlink()
    (folder / "config.json").write_text(json.dumps(settings | {"data": str(data)}), encoding="utf-8")
    with pytest.warns(BlockholeWarning, match="facts.tsv --out FOLDER"):
        served = ServedRun.load("clock", folder)
    assert served.engine.lacking == (
        "clock has no calibration, which turns scores into probabilities, and its data no validation facts to fit one "
        "on; set some aside with `blockhole data split facts.tsv --out FOLDER` and train on FOLDER"
    )


def test_what_is_known_needs_no_calibration(client: httpx.Client) -> None:
    """As on the command line: known answers, their proofs and known paths."""
    known = {"query": '"number 3"/next', "entity": "number 4", "run": "bare"}
    verdict = client.post("/api/v1/check", json=known).json()["result"]
    assert verdict == {"holds": True, "probability": 1.0, "status": "known"}
    proof = client.post("/api/v1/explain", json=known).json()["result"]
    assert (proof["status"], proof["proofs"][0]["probability"]) == ("known", 1.0)
    found = client.post("/api/v1/paths", json={"source": "number 3", "target": "number 4", "run": "bare"}).json()
    assert {path["status"] for path in found["result"]["paths"]} == {"known"}


@pytest.mark.parametrize(
    ("body", "status", "kind", "message"),
    [
        ({"query": "a" + "/next" * 17}, 422, "query", "the query has 17 hops; a query may have 16 at most."),
        ({"query": QUERY, "offset": -1}, 422, "invalid", "offset is a place in a list, at least 0; it cannot be -1."),
        ({"query": QUERY, "top": 1001}, 422, "invalid", "top may be 1,000 at most here; it cannot be 1,001."),
        ({"query": QUERY, "top": 10**30}, 422, "invalid", f"top may be 1,000 at most here; it cannot be {10**30:,}."),
        ({"query": QUERY, "top": "3"}, 422, "invalid", "top is a whole number; it cannot be '3'."),
        ({"query": QUERY, "top": True}, 422, "invalid", "top is a whole number; it cannot be true."),
        ({"query": QUERY, "top": 2.5}, 422, "invalid", "top is a whole number; it cannot be 2.5."),
        ({"query": QUERY, "tpo": 3}, 422, "invalid", "there is no field 'tpo'; did you mean top?"),
        ({"query": QUERY, "only": "some"}, 422, "invalid", "only must be 'known' or 'predicted'."),
        ({"query": None}, 422, "invalid", "query is text; put it in double quotes."),
        ({}, 422, "invalid", "query is missing; the request needs it."),
        ({"query": QUERY, "run": "x"}, 404, "unknown_run", "there is no run 'x' here; the runs are run, bare."),
        ({"query": "a" * 20_000}, 422, "invalid", "query may have 16,384 characters at most."),
    ],
)
def test_bodies_that_do_not_fit(
    client: httpx.Client, body: dict[str, Any], status: int, kind: str, message: str
) -> None:
    response = client.post("/api/v1/ask", json=body)
    error = _failure(response)
    assert (response.status_code, error["kind"], error["message"]) == (status, kind, message)


@pytest.mark.parametrize(
    ("content", "status", "kind"),
    [
        (b"", 422, "invalid"),
        (b"{", 400, "malformed"),
        (b"\xff\xfe", 400, "malformed"),
        (b"[" * 60_000, 400, "malformed"),
        (b'{"query":' * 6_000 + b"1" + b"}" * 6_000, 400, "malformed"),
        (b'{"query": "a/b", "top": NaN}', 422, "invalid"),
        (b'{"query": "a/b", "top": -Infinity}', 422, "invalid"),
        (b'{"query": "a/b", "top": ' + b"9" * 5000 + b"}", 400, "malformed"),
        (b'{"query": "\\ud800/next"}', 422, "invalid"),
        (b'{"query": "\\u0000\\u0001/next"}', 400, "syntax"),
        (b'{"query": "\\"\\u0000\\"/next"}', 404, "unknown_name"),
        (b'"text"', 422, "invalid"),
        (b"[]", 422, "invalid"),
        (b" " * 70_000, 413, "too_large"),
        (b'{"query": "' + b"a" * 2**20 + b'"}', 413, "too_large"),
    ],
)
def test_contents_that_are_no_question(client: httpx.Client, content: bytes, status: int, kind: str) -> None:
    response = client.post("/api/v1/ask", content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, _failure(response)["kind"]) == (status, kind), response.text


@pytest.mark.parametrize(
    ("digits", "message"),
    [
        (4000, "top may be 1,000 at most here; it cannot be 9" + ",999" * 13 + "…9" + ",999" * 6 + "."),
        (5000, "a number in the body has thousands of digits; send a smaller one."),
    ],
)
def test_a_number_of_thousands_of_digits_is_cut_as_a_name_is(client: httpx.Client, digits: int, message: str) -> None:
    content = rb'{"query": "\"number 3\"/next", "top": ' + b"9" * digits + b"}"
    response = client.post("/api/v1/ask", content=content, headers={"Content-Type": "application/json"})
    assert _failure(response)["message"] == message


def test_a_body_that_does_not_say_how_long_it_is_is_limited_too(client: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1024

    response = client.post("/api/v1/ask", content=endless(), headers={"Content-Type": "application/json"})
    assert (response.status_code, _failure(response)["message"]) == (
        413,
        "a request's body may have 65,536 bytes at most.",
    )


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
def test_a_body_of_another_type(client: httpx.Client, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    response = client.post("/api/v1/ask", content=json.dumps({"query": QUERY}), headers=headers)
    assert (response.status_code, _failure(response)["message"]) == (
        415,
        "the body must be JSON; send it with Content-Type: application/json.",
    )
    good = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post("/api/v1/ask", content=json.dumps({"query": QUERY}), headers=good).status_code == 200


@pytest.mark.parametrize(
    ("address", "status", "kind", "message"),
    [
        ("/nothing", 404, "not_found", "there is nothing at /nothing; the routes are in /openapi.json."),
        ("/api/v1/ask", 405, "method_not_allowed", "GET is not possible here; the routes are in /openapi.json."),
        ("/api/v1/entity/nobody", 404, "unknown_name", "unknown entity 'nobody'."),
        (
            "/api/v1/entity?name=number%203&relation=nxt",
            404,
            "unknown_name",
            "unknown relation 'nxt'; did you mean 'next'?",
        ),
        ("/api/v1/entity?name=number%203&relation=", 400, "syntax", "a relation is missing at the end"),
        ("/api/v1/entity", 422, "invalid", "name is missing; the request needs it."),
        ("/api/v1/entities?limit=0", 422, "invalid", "limit is a number from 1 to 1,000; it cannot be 0."),
        ("/api/v1/entities?limit=x", 422, "invalid", None),
        ("/api/v1/entity?name=number%203&offset=-1", 422, "invalid", None),
        ("/api/v1/relations?after=x", 404, "unknown_name", "unknown entity 'x'."),
        ("/api/v1/relations?after=a//b", 400, "syntax", None),
        ("/api/v1/entities?run=none", 404, "unknown_run", None),
    ],
)
def test_addresses_that_lead_nowhere(
    client: httpx.Client, address: str, status: int, kind: str, message: str | None
) -> None:
    response = client.get(address)
    error = _failure(response)
    assert (response.status_code, error["kind"]) == (status, kind)
    if message is not None:
        assert error["message"] == message


@pytest.mark.parametrize(
    "path",
    [
        "/static/../settings.py",
        "/static/../../../../../../../../etc/passwd",
        "/static/%2e%2e/settings.py",
        "/static/..%2fsettings.py",
        "/static/..\\settings.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/index.html%00.js",
        "/static/",
        "/static",
    ],
)
def test_nothing_outside_the_page_is_served(client: httpx.Client, path: str) -> None:
    status, body = _raw(client, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert status in (307, 404)
    assert "ServerSettings" not in body
    assert "root:" not in body


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA\0B: c\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_in_the_same_shape(client: httpx.Client, request_bytes: bytes) -> None:
    status, body = _raw(client, request_bytes)
    assert 400 <= status < 500
    assert set(json.loads(body)) == {"error", "request_id"}


@pytest.mark.parametrize("length", [62_000, 70_000, 2**20])
def test_an_address_that_is_too_long_is_refused(client: httpx.Client, length: int) -> None:
    try:
        status, body = _raw(
            client, b"GET /api/v1/entities?prefix=" + b"a" * length + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
    except OSError:
        return  # the connection was closed before all of it was sent
    assert status == 431
    assert json.loads(body)["error"]["kind"] == "too_large"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/api/v1/entities?prefx=n", "there is no parameter 'prefx'; did you mean prefix?"),
        ("/api/v1/relations?aftr=x", "there is no parameter 'aftr'; did you mean after?"),
        ("/api/v1/entity/number%203?limt=1", "there is no parameter 'limt'; did you mean limit?"),
        ("/api/v1/entity?name=number%203&Limit=1", "there is no parameter 'Limit'; did you mean limit?"),
        ("/api/v1/complete?txt=a", "there is no parameter 'txt'; did you mean text?"),
        ("/api/v1/parse?query=a/b&zz=1", "there is no parameter 'zz'; the parameters are query."),
        ("/api/v1/runs?run=run", "there is no parameter 'run'; this route has no parameters."),
        ("/api/v1/map?rum=run", "there is no parameter 'rum'; did you mean run?"),
        ("/sparql?qury=ASK{}", "there is no parameter 'qury'; did you mean query?"),
        ("/sparql?query=ASK{}&Treshold=0.9", "there is no parameter 'Treshold'; did you mean threshold?"),
    ],
)
def test_a_parameter_that_does_not_exist_is_not_passed_over(client: httpx.Client, address: str, message: str) -> None:
    response = client.get(address)
    error = _failure(response)
    assert (response.status_code, error["kind"], error["message"]) == (422, "invalid", message)
    assert error["place"]["field"] in message


def test_parameters_of_what_looks_after_the_server_are_its_own(client: httpx.Client) -> None:
    assert client.get("/healthz?from=probe").status_code == 200
    assert client.get("/metrics?from=probe").status_code == 200


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("/api/v1/entities?limit=0", "limit"),
        ("/api/v1/relations?limit=1001", "limit"),
        ("/api/v1/entity?name=number%203&limit=201", "limit"),
        ("/api/v1/entity?name=number%203&offset=-1", "offset"),
        ("/api/v1/entities?limit=x", "limit"),
    ],
)
def test_a_number_out_of_range_has_a_place(client: httpx.Client, address: str, field: str) -> None:
    error = _failure(client.get(address))
    assert error["place"] == {"field": field, "text": None, "column": None, "end": None}


def test_a_bug_is_refused_in_the_same_shape_and_logged_under_the_id_that_the_client_has(
    run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Engine, "check", broken)
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    monkeypatch.setattr(logger, "propagate", False)
    allowed, metrics = ServerSettings(), Metrics()
    app = build_app(State(ServedRuns([ServedRun.load("run", run)]), Service(allowed, metrics), metrics), allowed)

    async def check() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/api/v1/check", json={"query": QUERY, "entity": "number 8"})

    response = asyncio.run(check())
    assert (response.status_code, _failure(response)["kind"]) == (500, "internal")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
    assert vars(record)["fields"]["request_id"] == response.json()["request_id"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["query", "entity", "source", "target", "top", "max_length", "candidates", "only", "run"])


@settings(max_examples=draws(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    route=st.sampled_from(["ask", "check", "explain", "paths"]),
    body=st.dictionaries(fields, json_values | st.sampled_from([QUERY, "number 3"]), max_size=5) | json_values,
)
def test_no_body_breaks_the_server(client: httpx.Client, route: str, body: object) -> None:
    content = json.dumps(body)
    response = client.post(f"/api/v1/{route}", content=content, headers={"Content-Type": "application/json"})
    if response.status_code == 200:
        assert set(response.json()) == {"run", "result"}
    else:
        assert response.status_code in (400, 404, 422)
        _failure(response)


def _raw(client: httpx.Client, request: bytes) -> tuple[int, str]:
    """The status and the body that bytes get which no client library would send."""
    address = (client.base_url.host, client.base_url.port)
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(request)
        received = b""
        while part := connection.recv(65536):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()
