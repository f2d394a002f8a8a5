"""A browser that watches: what a page logs and asks for is kept, so that every test can say that nothing was amiss."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Literal, final
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Playwright, Route, expect

Theme = Literal["light", "dark"]
Way = Literal["build", "text", "sparql"]
THEMES: tuple[Theme, ...] = ("light", "dark")

PATIENCE = 30_000
"""Milliseconds that anything may take: a busy machine is no failure."""
expect.set_options(timeout=PATIENCE)

# Chains are drawn once their width is known, which is at the end of a frame: the second one has seen it.
TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def launch(playwright: Playwright) -> Browser:
    """The system's chromium, without its own traffic, and without a GPU that software would have to imitate."""
    return playwright.chromium.launch(
        executable_path=CHROMIUM,
        args=["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--disable-software-rasterizer"],
        timeout=4 * PATIENCE,
    )


@final
class Visit:
    """A page of the explorer; `refused` names the questions that the server is expected to refuse, such as ask.

    Queries are written as `way` says, until the page is told otherwise.
    """

    def __init__(self, page: Page, url: str, way: Way = "text") -> None:
        self.page = page
        page.add_init_script(
            f"if (!localStorage.getItem('blockhole.way')) localStorage.setItem('blockhole.way', '{way}')"
        )
        self.url = url
        self.refused: set[str] = set()
        self.tolerated = {"searches"}  # a search that has just ended is not there to be asked about
        self.refusals: set[str] = set()
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def open(self, **place: str) -> Visit:
        """Go to a place, such as open(q="a/b", run="complex"), and wait until the page listens to keys and clicks."""
        self.page.goto(f"{self.url}?{urlencode(place)}")
        self.page.locator("#run option").first.wait_for(state="attached")
        return self

    def settle(self) -> None:
        """Wait until the page shows what it was asked for, and nothing moves."""
        self.page.locator("#view:not([aria-busy]) > *").first.wait_for(state="attached")
        expect(self.page.locator("[aria-busy]")).to_have_count(0)
        self.page.evaluate(TWO_FRAMES)
        self.page.evaluate("Promise.allSettled(document.getAnimations().map(each => each.finished))")

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("combobox", name="Query")

    @property
    def options(self) -> Locator:
        return self.page.get_by_role("listbox").get_by_role("option")

    def start(self, name: str) -> None:
        """Choose where a query starts: type a name and click it."""
        self.page.get_by_role("combobox", name="Start at").fill(name)
        self.page.get_by_role("option", name=name, exact=True).first.click()

    def offer(self, words: str) -> Locator:
        """A relation that one click follows, in words."""
        return self.page.locator(".offer").filter(has_text=re.compile(f"^{re.escape(words)}, (?!backwards)"))

    @property
    def chips(self) -> Locator:
        return self.page.locator(".chip")

    def saved(self, button: Locator) -> str:
        """The text of the file that a button saves."""
        with self.page.expect_download() as download:
            button.click()
        return download.value.path().read_text(encoding="utf-8")

    @property
    def answers(self) -> Locator:
        return self.page.locator(".answer")

    @property
    def is_dark(self) -> bool:
        return bool(self.page.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.slice(4)) < 100"))

    @property
    def alert(self) -> Locator:
        return self.page.get_by_role("alert")

    def check(self) -> None:
        """Nothing logged an error, only what was expected was refused, and no other host was asked for anything."""
        assert self.complaints == [], self.complaints
        assert self.refusals == self.refused, self.refusals
        assert self.hosts == {urlsplit(self.url).netloc}, self.hosts

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        path = urlsplit(message.location["url"]).path
        if message.text.startswith("Failed to load resource") and path.startswith("/api/v1/"):
            name = path.removeprefix("/api/v1/").partition("/")[0]
            if name not in self.tolerated:
                self.refusals.add(name)  # the browser itself logs every answer of 400 and above
        else:
            self.complaints.append(f"{message.type}: {message.text}")


@final
class Held:
    """Requests that wait: as if the server were slow, for just as long as a test wants it to be."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page = page
        self._routes: list[Route] = []
        self._is_open = False
        page.route(pattern, self._meet)

    def wait(self) -> None:
        """Wait until a request does."""
        end = monotonic() + PATIENCE / 1000
        while not self._routes:
            assert monotonic() < end, "there was no request"
            self._page.wait_for_timeout(10)

    def let_others_pass(self) -> None:
        """Hold what waits, and nothing that comes after it."""
        self._is_open = True

    def release(self) -> None:
        """Let everything go."""
        self._is_open = True
        for route in self._routes:
            route.continue_()

    def refuse(self, status: int, kind: str, message: str) -> None:
        """Answer everything that waits with a failure."""
        error: dict[str, object] = {"kind": kind, "message": message, "place": None, "nearest": [], "mended": []}
        for route in self._routes:
            route.fulfill(status=status, body=json.dumps({"error": error, "request_id": "1"}))

    def _meet(self, route: Route) -> None:
        if self._is_open:
            route.continue_()
        else:
            self._routes.append(route)


@contextmanager
def opened(browser: Browser, *, width: int = 1200, theme: Theme = "light") -> Iterator[BrowserContext]:
    """A fresh profile."""
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme) as context:
        context.set_default_timeout(PATIENCE)
        yield context


@contextmanager
def visiting(profile: BrowserContext, url: str, way: Way = "text") -> Iterator[Visit]:
    """A visit, checked when it ends; the profile then forgets what the page has kept, and closes what was opened."""
    before = set(profile.pages)
    visit = Visit(profile.new_page(), url, way)
    try:
        yield visit
        visit.check()
    finally:
        profile.set_offline(False)
        for page in set(profile.pages) - before:
            if page.url.startswith(url):
                page.evaluate("localStorage.clear()")
            page.close()
