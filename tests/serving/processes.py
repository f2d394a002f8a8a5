"""Server processes as operators start them, and what tests ask them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

_COMMAND = "from blockhole.cli.main import main; main()"
_WITH_SETTINGS = """
import json, sys
from pathlib import Path
from blockhole.serving.server import serve
from blockhole.serving.settings import ServerSettings

def announce(url, names):
    print(json.dumps({"url": url, "runs": names}), flush=True)

serve([Path(run) for run in sys.argv[2:]], "127.0.0.1", 0, ServerSettings(**json.loads(sys.argv[1])), announce)
"""


class ServerProcess(NamedTuple):
    process: subprocess.Popen[str]
    url: str
    log: Path

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def client(self, **headers: str) -> httpx.Client:
        # Certificates are never looked at over loopback, and reading them takes longer than most tests.
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=False)

    def log_lines(self) -> list[dict[str, Any]]:
        whole, _, _ = self.log.read_text(encoding="utf-8").rpartition("\n")  # the last line may be on its way
        return [json.loads(line) for line in whole.splitlines()]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def serving(log: Path, *arguments: object) -> Iterator[ServerProcess]:
    """`blockhole serve` with these arguments, ready."""
    with _running(log, [sys.executable, "-c", _COMMAND, "serve", *map(str, arguments), "--json"]) as server:
        yield server


@contextmanager
def serving_with(log: Path, *runs: Path, before: str = "", **settings: object) -> Iterator[ServerProcess]:
    """A server with settings that the command line does not have, such as little patience; it does `before` first."""
    with _running(
        log, [sys.executable, "-c", before + _WITH_SETTINGS, json.dumps(settings), *map(str, runs)]
    ) as server:
        yield server


@contextmanager
def _running(log: Path, command: list[str]) -> Iterator[ServerProcess]:
    environment = {name: value for name, value in os.environ.items() if name != "BLOCKHOLE_API_KEY"}
    with (
        log.open("a", encoding="utf-8") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text(encoding="utf-8")
            yield ServerProcess(process, json.loads(line)["url"], log)
        finally:
            process.kill()
