"""What the explorer costs a browser: `python -m benchmarks.bench_page RUN [--package FOLDER]`.

Starts a server over RUN, opens a query in chromium with nothing cached and then again, and prints one JSON object:
requests and bytes until the page was at rest, milliseconds until the first answer is on the screen and from the arrival
of the answers to that, and how long a frame of the graph takes when it is full. `--package` is the folder src of
another version, such as of a git worktree, which is then measured instead.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import BrowserContext

from benchmarks.launching import browsing, serving

QUERY = "William/^fatherOf/brotherOf/fatherOf"
WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector(".answer")) return;
  watch.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.firstAnswer = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--package", type=Path, help="the folder src of another version")
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    with serving([arguments.run], arguments.package) as url, browsing() as browser:
        first, again = [], []
        for _ in range(arguments.times):
            with browser.new_context() as context:
                first.append(visit(context, url))
                again.append(visit(context, url))
        with browser.new_context() as context:
            frames = graph_frames(context, url)
    print(json.dumps({"first visit": summary(first), "second visit": summary(again), "graph": frames}, indent=1))


def visit(context: BrowserContext, url: str) -> dict[str, float]:
    """One visit, from the address to rest."""
    page = context.new_page()
    page.add_init_script(WATCH)
    sizes: list[tuple[str, int]] = []
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    urls: dict[str, str] = {}
    devtools.on("Network.requestWillBeSent", lambda event: urls.update({event["requestId"]: event["request"]["url"]}))
    devtools.on(
        "Network.loadingFinished",
        lambda event: sizes.append((urls.get(event["requestId"], ""), int(event["encodedDataLength"]))),
    )
    page.goto(f"{url}?{urlencode({'q': QUERY, 'candidates': 'all'})}")
    page.locator(".answer").first.wait_for()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(200)
    drawn = page.evaluate("window.firstAnswer")
    asks = "performance.getEntriesByType('resource').filter(each => each.name.endsWith('/ask'))"
    arrived = page.evaluate(f"Math.min(...{asks}.map(each => each.responseEnd))")
    page.close()
    sent = [(name, size) for name, size in sizes if size > 0]
    return {
        "requests": len(sent),
        "bytes": sum(size for _, size in sent),
        "requests for files": sum("/api/" not in name for name, _ in sent),
        "bytes of files": sum(size for name, size in sent if "/api/" not in name),
        "first answer ms": drawn,
        "drawn after arrival ms": drawn - arrived,
    }


def summary(visits: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(each[name] for each in visits), 1) for name in visits[0]}


def graph_frames(context: BrowserContext, url: str) -> dict[str, float] | None:
    """Milliseconds of a frame of the graph, opened until it has 500 nodes or no more come; None without one."""
    page = context.new_page()
    page.goto(f"{url}?{urlencode({'entity': 'London'})}")
    page.wait_for_load_state("networkidle")
    if page.locator(".graph-drawing").count() == 0:
        return None
    page.get_by_text("The same as a list").click()
    for _ in range(60):
        if page.locator(".graph-drawing g > g").count() >= 490 or page.locator(".graph-list button").count() == 0:
            break
        page.evaluate("[...document.querySelectorAll('.graph-list button')].slice(0, 5).forEach(b => b.click())")
        page.wait_for_timeout(300)
    found: dict[str, Any] = page.evaluate(
        """() => new Promise(done => {
            const times = [];
            let last = performance.now();
            document.querySelector('.graph-list button')?.click();
            const tick = now => {
                times.push(now - last);
                last = now;
                if (times.length < 60) requestAnimationFrame(tick);
                else done({ nodes: document.querySelectorAll('.graph-drawing g > g').length,
                            "median frame ms": times.sort((a, b) => a - b)[30], "slowest frame ms": times.at(-1) });
            };
            requestAnimationFrame(tick);
        })"""
    )
    return {name: round(value, 1) for name, value in found.items()}


if __name__ == "__main__":
    main()
