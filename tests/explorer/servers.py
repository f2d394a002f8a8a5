"""`blockhole serve` as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(runs: Sequence[Path], api_key: str | None = None) -> Iterator[str]:
    """The address of a server over `runs`, which ends with the block."""
    command = [str(Path(sys.executable).with_name("blockhole")), "serve", *map(str, runs), "--port", "0", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "BLOCKHOLE_API_KEY"}
    if api_key is not None:
        environment["BLOCKHOLE_API_KEY"] = api_key
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as server,
    ):
        assert server.stdout is not None
        line = server.stdout.readline()
        log.seek(0)
        assert line, log.read()
        try:
            yield str(json.loads(line)["url"])
        finally:
            server.terminate()
