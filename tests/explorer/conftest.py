"""One `blockhole serve` process for all tests of the explorer, and a real browser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.explorer.browser import CHROMIUM, Visit, launch, visiting
from tests.explorer.world import make_runs


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over the runs of `world`."""
    folder = tmp_path_factory.mktemp("explorer")
    blockhole = Path(sys.executable).with_name("blockhole")
    command = [str(blockhole), "serve", *map(str, make_runs(folder)), "--port", "0", "--json"]
    with (
        (folder / "server.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, (folder / "server.log").read_text()
        try:
            yield str(json.loads(line)["url"])
        finally:
            server.terminate()


# A browser a module: its event loop must not outlive the tests here, or others could start none of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as playwright, launch(playwright) as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Visit]:
    """A page with a fresh profile; when the test ends, nothing may have gone wrong behind it."""
    with visiting(browser, url) as visit:
        yield visit
