"""axe-core finds nothing to object to, on any view, in light and in dark."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.explorer.browser import PATIENCE, THEMES, Visit
from tests.explorer.test_views import PLACES
from tests.sweep import WHOLE

COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that the colours of a page can break; all others see the same in light and in dark."""


def assert_accessible(visit: Visit) -> None:
    """In the colours of both systems: the page takes those of another while it is open."""
    for theme in THEMES:
        visit.page.emulate_media(color_scheme=theme)
        visit.settle()
        assert visit.is_dark == (theme == "dark")
        rules = {} if WHOLE or theme == THEMES[0] else COLOURS
        results = Axe().run(visit.page, options={"resultTypes": ["violations"], **rules})
        assert results.violations_count == 0, f"{theme}\n{results.generate_report()}"


@pytest.mark.parametrize("name", PLACES)
def test_views(visit: Visit, name: str) -> None:
    visit.open(**PLACES[name])
    assert_accessible(visit)


@pytest.mark.parametrize(
    "name", ["welcome", "intersection", "negation", "entity", "long name", "right to left", "nothing"]
)
def test_views_of_queries_that_are_built(building: Visit, name: str) -> None:
    building.open(**PLACES[name])
    assert_accessible(building)


def test_menus_and_drawers(building: Visit) -> None:
    building.open(q='"number 7"/next & "number 9"/^next')
    building.chips.nth(1).click()
    assert_accessible(building)
    building.page.keyboard.press("Escape")
    expect(building.chips.nth(1)).to_be_focused()
    building.page.get_by_role("button", name="Go on from these").click()
    expect(building.page.get_by_role("dialog").get_by_role("option").first).to_be_visible()
    assert_accessible(building)
    building.page.keyboard.press("Escape")
    building.page.locator("summary", has_text="Share").click()
    assert_accessible(building)
    for name in ("Queries", "Help"):
        building.page.get_by_role("button", name=name).click()
        assert_accessible(building)
        building.page.keyboard.press("Escape")


def test_sparql(visit: Visit) -> None:
    visit.open(q='"number 7"/next').page.get_by_role("button", name="SPARQL", exact=True).click()
    assert_accessible(visit)


def test_rules(family: Visit) -> None:
    family.open(relation="spouseOf")
    expect(family.page.locator(".rules li").first).to_be_visible(timeout=4 * PATIENCE)
    expect(family.page.locator("progress")).to_have_count(0, timeout=4 * PATIENCE)
    assert_accessible(family)


def test_suggestions(visit: Visit) -> None:
    visit.open().box.fill('"number 7"/')
    expect(visit.options.first).to_be_visible()
    visit.box.press("ArrowDown")
    assert_accessible(visit)


def test_mistakes(visit: Visit) -> None:
    visit.refused = {"ask"}
    visit.open(q='"number 7"/nextt')
    expect(visit.alert).to_be_visible()
    assert_accessible(visit)
    visit.open(q='"number 7"/next')
    expect(visit.answers.first).to_be_visible()
    visit.box.fill('"number 7"/nextt')
    visit.box.press("Enter")
    expect(visit.page.locator("#view.stale .answer").first).to_be_visible()
    assert_accessible(visit)


def test_the_drawing_is_also_told_in_words(visit: Visit) -> None:
    visit.open(q='"number 7"/next/next', answer="number 9")
    reason = visit.page.get_by_role("region", name="Why number 9")
    expect(reason.get_by_role("list")).to_contain_text("number 7 next known number 8 next known number 9")
