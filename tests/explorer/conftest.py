"""One `blockhole serve` process for all tests of the explorer, and a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.explorer.browser import CHROMIUM, Visit, launch, opened, visiting
from tests.explorer.world import NAMES, make_runs
from tests.serving.processes import serving
from tests.workers import made_once


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders of the runs of `world`."""
    folder = made_once(tmp_path_factory, "explorer", make_runs)
    return [folder / name for name in NAMES]


@pytest.fixture(scope="session")
def url(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over all of them."""
    with serving(tmp_path_factory.mktemp("server") / "log", *runs, "--port", 0) as server:
        yield server.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for a file of tests: its event loop must not outlive them, or others could start none of their own."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as playwright, launch(playwright) as browser:
        yield browser


@pytest.fixture(scope="module")
def profile(browser: Browser, url: str) -> Iterator[BrowserContext]:
    """A profile for a file of tests: one for each would start a process and read the page's files again.

    The page that stays open keeps the process of the others.
    """
    with opened(browser) as context:
        context.new_page().goto(urljoin(url, "static/icon.svg"))
        yield context


@pytest.fixture
def visit(profile: BrowserContext, url: str) -> Iterator[Visit]:
    """A page in a profile that remembers nothing; when the test ends, nothing may have gone wrong behind it."""
    with visiting(profile, url) as visit:
        yield visit


@pytest.fixture(scope="session")
def family_url(family_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over the royal family; maps are written beside a copy of the run."""
    folder = tmp_path_factory.mktemp("family") / "family"
    shutil.copytree(family_run, folder)
    with serving(folder.with_name("log"), folder, "--port", 0) as server:
        yield server.url


@pytest.fixture
def family(profile: BrowserContext, family_url: str) -> Iterator[Visit]:
    """A page over the royal family, where queries are built by clicking."""
    with visiting(profile, family_url, "build") as visit:
        yield visit


@pytest.fixture
def building(profile: BrowserContext, url: str) -> Iterator[Visit]:
    """A page over the awkward names, where queries are built by clicking."""
    with visiting(profile, url, "build") as visit:
        yield visit
