"""Two runs side by side, entity pages, names with markup, narrow screens, colours."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.explorer.browser import PATIENCE, THEMES, TWO_FRAMES, Theme, Visit, Way, opened, visiting
from tests.explorer.world import ARABIC, BOLD, BY_FACTS, HUB, IMAGE, LONG, SCRIPT, SPOKES
from tests.serving.processes import serving
from tests.serving.random_run import write_random_run

QUERY = '"number 7"/next/double'
OUTSIDE = """[...document.querySelectorAll("header *, main *")]
    .filter(each => !each.closest(".layers, .graph-drawing, .offers, .unseen, .skip"))
    .filter(each => each.getBoundingClientRect().left < 0 || each.getBoundingClientRect().right > innerWidth + 0.5)
    .map(each => each.outerHTML.slice(0, 200))"""
"""What the screen cuts off; the drawing may, since it scrolls by itself."""
PLACES: dict[str, dict[str, str]] = {
    "welcome": {},
    "answers": {"q": QUERY, "top": "25"},
    "reason": {"q": QUERY, "answer": "number 16"},
    "long name": {"q": f"{LONG}/next/next", "answer": "number 4"},
    "intersection": {"q": '"number 7"/next & "number 9"/^next', "answer": "number 8"},
    "negation": {"q": '"number 7"/next & !"number 7"/next/next', "answer": "number 8"},
    "union": {"q": '"number 3"/next/double | "number 7"/next', "answer": "number 8"},
    "two runs": {"q": QUERY, "versus": "complex", "answer": "number 16"},
    "entity": {"entity": HUB},
    "connection": {"entity": "number 7", "to": "number 9"},
    "right to left": {"q": f'"{ARABIC}"/next', "answer": "number 4"},
    "relation": {"relation": "next"},
    "run": {"page": "run"},
    "map": {"page": "map"},
    "markup": {"entity": SCRIPT},
    "long entity": {"entity": LONG},
    "nothing": {"q": '"remainder/1"/next', "only": "known"},
}


def test_two_runs_stand_side_by_side(visit: Visit) -> None:
    visit.open(q=BY_FACTS)
    visit.page.get_by_label("beside").select_option("complex")
    columns = visit.page.locator(".column")
    expect(columns).to_have_count(2)
    left, right = columns.first, columns.last
    expect(left.get_by_role("heading", level=1)).to_have_text("blockhole")
    expect(right.get_by_role("heading", level=1)).to_have_text("complex")
    assert left.bounding_box()["x"] < right.bounding_box()["x"]  # type: ignore[index]
    for status in ("known", "predicted"):
        rows = [
            column.locator(".answer").filter(has=visit.page.locator(f".status.{status}")) for column in (left, right)
        ]
        names = [each.locator(".name").all_text_contents() for each in rows]
        assert all(map(len, names))
        for place, name in enumerate(names[0]):
            expect(rows[0].locator(".elsewhere .unseen").nth(place)).to_have_text(
                f"place {names[1].index(name) + 1} at complex"
                if name in names[1]
                else "not among those predicted at complex"
            )
    left.locator(".answer").filter(has_text="number 14").get_by_role("button").click()
    expect(visit.page.get_by_role("region", name="Why number 14")).to_have_count(2)
    other = visit.page.get_by_role("link", name='"number 6"/double/next')
    other.click()
    expect(visit.box).to_have_value('"number 6"/double/next')
    expect(columns).to_have_count(2)


def test_a_run_that_refuses_the_query_says_so_in_its_column(browser: Browser, runs: list[Path], tmp_path: Path) -> None:
    other = write_random_run(tmp_path / "other", E=20, R=2, facts=40)
    with serving(tmp_path / "log", runs[0], other, "--port", 0) as server, browser.new_context() as context:
        visit = Visit(context.new_page(), server.url)
        visit.refused = {"ask"}
        visit.open(q=QUERY, versus="other")
        columns = visit.page.locator(".column")
        expect(columns.first.locator(".answer")).to_have_count(10)
        expect(columns.last).to_contain_text("Unknown entity 'number 7'")
        expect(columns.last.get_by_role("heading", level=1)).to_have_text("other blockhole")  # the run, and its model
        visit.check()


def test_an_entity_page_lists_facts_by_relation_and_pages_through_them(visit: Visit) -> None:
    visit.open(entity=HUB)
    expect(visit.page.get_by_role("heading", level=1)).to_have_text(HUB)
    expect(visit.page.get_by_text(f"{SPOKES} facts in blockhole", exact=True)).to_be_visible()
    names = visit.page.locator(".names a")
    expect(names).to_have_count(20)
    visit.page.get_by_role("button", name="100 more of 110").click()
    expect(names).to_have_count(120)
    expect(names.nth(20)).to_be_focused()
    visit.page.get_by_role("button", name="10 more of 10").click()
    expect(names).to_have_text([f"spoke {i:03d}" for i in range(SPOKES)])
    expect(visit.page.get_by_role("button", name="more of")).to_have_count(0)
    names.last.click()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("spoke 129")
    expect(visit.page.get_by_text("… holds spoke 129")).to_be_visible()


def test_an_entity_page_leads_to_what_may_be_missing(visit: Visit) -> None:
    visit.open(entity="number 7")
    visit.page.get_by_role("link", name="What is missing? Predicted answers to next").click()
    expect(visit.box).to_have_value('"number 7"/next')
    expect(visit.answers.first).to_contain_text("predicted")
    expect(visit.page.get_by_label("Show")).to_have_value("predicted")
    visit.page.get_by_label("Top").select_option("5")  # the same query still
    expect(visit.answers).to_have_count(5)
    expect(visit.page.get_by_label("Show")).to_have_value("predicted")
    visit.box.fill('"number 8"/next')  # another, for which nobody has asked that
    visit.box.press("Enter")
    expect(visit.answers.first).to_contain_text("known")
    expect(visit.page.get_by_label("Show")).to_have_value("")


def test_a_choice_of_answers_holds_for_the_next_query(visit: Visit) -> None:
    visit.open(q='"number 7"/next')
    visit.page.get_by_label("Show").select_option("predicted")
    expect(visit.answers.locator(".status.known")).to_have_count(0)
    visit.box.fill('"number 8"/next')
    visit.box.press("Enter")
    visit.page.wait_for_url("**8**")
    visit.settle()
    expect(visit.page.get_by_label("Show")).to_have_value("predicted")


@pytest.mark.parametrize(
    ("place", "seen"),
    [
        (PLACES["long name"], ".reason svg"),
        (PLACES["long entity"], ".names a"),
        ({"q": f'"number 3"/^next/{LONG}'}, ".problem .wrong"),
        ({"q": f"{LONG}/next/next/^double", "versus": "complex"}, ".orders a"),
        ({"q": '"number 3"/^next', "top": "100"}, f'.name[title="{LONG}"]'),
    ],
)
def test_a_name_without_end_leaves_room_for_the_rest(visit: Visit, place: dict[str, str], seen: str) -> None:
    if ".problem" in seen:
        visit.refused = {"ask"}
    visit.open(**place)
    expect(visit.page.locator(seen).first).to_be_visible()
    visit.settle()
    tall = "each => [each.getBoundingClientRect().height, each.textContent.length]"
    texts = visit.page.locator("h1, h2, p, code, li > button, .name, .words li, .names a")
    for height, length in [each.evaluate(tall) for each in texts.all()]:
        assert height <= 240
        assert length <= 700


def test_an_unknown_entity_is_said(visit: Visit) -> None:
    visit.refused = {"entity"}
    visit.open(entity="nobody at all")
    expect(visit.alert).to_contain_text("Unknown entity 'nobody at all'")


def test_markup_in_names_is_text_everywhere(visit: Visit) -> None:
    visit.open(entity=SCRIPT)
    expect(visit.page.get_by_role("heading", level=1)).to_have_text(SCRIPT)
    visit.page.get_by_role("link", name=IMAGE).click()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text(IMAGE)
    visit.open(q=f'"number 1"/"{BOLD}"/"{BOLD}"/next', answer="number 2")
    expect(visit.page.locator(".words .name").nth(1)).to_have_text(SCRIPT)
    expect(visit.page.get_by_role("link", name=SCRIPT, exact=True)).to_be_visible()
    visit.open(q=f'"number 1"/"{BOLD}"', versus="complex", answer=SCRIPT)
    expect(visit.answers.locator(".name").get_by_text(SCRIPT).first).to_be_visible()
    expect(visit.page.get_by_role("region", name=f"Why {SCRIPT}")).to_have_count(2)
    assert visit.page.locator("main script, main img, main b, main iframe").count() == 0
    assert "owned" not in visit.page.title().partition(" ·")[2]


def test_markup_in_names_is_text_on_every_page(building: Visit) -> None:
    building.page.emulate_media(reduced_motion="reduce")
    building.open(q=f'"{SCRIPT}"/"{BOLD}"')
    expect(building.chips.first).to_have_text(SCRIPT)
    expect(building.answers.locator(".name").get_by_text(IMAGE).first).to_be_visible()
    building.page.get_by_text("Draw as a graph").click()
    expect(building.page.locator(".graph-entity title").get_by_text(SCRIPT).first).to_be_attached()
    building.open(relation=BOLD)
    expect(building.page.get_by_role("heading", level=1)).to_have_text(BOLD)
    expect(building.page.get_by_role("link", name=SCRIPT).first).to_be_visible()
    building.open(page="map")
    expect(building.page.locator("canvas.map")).to_be_visible(timeout=4 * PATIENCE)
    building.open(entity="number 1", to=IMAGE)
    named = building.page.locator(f'.paths a[title=\'"{BOLD}"/"{BOLD}"\']')
    expect(named).to_have_text(f"{BOLD} → {BOLD}")  # in words, without the quotes
    assert building.page.locator("main script, main img, main b, main iframe").count() == 0
    assert "owned" not in building.page.title()


def test_a_query_with_markup_and_an_error_about_it_are_text(visit: Visit) -> None:
    visit.refused = {"ask"}
    visit.open(q=f'"number 1"/"{IMAGE}x"'.replace('onerror="', 'onerror=\\"').replace("'\">", "'\\\">"))
    expect(visit.alert).to_contain_text("<img src=x onerror=")
    assert visit.page.locator("main img").count() == 0


@pytest.mark.parametrize(("width", "way"), [(320, "build"), (390, "text"), (768, "build")])
def test_nothing_is_wider_than_a_narrow_screen(browser: Browser, url: str, width: int, way: Way) -> None:
    with opened(browser, width=width) as profile, visiting(profile, url, way) as visit:
        for name, place in PLACES.items():
            visit.open(**place).settle()
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert visit.page.evaluate(OUTSIDE) == [], name


@pytest.mark.parametrize("system", THEMES)
def test_colours_follow_the_system_until_chosen_and_are_remembered(browser: Browser, url: str, system: Theme) -> None:
    with opened(browser, theme=system) as profile, visiting(profile, url) as visit:
        visit.open()
        button = visit.page.get_by_role("button", name="Dark colours")
        assert visit.is_dark == (system == "dark")
        expect(button).to_have_attribute("aria-pressed", str(system == "dark").lower())
        button.click()
        assert visit.is_dark == (system == "light")
        visit.page.reload()
        assert visit.is_dark == (system == "light")
        expect(button).to_have_attribute("aria-pressed", str(system == "light").lower())


def test_chains_are_drawn_again_for_another_width_alone(visit: Visit) -> None:
    """Drawing changes the height; were that a reason to draw again, the focus in the drawing would be lost."""
    visit.open(q=QUERY, answer="number 16").settle()
    node = visit.page.locator(".layers a").first
    node.focus()
    visit.page.locator(".layers").evaluate("layers => { layers.style.height = '400px'; }")
    visit.page.evaluate(TWO_FRAMES)
    expect(node).to_be_focused()
    visit.page.set_viewport_size({"width": 700, "height": 800})
    expect(node).not_to_be_focused()
    expect(node).to_be_visible()


def test_nothing_jumps_while_the_page_loads(browser: Browser, url: str) -> None:
    """What is there at first stays where it is, by the browser's own measure; it has none of the files yet."""
    with opened(browser) as profile, visiting(profile, url) as visit:
        visit.open(q=QUERY).settle()
        shift = visit.page.evaluate(
            """() => new Promise(resolve => {
                let sum = 0;
                const add = list => list.getEntries().forEach(entry => { sum += entry.value; });
                new PerformanceObserver(add).observe({type: "layout-shift", buffered: true});
                setTimeout(() => resolve(sum), 200);
            })"""
        )
    assert shift < 0.01
