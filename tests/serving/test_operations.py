"""Running a server: limits, the key, overload, reloads, kills and orderly ends, all on real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.processes import ServerProcess, serving, serving_with
from tests.serving.random_run import write_random_run
from tests.workers import quiet_port

QUERY = '"number 3"/next/double'


@pytest.fixture(scope="module")
def tight(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a key, short queries, a name and a proxy."""
    log = tmp_path_factory.mktemp("tight") / "log"
    hosts, proxies = ["kg.example.org"], ["127.0.0.1"]
    with serving_with(
        log, run, api_key="s3cret", max_length=2, allowed_hosts=hosts, trusted_proxies=proxies
    ) as process:
        yield process


@pytest.fixture(scope="module")
def impatient(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that waits for a second only; nobody else asks it, for a second can pass on a busy machine."""
    log = tmp_path_factory.mktemp("impatient") / "log"
    with serving_with(log, run, receive_seconds=1, send_seconds=1) as process:
        yield process


@pytest.fixture(scope="module")
def wide_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with so many relations that a search for paths takes most of a second; read it only."""
    return write_random_run(tmp_path_factory.mktemp("wide") / "run", E=300, R=10, facts=1200)


LONG_SEARCH = {"source": "e1", "target": "e2", "max_length": 4}


@contextmanager
def _searches(server: ServerProcess, count: int) -> Iterator[list[Future[httpx.Response]]]:
    """So many long searches of the run at the same moment, over connections that stand already."""
    together = threading.Barrier(count)

    def search() -> httpx.Response:
        with server.client() as client:
            client.get("/healthz")
            together.wait()
            return client.post("/api/v1/paths", json=LONG_SEARCH)

    with ThreadPoolExecutor(count) as pool:
        yield [pool.submit(search) for _ in range(count)]


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.02)


def test_with_a_key_every_route_but_healthz_refuses_without_it(tight: ServerProcess) -> None:
    with tight.client() as client:
        assert client.get("/healthz").status_code == 200
        document = client.get("/openapi.json", headers={"X-API-Key": "s3cret"}).json()
        routes = [(method, path) for path, methods in document["paths"].items() for method in methods]
        routes += [("get", path) for path in ("/", "/static/page.js", "/openapi.json", "/nothing")]
        for method, path in routes:
            if path != "/healthz":
                response = client.request(method, path)
                assert response.status_code == 401, path
                assert response.json()["error"]["kind"] == "unauthorized"
                assert response.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer s3cret"}, 200),
        ({"authorization": "bearer  s3cret"}, 200),
        ({"X-API-Key": "s3cret"}, 200),
        ({"Authorization": f"Basic {b64encode(b'anyone:s3cret').decode()}"}, 200),
        ({"Authorization": "Bearer s3cre"}, 401),
        ({"Authorization": "Bearer s3crett"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "s3cret"}, 401),
        ({"Authorization": "Basic s3cret"}, 401),
        ({"Authorization": f"Basic {b64encode(b's3cret').decode()}"}, 401),
        ({"X-API-Key": "ключ".encode().decode("latin-1")}, 401),
        ({"Cookie": "key=s3cret"}, 401),
    ],
)
def test_the_key_comes_in_three_ways(tight: ServerProcess, headers: dict[str, str], status: int) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    assert httpx.get(f"{tight.url}api/runs", headers=raw).status_code == status


@pytest.mark.parametrize("trusted", [False, True])
def test_where_a_request_comes_from_is_believed_of_a_trusted_proxy_alone(
    server: ServerProcess, tight: ServerProcess, trusted: bool
) -> None:
    asked = tight if trusted else server
    headers = {"X-Forwarded-For": "203.0.113.9", "X-Request-ID": f"forwarded-{trusted}"}
    assert httpx.get(f"{asked.url}healthz", headers=headers).status_code == 200
    _wait_until(lambda: any(line.get("request_id") == headers["X-Request-ID"] for line in asked.log_lines()))
    (line,) = [line for line in asked.log_lines() if line.get("request_id") == headers["X-Request-ID"]]
    assert line["client"] == ("203.0.113.9" if trusted else "127.0.0.1")


def test_the_key_is_never_logged(tight: ServerProcess) -> None:
    assert httpx.get(f"{tight.url}api/runs", headers={"X-API-Key": "s3cret"}).status_code == 200
    assert "s3cret" not in tight.log.read_text(encoding="utf-8")


def test_the_longest_query_can_be_set(tight: ServerProcess) -> None:
    with tight.client(Authorization="Bearer s3cret") as client:
        assert client.post("/api/v1/ask", json={"query": QUERY}).status_code == 200
        longer = client.post("/api/v1/ask", json={"query": QUERY + "/next"})
        assert longer.status_code == 422
        assert longer.json()["error"]["message"] == "the query has 3 hops; a query may have 2 at most."


def test_a_full_queue_answers_503_and_recovers(wide_run: Path, tmp_path: Path) -> None:
    with (
        serving_with(tmp_path / "log", wide_run, queue=2, threads=1, timeout=60) as server,
        server.client() as client,
    ):
        with _searches(server, 8) as searches:
            # Searches that fill their own lane hold up neither questions nor health.
            assert client.post("/api/v1/ask", json={"query": "e1/r0"}).status_code == 200
            assert client.get("/healthz").status_code == 200
            responses = [each.result() for each in searches]
        statuses = {response.status_code for response in responses}
        assert statuses == {200, 503}
        refused = next(response for response in responses if response.status_code == 503)
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"] == {
            "kind": "busy",
            "message": "the server has as many requests as it can hold; ask again in a second.",
            "place": None,
            "nearest": [],
            "mended": [],
        }
        assert client.post("/api/v1/paths", json=LONG_SEARCH).status_code == 200
        assert (
            'blockhole_requests_total{method="POST",route="/api/v1/paths",status="503"}' in client.get("/metrics").text
        )


def test_a_request_that_takes_too_long_is_given_up(wide_run: Path, tmp_path: Path) -> None:
    long_path = {"query": "e1" + "/r0/r1" * 8, "entity": "e2"}
    with serving_with(tmp_path / "log", wide_run, timeout=0.001) as server, server.client() as client:
        for route, body in (("paths", LONG_SEARCH), ("explain", long_path)):
            response = client.post(f"/api/v1/{route}", json=body)
            assert response.status_code == 503
            assert response.headers["retry-after"] == "1"
            assert response.json()["error"]["message"] == (
                "the search did not end within 0.001 s; ask for shorter paths or fewer answers, or try again later."
            )
        # The search itself has ended too: its lane is free again.
        _wait_until(lambda: 'lane="long"} 0.0' in client.get("/metrics").text)


BODY_TO_COME = (
    b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


@pytest.mark.parametrize("beginning", [b"", b"GET /healthz HTTP/1.1\r\nHost:", BODY_TO_COME])
def test_a_client_that_dawdles_is_cut_off(impatient: ServerProcess, beginning: bytes) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as connection:
        connection.sendall(beginning)
        received = b""
        while part := connection.recv(65536):  # until the server closes it
            received += part
    assert received.split()[1] == b"408"


@pytest.mark.parametrize(
    ("request_bytes", "status", "path"),
    [
        (b"", 408, None),
        (BODY_TO_COME, 408, "/api/v1/ask"),
        (b"GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 62_000 + b"\r\n\r\n", 431, "/api/v1/runs"),
        (b"NONSENSE\r\n\r\n", 400, None),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA\0B: c\r\n\r\n", 400, "/"),
    ],
)
def test_what_never_becomes_a_request_is_logged_and_counted(
    impatient: ServerProcess, request_bytes: bytes, status: int, path: str | None
) -> None:
    before = _figure(impatient, f'route="none",status="{status}"')
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as connection:
        connection.sendall(request_bytes)
        received = b""
        while part := connection.recv(65536):
            received += part
    assert received.split()[1] == str(status).encode()
    request_id = json.loads(received.partition(b"\r\n\r\n")[2])["request_id"]
    _wait_until(lambda: any(line.get("request_id") == request_id for line in impatient.log_lines()))
    (line,) = [line for line in impatient.log_lines() if line.get("request_id") == request_id]
    assert (line["event"], line["level"], line["status"], line["path"]) == ("request", "info", status, path)
    assert line["client"] == "127.0.0.1"
    assert _figure(impatient, f'route="none",status="{status}"') == before + 1


def _figure(server: ServerProcess, labels: str) -> float:
    """The number of requests whose labels end so."""
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return sum(
        float(line.split()[-1]) for line in lines if line.startswith("blockhole_requests_total") and labels in line
    )


def test_a_client_that_does_not_read_is_dropped(impatient: ServerProcess) -> None:
    with impatient.client() as client:
        client.get("/openapi.json")  # written once, which may take longer than the server's patience
    before = _resident(impatient)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", impatient.port))
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            # More than all buffers hold; the server closes the connection while it is sent.
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10**6)
    _wait_until(lambda: any(line["event"] == "response not read" for line in impatient.log_lines()))
    assert [line for line in impatient.log_lines() if line["level"] == "error"] == []
    assert _resident(impatient) < before + 2**27  # requests that wait behind one another are not read without end


def test_a_client_that_reads_slowly_gets_everything(impatient: ServerProcess) -> None:
    count = 60
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", impatient.port))
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * (count - 1))
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = b""
        while part := connection.recv(16_384):
            received += part
            time.sleep(0.005)
    assert received.count(b"HTTP/1.1 200 OK") == count
    assert received.endswith(b"}")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_models_of_blocks_are_served_without_torch(impatient: ServerProcess) -> None:
    with impatient.client() as client:
        assert client.post("/api/v1/ask", json={"query": QUERY}).status_code == 200
    held = Path(f"/proc/{impatient.process.pid}/maps").read_text(encoding="utf-8")
    assert "numpy" in held
    assert "libtorch" not in held


def test_a_byte_now_and_then_does_not_keep_a_connection(impatient: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        end = time.monotonic() + 60
        cut_off = False
        while not cut_off and time.monotonic() < end:
            time.sleep(0.1)
            try:
                connection.sendall(b"X-More: 1\r\n")
            except OSError:  # a reset or a broken pipe, as the system likes
                cut_off = True
        assert cut_off


def test_five_hundred_dawdlers_do_not_hold_up_others(tight: ServerProcess) -> None:
    connections = [socket.create_connection(("127.0.0.1", tight.port), timeout=60) for _ in range(500)]
    try:
        for connection in connections:
            connection.sendall(b"GET / HTTP/1.1\r\n")
        with tight.client(Authorization="Bearer s3cret") as client:
            for _ in range(10):
                assert client.post("/api/v1/ask", json={"query": QUERY}).status_code == 200
    finally:
        for connection in connections:
            connection.close()


class _Load:
    """Asks without end from several threads, and keeps what was no answer."""

    def __init__(self, server: ServerProcess, threads: int = 4) -> None:
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]
        self.answered = 0
        self.failures: list[object] = []

    def _ask(self) -> None:
        with self._server.client() as client:
            while not self._stop.is_set():
                try:
                    response = client.post("/api/v1/ask", json={"query": QUERY})
                except httpx.HTTPError as failure:
                    self.failures.append(failure)
                    return
                if response.status_code == 200:
                    self.answered += 1
                else:
                    self.failures.append(response.text)

    def __enter__(self) -> _Load:
        for thread in self._threads:
            thread.start()
        _wait_until(lambda: self.answered > 0 or bool(self.failures))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def _epochs(client: httpx.Client) -> int:
    epochs: int = client.get("/api/v1/runs").json()["result"]["runs"][0]["epochs"]
    return epochs


def _best(client: httpx.Client) -> dict[str, Any]:
    response = client.post("/api/v1/ask", json={"query": QUERY, "only": "predicted"})
    best: dict[str, Any] = response.json()["result"]["answers"][0]
    return best


def _replace(folder: Path, other: Path) -> None:
    new = folder.with_name("new")
    shutil.copytree(other, new)
    folder.rename(folder.with_name("old"))
    new.rename(folder)
    shutil.rmtree(folder.with_name("old"))


def test_a_run_trained_again_is_reloaded_under_load_without_a_failure(
    own_run: Path, run: Path, trained_again: Path, tmp_path: Path
) -> None:
    with serving(tmp_path / "log", own_run, "--port", 0) as server, server.client() as client:
        before = _best(client)
        with _Load(server) as load:
            _replace(own_run, trained_again)
            answered = load.answered
            response = client.post("/api/v1/runs/own/reload")
            assert (response.status_code, response.json()["result"]["epochs"]) == (200, 3)
            _wait_until(lambda: load.answered > answered + 20)
        assert load.failures == []
        assert _best(client)["score"] != before["score"]

        _replace(own_run, run)
        server.process.send_signal(signal.SIGHUP)
        _wait_until(lambda: _epochs(client) == 20)
        assert _best(client) == before

        (own_run / "weights.safetensors").write_bytes(b"cut short")  # in place: the server must not read it any more
        damaged = client.post("/api/v1/runs/own/reload")
        assert (damaged.status_code, damaged.json()["error"]["kind"]) == (422, "run")
        assert damaged.json()["error"]["message"].startswith("own/weights.safetensors")
        assert str(tmp_path) not in damaged.text  # where it lies is the operator's to know, who has the log
        (line,) = [line for line in server.log_lines() if line["event"] == "reload failed"]
        assert (line["level"], str(own_run) in line["reason"]) == ("error", True)
        assert client.post("/api/v1/runs/nobody/reload").status_code == 404
        _wait_until(lambda: any(line.get("status") == 404 for line in server.log_lines()))  # written after the answer
        assert {line["level"] for line in server.log_lines() if line.get("status") == 404} == {"info"}
        assert len([line for line in server.log_lines() if line["level"] == "error"]) == 1
        server.process.send_signal(signal.SIGHUP)
        _wait_until(lambda: 'blockhole_reloads_total{outcome="failed",run="own"} 2.0' in client.get("/metrics").text)
        assert _best(client) == before
        assert server.end() == 0


def test_killed_under_load_and_started_again_it_answers_as_before(own_run: Path, tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in own_run.iterdir()}
    port = quiet_port()
    with serving(tmp_path / "log", own_run, "--port", port) as server, server.client() as client:
        before = _best(client)
        with _Load(server) as load:
            server.process.kill()
            server.process.wait()
            _wait_until(lambda: len(load.failures) == 4)
    assert {path.name: path.read_bytes() for path in own_run.iterdir()} == files
    with serving(tmp_path / "log", own_run, "--port", port) as server, server.client() as client:
        assert server.port == port
        assert _best(client) == before


def test_requests_under_way_are_finished_before_the_end(wide_run: Path, tmp_path: Path) -> None:
    with (
        serving(tmp_path / "log", wide_run, "--port", 0, "--threads", 1, "--timeout", 60) as server,
        server.client() as client,
    ):
        with _searches(server, 4) as searches:
            _wait_until(lambda: 'lane="long"} 4.0' in client.get("/metrics").text)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)  # the end has begun; a second signal must not hurry it
            server.process.send_signal(signal.SIGINT)
            assert [each.result().status_code for each in searches] == [200] * 4
        assert server.process.wait(60) == 0
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{server.url}healthz")


def test_an_interrupt_is_an_orderly_end(own_run: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("from-a-file\n", encoding="utf-8")
    with serving(tmp_path / "log", own_run, "--port", 0, "--api-key-file", key, "--host", "localhost") as server:
        assert httpx.get(f"{server.url}api/runs").status_code == 401
        assert httpx.get(f"{server.url}api/runs", headers={"X-API-Key": "from-a-file"}).status_code == 200
        assert server.end(signal.SIGINT) == 0


def _resident(server: ServerProcess) -> int:
    """Bytes of memory that the server has."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_memory_does_not_grow_with_requests(server: ServerProcess, client: httpx.Client) -> None:
    def ask(count: int) -> None:
        for i in range(count):
            client.post("/api/v1/ask", json={"query": f'"number {i % 60}"/next'})
            client.get("/api/v1/entities", params={"prefix": f"n{i}"})

    sizes = []
    for _ in range(12):
        ask(50)
        assert client.post("/api/v1/runs/run/reload").status_code == 200
        sizes.append(_resident(server))
    # A thread keeps the memory that its first work took, whenever that is; what leaks grows with every round.
    growth = sorted(after - before for before, after in pairwise(sizes))
    assert growth[len(growth) // 2] < 2**18
