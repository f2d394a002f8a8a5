"""A server under siege: `make siege SECONDS=60 ROUNDS=1`, or python -m benchmarks.siege [--run FOLDER] [--seconds 60].

64 honest connections ask as fast as they are answered, while others of every hostile kind do what they can: leave
responses unread, send a byte a second, come from a page of another site, guess the key, send bodies without end, or
send what is no HTTP. Prints one JSON object: what the honest ones saw, what the hostile ones got, and how large the
server was before and after each round. It fails where an honest request fails, or a hostile one gets an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, NamedTuple

from benchmarks.bench_serve import CONNECTIONS, Load, asks, clients, figures, post, random_run, served

KEY = "honest clients know this key and nobody else".replace(" ", "-")
_OF_EACH_KIND = 20
"""Hostile connections of each kind at a time."""
_PAUSE = 0.02
"""Seconds between two attacks of a connection: the clients have to leave the server some of the processors."""

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Random, float], Awaitable[str]]


class Siege(NamedTuple):
    """Where to attack and for how long, and an honest request to distort."""

    port: int
    seconds: float
    request: bytes


def with_header(request: bytes, *lines: bytes) -> bytes:
    """A request with these headers before its own."""
    first, _, rest = request.partition(b"\r\n")
    return b"\r\n".join((first, *lines, rest))


async def _status(reader: asyncio.StreamReader) -> str:
    """The status of a response; `closed` where there is none."""
    line = await reader.readline()
    return line[9:12].decode() or "closed"


def _sends(make: Callable[[Random], bytes]) -> Attack:
    """An attack that sends one request and looks at the status."""

    async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: Random, end: float) -> str:
        writer.write(make(rng))
        await writer.drain()
        return await _status(reader)

    return attack


def attacks(request: bytes) -> dict[str, Attack]:
    """Every kind of attack by name; what each may get stands in `ALLOWED`."""
    known = b"Authorization: Bearer " + KEY.encode()
    head, _, body = request.partition(b"\r\n\r\n")
    large = post("/api/v1/ask", json.dumps({**json.loads(body), "top": 1000, "candidates": "all"}).encode())

    async def slow_reader(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: Random, end: float) -> str:
        """One with the key, so that there is much to leave unread."""
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(with_header(large, known) * 200)
        await asyncio.sleep(max(0.0, min(40.0, end - monotonic())))
        return "unread"

    async def slow_sender(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: Random, end: float) -> str:
        for byte in with_header(request, known):
            writer.write(bytes([byte]))
            await asyncio.sleep(1.0)
            if writer.is_closing() or reader.at_eof() or monotonic() > end:
                break
        return await asyncio.wait_for(_status(reader), 2) if monotonic() < end else "unfinished"

    async def endless_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: Random, end: float) -> str:
        chunked = head.replace(f"Content-Length: {len(body)}".encode(), b"Transfer-Encoding: chunked")
        writer.write(with_header(chunked, known) + b"\r\n\r\n")
        for _ in range(64):
            writer.write(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
            await writer.drain()
        return await _status(reader)

    def guess(rng: Random) -> bytes:
        scheme = rng.choice((b"Authorization: Bearer ", b"X-API-Key: ", b"Authorization: Basic "))
        return with_header(request, scheme + rng.choice((b"", KEY.encode()[:-1], rng.randbytes(20).hex().encode())))

    def rebound(rng: Random) -> bytes:
        if rng.random() < 0.5:
            return with_header(request.replace(b"Host: localhost", b"Host: evil.example"), known)
        return with_header(request, known, b"Origin: http://evil.example")

    def malformed(rng: Random) -> bytes:
        whole = with_header(request, known)
        cut = rng.randrange(20)
        return rng.choice((
            rng.randbytes(200) + b"\r\n\r\n",
            whole[:cut] + b"\0\r\n" + whole[cut:],
            b"GET / HTTP/9.9\r\n\r\n",
            with_header(request, b"no header at all"),
            with_header(request, b"Content-Length: 5", b"Content-Length: 6"),
        ))  # fmt: skip

    return {
        "slow readers": slow_reader,
        "slow senders": slow_sender,
        "rebinding": _sends(rebound),
        "wrong keys": _sends(guess),
        "oversized": _sends(lambda rng: with_header(head.replace(b"Length: ", b"Length: 9999"), known) + b"\r\n\r\n"),
        "endless bodies": endless_body,
        "malformed": _sends(malformed),
    }


ALLOWED = {
    "slow readers": {"unread"},
    "slow senders": {"408", "unfinished"},
    "rebinding": {"421", "403"},
    "wrong keys": {"401"},
    "oversized": {"413"},
    "endless bodies": {"413"},
    "malformed": {"400", "401"},
}
"""What a hostile connection may get; or it finds itself closed."""


async def _attack(siege: Siege, kind: str, number: int, end: float, got: Counter[str]) -> None:
    rng = Random(f"{kind}/{number}")
    act = attacks(siege.request)[kind]
    while monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", siege.port)
            try:
                got[f"{kind}: {await act(reader, writer, rng, end)}"] += 1
            finally:
                writer.close()
        except (OSError, TimeoutError):
            got[f"{kind}: closed"] += 1
        await asyncio.sleep(_PAUSE)


async def _besiege(siege: Siege) -> Counter[str]:
    got: Counter[str] = Counter()
    end = monotonic() + siege.seconds
    await asyncio.gather(*(_attack(siege, kind, i, end, got) for kind in ALLOWED for i in range(_OF_EACH_KIND)))
    return got


def _besiegers(siege: Siege, answer: Any) -> None:
    import uvloop

    answer.send(uvloop.run(_besiege(siege)))


def measure(run: Path, seconds: float, rounds: int) -> dict[str, Any]:
    """What honest and hostile clients saw; over several rounds, whether the server stops growing."""
    os.environ["BLOCKHOLE_API_KEY"] = KEY
    bodies = asks(run)
    honest = [with_header(body, b"Authorization: Bearer " + KEY.encode()) for body in bodies]
    context = get_context("spawn")
    outcomes, got = [], Counter[str]()
    with served(run) as server:
        resident = [server.resident()]
        for _ in range(rounds):
            answer, sender = context.Pipe(duplex=False)
            hostile = context.Process(target=_besiegers, args=(Siege(server.port, seconds, bodies[0]), sender))
            hostile.start()
            try:
                with clients(Load(server.port, honest, CONNECTIONS, seconds)) as seen:
                    outcomes.append(seen.recv())
                got += answer.recv()
            finally:
                hostile.kill()
            resident.append(server.resident())
    outcome = outcomes[-1]
    kinds = {each: each.split(": ") for each in got}
    wrong = {each: got[each] for each, (kind, status) in kinds.items() if status not in {*ALLOWED[kind], "closed"}}
    return {
        "seconds": seconds,
        "rounds": rounds,
        "honest_connections": CONNECTIONS,
        "honest_requests": sum(len(each.status) for each in outcomes),
        "honest_errors": sum(status != 200 for each in outcomes for status in each.status),
        "honest": figures(outcome, seconds),
        "hostile_connections": _OF_EACH_KIND * len(ALLOWED),
        "hostile_attacks": sum(got.values()),
        "hostile": dict(sorted(got.items())),
        "hostile_that_got_something": wrong,
        "resident_mib": [round(each / 2**20, 1) for each in resident],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(arguments.run or random_run(Path(folder) / "random"), arguments.seconds, arguments.rounds)
    print(json.dumps(report, indent=1))
    return int(report["honest_errors"] > 0 or bool(report["hostile_that_got_something"]))


if __name__ == "__main__":
    sys.exit(main())
