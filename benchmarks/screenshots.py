"""Pictures of the explorer, of a real server in a real browser: `python -m benchmarks.screenshots RUN RUN`.

The first run answers, the second stands beside it; both are runs of `blockhole demo`. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal, final
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page

from benchmarks.launching import browsing, serving

FOLDER = Path(__file__).parent / "results" / "screenshots"
COUSINS = "William/^fatherOf/brotherOf/fatherOf"
BROTHERS = "William/brotherOf/^fatherOf/fatherOf"
LARGEST = 200_000  # bytes: pictures stay in the repository's history


@final
@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: what the page shows, how large, in which colours; `typed` goes into the query box."""

    name: str
    place: dict[str, str]
    theme: Literal["light", "dark"] = "light"
    width: int = 1200
    height: int = 800
    typed: str | None = None


def shots(other: str) -> list[Shot]:
    """The main views; `other` is the name of the second run."""
    asked = {"q": COUSINS, "candidates": "all"}
    return [
        Shot("welcome", {}),
        Shot("build", {"q": f"{COUSINS} & London/^bornIn"}, height=900),
        Shot("suggestions", {}, typed="William/brotherOf/"),
        Shot("answers-dark", {"q": BROTHERS, "candidates": "all"}, theme="dark"),
        Shot("chains", {**asked, "answer": "Beatrice"}, height=920),
        Shot("chains-dark", {**asked, "answer": "Beatrice"}, theme="dark", height=920),
        Shot("side-by-side", {**asked, "versus": other}, height=960),
        Shot("entity", {"entity": "Elizabeth"}, height=1000),
        Shot("connect", {"entity": "William", "to": "Beatrice"}, height=1360),
        Shot("relation", {"relation": "fatherOf"}, height=1420),
        Shot("run", {"page": "run"}, height=1000),
        Shot("map", {"page": "map"}, height=1000),
        Shot("mistake", {"q": "William/^fatherof/brotherOf"}, height=460),
        Shot("phone", {**asked, "answer": "Beatrice"}, width=390, height=844),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    sizes = {}
    with serving(arguments.runs) as url, browsing() as browser:
        for shot in shots(arguments.runs[1].name):
            file = arguments.out / f"{shot.name}.png"
            take(browser, url, shot, file)
            sizes[file.name] = file.stat().st_size
            if sizes[file.name] > LARGEST:
                raise SystemExit(f"{file} has {sizes[file.name]:,} bytes, more than {LARGEST:,}")
    print(json.dumps({"folder": str(arguments.out), "bytes": sizes}))


def take(browser: Browser, url: str, shot: Shot, file: Path) -> None:
    phone = shot.width < 600
    with browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme=shot.theme,
        reduced_motion="reduce",  # the graph is then at rest at once
        device_scale_factor=2 if phone else 1.5,
        is_mobile=phone,
        has_touch=phone,
    ) as context:
        page = context.new_page()
        page.goto(f"{url}?{urlencode(shot.place)}")
        settle(page)
        if shot.typed is not None:
            page.get_by_role("button", name="Text", exact=True).click()
            page.locator("#query").press_sequentially(shot.typed, delay=5)
            page.get_by_role("listbox").get_by_role("option").first.wait_for()
            page.keyboard.press("ArrowDown")
        picture = Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(
        file, optimize=True
    )  # a third of the bytes, and no visible change


def settle(page: Page) -> None:
    """Wait until what was asked for is there."""
    page.locator("#view:not([aria-busy]) > *").first.wait_for(state="attached")
    page.wait_for_load_state("networkidle")
    page.locator("progress:visible").wait_for(state="detached", timeout=120_000)
    page.wait_for_load_state("networkidle")
    page.evaluate("Promise.allSettled(document.getAnimations().map(each => each.finished))")


if __name__ == "__main__":
    main()
