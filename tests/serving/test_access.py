"""Which hosts a server answers as, and which pages may ask it."""

from __future__ import annotations

from socket import gethostname

import httpx
import pytest

from blockhole.serving.front import Callers, Hosts
from blockhole.serving.schemas import Refusal
from tests.serving.processes import ServerProcess

REBOUND = "http://evil.example:8000"


@pytest.mark.parametrize(
    ("bound", "host", "is_allowed"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "localhost:8000", True),
        ("127.0.0.1", "LOCALHOST.", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("::1", "[::1]", True),
        ("127.0.0.1", "kg.example.org", True),
        ("127.0.0.1", "KG.example.org:443", True),
        ("127.0.0.1", "evil.example:8000", False),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "a.kg.example.org", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[evil.example]", False),
        ("127.0.0.1", "evil.example:@localhost", False),
        ("0.0.0.0", "192.0.2.7:8000", True),
        ("0.0.0.0", "[2001:db8::1]:8000", True),
        ("0.0.0.0", f"{gethostname()}:8000", True),
        ("0.0.0.0", "evil.example:8000", False),
        ("graph.internal", "graph.internal:8000", True),
        ("graph.internal", "evil.example", False),
    ],
)
def test_a_name_must_be_the_servers_and_an_address_cannot_be_rebound(bound: str, host: str, is_allowed: bool) -> None:
    hosts = Hosts(bound, ["kg.example.org"])
    if is_allowed:
        hosts.check_host([host.encode()], "1.1")
        return
    with pytest.raises(Refusal, match="this server is not") as refused:
        hosts.check_host([host.encode()], "1.1")
    assert (refused.value.status, refused.value.problem.kind) == (421, "wrong_host")


@pytest.mark.parametrize(
    ("given", "version", "is_allowed"), [([], "1.0", True), ([], "1.1", False), ([b"a"] * 2, "1.1", False)]
)
def test_a_request_has_one_host(given: list[bytes], version: str, is_allowed: bool) -> None:
    if is_allowed:
        Hosts("127.0.0.1").check_host(given, version)
        return
    with pytest.raises(Refusal, match="one Host header") as refused:
        Hosts("127.0.0.1").check_host(given, version)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("origin", "host", "is_allowed"),
    [
        ("http://localhost:8000", "localhost:8000", True),
        ("http://localhost", "localhost:80", True),
        ("https://kg.example.org", "kg.example.org", True),
        ("https://kg.example.org:443", "kg.example.org", True),
        ("https://kg.example.org", "127.0.0.1:8000", True),  # a proxy that names the server by its address
        ("http://localhost:3000", "localhost:8000", False),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("https://evil.example", "localhost:8000", False),
        ("https://evil.example", "127.0.0.1:8000", False),
        ("null", "localhost:8000", False),
        ("", "localhost:8000", False),
        ("http://[", "localhost:8000", False),
        ("file://localhost:8000", "localhost:8000", False),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_origin_must_be_the_host_that_is_asked(origin: str, host: str, is_allowed: bool, method: str) -> None:
    hosts = Hosts("127.0.0.1", ["kg.example.org"])
    headers = {b"origin": origin.encode(), b"host": host.encode()}
    if is_allowed:
        hosts.check_origin(headers, method, "/api/v1/ask")
        return
    with pytest.raises(Refusal, match="a page of another site") as refused:
        hosts.check_origin(headers, method, "/api/v1/ask")
    assert (refused.value.status, refused.value.problem.kind) == (403, "cross_site")


@pytest.mark.parametrize(
    ("method", "path", "headers", "is_allowed"),
    [
        ("POST", "/api/v1/ask", {b"sec-fetch-site": b"same-origin"}, True),
        ("POST", "/api/v1/ask", {b"sec-fetch-site": b"none"}, True),
        ("POST", "/api/v1/ask", {}, True),  # no browser
        ("POST", "/api/v1/ask", {b"sec-fetch-site": b"cross-site"}, False),
        ("POST", "/api/v1/ask", {b"sec-fetch-site": b"same-site"}, False),
        ("POST", "/", {b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"navigate"}, False),
        ("GET", "/api/v1/runs", {b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"no-cors"}, False),
        ("GET", "/api/v1/runs", {b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"navigate"}, True),  # a link
        ("GET", "/", {b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"navigate"}, True),
    ],
)
def test_what_browsers_say_of_the_page_that_asks(
    method: str, path: str, headers: dict[bytes, bytes], is_allowed: bool
) -> None:
    given = {b"host": b"localhost", **headers}
    if is_allowed:
        Hosts("127.0.0.1").check_origin(given, method, path)
        return
    with pytest.raises(Refusal, match="a page of another site"):
        Hosts("127.0.0.1").check_origin(given, method, path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/api/v1/runs"),
        ("GET", "/healthz"),
        ("GET", "/static/page.js"),
        ("POST", "/api/v1/runs/run/reload"),
    ],
)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:8000"}, 421),
        ({"Host": "evil.example:8000", "Origin": REBOUND}, 421),
        ({"Origin": REBOUND}, 403),
    ],
)
def test_a_page_that_rebinds_its_name_gets_nothing(
    client: httpx.Client, server: ServerProcess, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    reloads = [line for line in server.log_lines() if line["event"] == "reloaded"]
    response = client.request(method, path, headers=headers)
    assert response.status_code == status
    assert set(response.json()) == {"error", "request_id"}
    assert [line for line in server.log_lines() if line["event"] == "reloaded"] == reloads


def test_addresses_without_a_version_say_what_replaces_them(client: httpx.Client) -> None:
    old, new = client.get("/api/entity?name=number 3"), client.get("/api/v1/entity?name=number 3")
    assert old.json() == new.json()
    assert old.headers["deprecation"].startswith("@")
    assert old.headers["link"] == '</api/v1/entity>; rel="successor-version"'
    assert "deprecation" not in new.headers
    odd = client.get("/api/entity/é<>")
    assert (odd.status_code, odd.headers["link"]) == (404, '</api/v1/entity/%C3%A9%3C%3E>; rel="successor-version"')


def test_one_caller_may_have_so_many_requests_in_progress() -> None:
    callers, ann, bob = Callers(2), {"client": ("10.0.0.1", 1)}, {"client": ("10.0.0.2", 1)}
    with callers.admitted(ann), callers.admitted(ann), callers.admitted(bob):
        with pytest.raises(Refusal, match="this address has 2 requests in progress; wait for one to end") as refused:
            callers.admitted(ann).__enter__()
        assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "1"})
    with callers.admitted(ann), Callers(None).admitted(ann):
        pass


def test_the_openapi_document_says_how_a_key_is_sent(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"]
    assert {scheme["type"] for scheme in schemes.values()} == {"http", "apiKey"}
    assert document["security"] == [{}, *({name: []} for name in schemes)]
    assert document["paths"]["/healthz"]["get"]["security"] == []
