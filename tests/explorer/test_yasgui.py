"""YASGUI, a page that many ask SPARQL with, from npm and on a site of its own, which a server has to allow."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import final
from urllib.parse import urlsplit

import pytest
from filelock import FileLock
from playwright.sync_api import Browser, Page, Route, expect

import blockhole
from blockhole.answering.sparql.results import Solutions
from tests.explorer.browser import opened
from tests.serving.processes import ServerProcess, serving

pytestmark = pytest.mark.slow

YASGUI = "@zazuko/yasgui@4.6.2"
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>YASGUI</title>
<link rel="stylesheet" href="yasgui.min.css">
<div id="yasgui"></div>
<script src="yasgui.min.js"></script>
<script>
  const endpoint = new URLSearchParams(location.search).get("endpoint")
  new Yasgui(document.getElementById("yasgui"), { requestConfig: { endpoint }, persistenceId: null })
</script>
"""
QUERY = "SELECT ?x ?probability ?status WHERE { <urn:blockhole:number%203> <urn:blockhole:double> ?x } LIMIT 3"


@pytest.fixture(scope="module")
def package(request: pytest.FixtureRequest) -> Path:
    """The files of YASGUI's package, fetched by npm once and kept with pytest's cache."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm on this machine, which YASGUI comes from")
    assert request.config.cache is not None
    folder = request.config.cache.mkdir("yasgui")
    built = folder / YASGUI.rpartition("@")[2] / "package" / "build"
    with FileLock(folder / "lock"):
        if not built.exists():
            command = [npm, "pack", "--silent", "--pack-destination", str(folder), YASGUI]
            packed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split()[-1]
            with tarfile.open(folder / packed) as archive:
                archive.extractall(built.parent.parent, filter="data")
    return built


@final
class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The origin of another site, which has YASGUI."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("yasgui.min.js", "yasgui.min.css"):
        shutil.copy(package / name, folder)
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def allowing(runs: list[Path], site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that pages of that site may ask."""
    log = tmp_path_factory.mktemp("allowing") / "log"
    with serving(log, runs[0], "--port", 0, "--cors-origin", site) as server:
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that asks nobody but this machine: YASGUI would look up prefixes elsewhere."""

    def stay(route: Route) -> None:
        if urlsplit(route.request.url).hostname == "127.0.0.1":
            route.continue_()
        else:
            route.abort()

    with opened(browser) as profile:
        page = profile.new_page()
        page.route("**/*", stay)
        yield page


def _ask(page: Page, site: str, server: str, query: str) -> None:
    """Type a query into the editor, and press the button that sends it."""
    page.goto(f"{site}/?endpoint={server}sparql")
    page.locator(".yasqe .CodeMirror").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(query)
    page.locator(".yasqe_queryButton").click()


def test_it_shows_predicted_answers(page: Page, site: str, allowing: ServerProcess, runs: list[Path]) -> None:
    _ask(page, site, allowing.url, QUERY)
    rows = page.locator(".yasr_results table tbody tr")
    expected = blockhole.sparql(runs[0], QUERY)
    assert isinstance(expected, Solutions)
    assert len(expected) == 3
    expect(rows).to_have_count(3)
    for row, solution in zip(rows.all(), expected, strict=True):
        expect(row).to_contain_text((solution.terms[0] or "")[1:-1])
        expect(row).to_contain_text(solution.status)


def test_it_shows_what_is_wrong_with_a_query(page: Page, site: str, allowing: ServerProcess) -> None:
    _ask(page, site, allowing.url, "SELECT ?x WHERE { <urn:blockhole:nobody> <urn:blockhole:double> ?x }")
    expect(page.locator(".yasr_results")).to_contain_text("nobody")


def test_a_server_that_does_not_allow_its_site_tells_it_nothing(page: Page, site: str, url: str) -> None:
    _ask(page, site, url, QUERY)
    expect(page.locator(".yasr_results")).to_contain_text("Failed to fetch")
    expect(page.locator(".yasr_results table tbody tr")).to_have_count(0)
