"""How a server bears load, overload, kills and reloads, over loopback.

    python -m benchmarks.bench_serve [--run FOLDER] [--seconds 60] [--parts one_hop,mixed,sparql,overload,kill,reload]

prints one JSON object and keeps it in benchmarks/results/serve.json. Without --run the model has FB13's size and random
weights, as in `bench_ask`. Questions are all different. Clients are a process of their own, which takes its share of
the same processors; `one_hop`, `mixed` and `sparql` say how much, and what an answer costs the server: on a busy
machine, that figure alone means something.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np

CONNECTIONS = 64
STEADY = ("one_hop", "mixed", "sparql")
PARTS = (*STEADY, "overload", "kill", "reload")
RESULTS = Path(__file__).with_name("results") / "serve.json"


class Load(NamedTuple):
    """What clients do: each connection asks when it has an answer, or `every` so many seconds if that is later."""

    port: int
    bodies: list[bytes]
    connections: int
    seconds: float
    every: float = 0.0


class Outcome(NamedTuple):
    """For each request when it was sent, how long it took, and its status; 0 where the connection broke."""

    sent: list[float]
    taken: list[float]
    status: list[int]
    processor_seconds: float


async def _connection(load: Load, number: int, end: float, outcome: Outcome) -> None:
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    turn = number
    while monotonic() < end:
        body = load.bodies[turn % len(load.bodies)]
        turn += load.connections
        began = monotonic()
        try:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
            writer.write(body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            status = int(head[9:12])
        except (OSError, asyncio.IncompleteReadError):
            reader, writer, status = None, None, 0
            await asyncio.sleep(0.02)
        outcome.sent.append(began)
        outcome.taken.append(monotonic() - began)
        outcome.status.append(status)
        if load.every:
            await asyncio.sleep(max(0.0, began + load.every - monotonic()))
    if writer is not None:
        writer.close()


async def _drive(load: Load) -> Outcome:
    outcome = Outcome([], [], [], 0.0)
    end = monotonic() + load.seconds
    await asyncio.gather(*(_connection(load, i, end, outcome) for i in range(load.connections)))
    used = os.times()
    return outcome._replace(processor_seconds=used.user + used.system)


def _client(load: Load, answer: Any) -> None:
    import uvloop

    answer.send(uvloop.run(_drive(load)))


@contextmanager
def clients(load: Load) -> Iterator[Any]:
    """Clients at work in a process of their own; what comes out of them can be received when they end."""
    context = get_context("spawn")
    answer, sender = context.Pipe(duplex=False)
    process = context.Process(target=_client, args=(load, sender))
    process.start()
    sender.close()  # theirs is another end: where they fail, receiving ends too
    try:
        yield answer
        process.join()
    finally:
        process.kill()


def drive(load: Load) -> Outcome:
    with clients(load) as answer:
        outcome: Outcome = answer.recv()
    return outcome


class Server(NamedTuple):
    process: subprocess.Popen[str]
    port: int

    def resident(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(run: Path, port: int = 0) -> Iterator[Server]:
    command = [sys.executable, "-c", "from blockhole.cli.main import main; main()", "serve", str(run)]
    command += ["--port", str(port), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"the server did not start: {' '.join(command)}")
            yield Server(process, int(json.loads(line)["url"].rstrip("/").rpartition(":")[2]))
        finally:
            process.kill()


def asks(run: Path, count: int = 4000, lengths: tuple[int, int] = (1, 3)) -> list[bytes]:
    """Requests for walks over the run's own facts, each once."""
    from benchmarks.bench_ask import spelled
    from blockhole.queries.walks import sample_walks
    from blockhole.runs.run import Run

    graph = Run.open(run).graph
    walks = spelled(graph, sample_walks(graph, count, lengths=lengths, seed=0))
    return [post("/api/v1/ask", json.dumps({"query": text}).encode()) for text in dict.fromkeys(map(str, walks))]


def mixed(run: Path, count: int = 20_000) -> list[bytes]:
    """Requests that are walks of one to three hops, two facts joined by & or |, or such a pair and a hop behind it."""
    from blockhole.queries.language import Hop, write_name
    from blockhole.runs.run import Run

    graph = Run.open(run).graph
    rng = np.random.default_rng(0)
    edges, relations = graph.adjacency, graph.num_relations
    source = np.repeat(np.arange(graph.num_entities), np.diff(edges.group_start))
    source = np.repeat(source, np.diff(edges.edge_start))
    relation = np.repeat(edges.group_relation, np.diff(edges.edge_start))
    first = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=graph.num_entities))])

    def step(entity: int) -> tuple[int, int]:
        """An edge that leaves an entity: its relation and where it leads."""
        place = rng.integers(first[entity], first[entity + 1])
        return int(relation[place]), int(edges.target[place])

    def into(entity: int) -> str:
        """An edge that leads to an entity, as a query."""
        back, other = step(entity)
        hop = Hop(*graph.relation_name((back + relations) % (2 * relations)))
        return f"{write_name(graph.entities[other])}/{hop}"

    def hops(entity: int, number: int) -> str:
        names = []
        for _ in range(number):
            each, entity = step(entity)
            names.append(str(Hop(*graph.relation_name(each))))
        return "/".join(names)

    with_facts = np.flatnonzero(np.diff(first))
    found: dict[str, None] = {}
    for number in range(count):
        entity = int(rng.choice(with_facts))
        pair = f"{into(entity)} {'&|'[number % 2]} {into(entity)}"
        kind = number % 6
        text = f"{write_name(graph.entities[entity])}/{hops(entity, kind + 1)}" if kind < 3 else pair
        found[f"({pair})/{hops(entity, 1)}" if kind == 5 else text] = None
    return [post("/api/v1/ask", json.dumps({"query": text}).encode()) for text in found]


def sparql(run: Path, count: int = 20_000) -> list[bytes]:
    """The one-hop questions in SPARQL, for the ten best."""
    from blockhole.files.rdf import node_terms, relation_terms
    from blockhole.queries.walks import sample_walks
    from blockhole.runs.run import Run

    graph = Run.open(run).graph
    names = [graph.relation_name(each) for each in range(2 * graph.num_relations)]
    hops = ["^" * inverse + relation_terms([name])[0] for name, inverse in names]
    walks = sample_walks(graph, count, lengths=(1, 1), seed=0)
    sources = node_terms([graph.entities[each] for each in walks.source.tolist()], [True] * len(walks))
    asked = dict.fromkeys(zip(sources, walks.path[:, 0].tolist(), strict=True))
    texts = [f"SELECT ?x ?probability {{ {source} {hops[each]} ?x }} LIMIT 10" for source, each in asked]
    return [post("/sparql", text.encode(), "application/sparql-query") for text in texts]


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}")
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def figures(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Answers a second, and percentiles of the time they took."""
    status, taken = np.array(outcome.status), 1000 * np.array(outcome.taken)
    good = taken[status == 200]
    p50, p99 = np.percentile(good, [50, 99]) if len(good) else (float("nan"), float("nan"))
    return {
        "answers_per_second": round(len(good) / seconds, 1),
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
        "max_ms": round(float(taken.max()), 1),
        "statuses": {str(code): count for code, count in sorted(Counter(outcome.status).items())},
    }


def steady(server: Server, bodies: list[bytes], seconds: float) -> dict[str, Any]:
    drive(Load(server.port, bodies[::-1], CONNECTIONS, min(5, seconds)))
    resident, used = server.resident(), server.processor_seconds()
    outcome = drive(Load(server.port, bodies, CONNECTIONS, seconds))
    spent = server.processor_seconds() - used
    return figures(outcome, seconds) | {
        "different_questions": len(bodies),
        "server_ms_per_answer": round(1000 * spent / max(len(outcome.status), 1), 3),
        "connections": CONNECTIONS,
        "seconds": seconds,
        "server_processors": round(spent / seconds, 2),
        "client_processors": round(outcome.processor_seconds / seconds, 2),
        "resident_start_mib": round(resident / 2**20, 1),
        "resident_end_mib": round(server.resident() / 2**20, 1),
        "resident_change_percent": round(100 * (server.resident() / resident - 1), 2),
    }


def overload(server: Server, bodies: list[bytes], seconds: float) -> dict[str, Any]:
    """Four times the requests that the server can answer, then the usual ones again: when is all as before?"""
    carries = figures(drive(Load(server.port, bodies, CONNECTIONS, 5)), 5)["answers_per_second"]
    connections = 1000 - CONNECTIONS
    crowd = Load(server.port, bodies, connections, seconds, every=connections / (4 * carries))
    outcome = drive(crowd)
    ended = monotonic()
    after = drive(Load(server.port, bodies, CONNECTIONS, 8))
    bad = [sent + took for sent, took, status in zip(*after[:3], strict=True) if status != 200 or took > 0.25]
    return figures(outcome, seconds) | {
        "carries_per_second": carries,
        "offered_per_second": round(len(outcome.status) / seconds, 1),
        "connections": connections,
        "recovered_after_s": round(max(0.0, max(bad, default=ended) - ended), 2),
        "afterwards": figures(after, 8),
    }


def kill(run: Path, bodies: list[bytes]) -> dict[str, Any]:
    """kill -9 under load, then a start with the same command."""
    files = {path.name: path.read_bytes() for path in run.iterdir()}
    with served(run) as server, clients(Load(server.port, bodies, CONNECTIONS, 4)) as answer:
        sleep(2)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        answer.recv()
    began = monotonic()
    with served(run, server.port) as again:
        ready = monotonic() - began
        after = drive(Load(again.port, bodies, CONNECTIONS, 3))
    return {
        "ready_after_kill_s": round(ready, 2),
        "files_unchanged": files == {path.name: path.read_bytes() for path in run.iterdir()},
        "after_kill": figures(after, 3),
    }


def reload(server: Server, run: Path, bodies: list[bytes]) -> dict[str, Any]:
    """Reloads one after the other under load."""
    from urllib.request import Request, urlopen

    count, times = 5, []
    with clients(Load(server.port, bodies, CONNECTIONS, 15)) as answer:
        sleep(3)
        for _ in range(count):
            began = monotonic()
            with urlopen(
                Request(f"http://127.0.0.1:{server.port}/api/v1/runs/{run.name}/reload", method="POST")
            ) as response:
                assert response.status == 200
            times.append(monotonic() - began)
        outcome: Outcome = answer.recv()
    failed = sum(status != 200 for status in outcome.status)
    return {"reloads": count, "failed_requests": failed, "slowest_reload_s": round(max(times), 2)} | figures(
        outcome, 15
    )


def random_run(folder: Path) -> Path:
    from benchmarks.bench_ask import ENTITIES, RELATIONS, SETTINGS, random_graph, write_run
    from blockhole.models.catalogue import build_model

    folder.mkdir()
    write_run(folder, build_model(SETTINGS, ENTITIES, RELATIONS, seed=0), random_graph())
    return folder


def measure(run: Path, seconds: float, parts: set[str]) -> dict[str, Any]:
    report: dict[str, Any] = {"model": "random" if run.name == "random" else run.name, "processors": os.cpu_count()}
    with served(run) as server:
        if "one_hop" in parts:
            report["one_hop"] = steady(server, asks(run, 200_000, lengths=(1, 1)), seconds)
        if "mixed" in parts:
            report["mixed"] = steady(server, mixed(run), seconds)
        if "sparql" in parts:
            report["sparql"] = steady(server, sparql(run), seconds)
        bodies = asks(run)
        if "overload" in parts:
            report["overload"] = overload(server, bodies, min(20, seconds))
        if "reload" in parts:
            report["reload"] = reload(server, run, bodies)
    if "kill" in parts:
        report["kill"] = kill(run, bodies)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--parts", default=",".join(PARTS))
    arguments = parser.parse_args()
    parts = set(arguments.parts.split(","))
    if parts - set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or random_run(Path(folder) / "random")
        report = measure(run, arguments.seconds, parts)
    print(json.dumps(report, indent=1))
    if parts == set(PARTS):
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
