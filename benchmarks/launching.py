"""Programs that benchmarks start: workers, alone or by torchrun, a server, a browser; and which source is measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BLOCKHOLE = (sys.executable, "-c", "from blockhole.cli.main import main; main()")


def figures_of(worker: Sequence[str], processes: int | None = None) -> Any:
    """What the module worker[0], given the rest as arguments, prints as JSON last; `processes` absent: no torchrun.

    Each process has one thread.
    """
    together = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    done = subprocess.run(
        [sys.executable, *(together if processes else []), "-m", *worker],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def commit() -> str:
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


@contextmanager
def serving(runs: Sequence[Path], package: Path | None = None) -> Iterator[str]:
    """The address of a server over `runs`, which ends with the block; `package` is another version's folder src."""
    environment = os.environ | ({} if package is None else {"PYTHONPATH": str(package.resolve())})
    command = [*BLOCKHOLE, "serve", *map(str, runs), "--port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            raise SystemExit(f"the server did not start; try: {' '.join(command)}")
        try:
            yield str(json.loads(line)["url"])
        finally:
            server.terminate()


@contextmanager
def browsing() -> Iterator[Browser]:
    """The system's chromium, without its own traffic."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium on this machine; install it, such as with: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield browser
        browser.close()
