"""Everything can be done without a mouse."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.explorer.browser import Visit


def test_a_whole_journey_by_keys(visit: Visit) -> None:
    keys = visit.open().page.keyboard
    expect(visit.page.get_by_role("heading", level=1)).to_be_visible()
    keys.press("/")
    expect(visit.box).to_be_focused()
    keys.type("number 7")
    expect(visit.options.first).to_have_text("number 7")
    keys.press("ArrowDown")
    expect(visit.options.first).to_have_attribute("aria-selected", "true")
    expect(visit.box).to_have_attribute("aria-activedescendant", "suggestions-0")
    keys.press("Enter")
    expect(visit.box).to_have_value('"number 7"/')
    keys.type("nex")
    expect(visit.options.first).to_contain_text("next")
    keys.press("Tab")
    expect(visit.box).to_have_value('"number 7"/next')
    expect(visit.box).to_be_focused()
    keys.press("Enter")
    expect(visit.answers.first).to_contain_text("number 8")
    expect(visit.page.get_by_role("status")).to_contain_text("1 known, 10 predicted")

    for _ in range(8):  # the button, three options, what can be done with the answers, the first of them
        keys.press("Tab")
    expect(visit.page.locator(".share summary")).to_be_focused()
    keys.press("Tab")  # the graph
    keys.press("Tab")
    expect(visit.answers.first.get_by_role("button")).to_be_focused()
    keys.press("ArrowDown")
    expect(visit.answers.nth(1).get_by_role("button")).to_be_focused()
    keys.press("ArrowUp")
    keys.press("Enter")
    expect(visit.page.locator(".layers svg")).to_be_visible()
    expect(visit.page.get_by_role("status")).to_contain_text("every step is a known fact")
    keys.press("Tab")  # the drawing, which can be scrolled
    keys.press("Tab")
    expect(visit.page.get_by_role("link", name="number 7", exact=True)).to_be_focused()
    keys.press("Tab")
    expect(visit.page.get_by_role("link", name="number 8", exact=True)).to_be_focused()
    keys.press("Enter")
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("number 8")
    expect(visit.page.locator("#view")).to_be_focused()
    keys.press("/")
    expect(visit.box).to_be_focused()
    expect(visit.box).to_have_value('"number 8"/')
    keys.press("End")
    expect(visit.options.first).to_be_visible()


def test_arrows_go_round_and_escape_closes(visit: Visit) -> None:
    visit.open().box.fill("remainder")
    expect(visit.options).to_have_count(6)
    visit.box.press("ArrowUp")
    expect(visit.options.last).to_have_attribute("aria-selected", "true")
    visit.box.press("ArrowDown")
    expect(visit.options.first).to_have_attribute("aria-selected", "true")
    visit.box.press("Escape")
    expect(visit.options).to_have_count(0)
    expect(visit.box).to_have_attribute("aria-expanded", "false")
    expect(visit.box).to_have_value("remainder")
    visit.box.press("ArrowDown")
    expect(visit.options).to_have_count(6)


def test_tab_leaves_the_box_when_there_is_nothing_to_complete(visit: Visit) -> None:
    visit.open().box.click()
    expect(visit.options.first).to_be_visible()
    visit.box.press("Tab")
    expect(visit.page.get_by_role("button", name="Ask", exact=True)).to_be_focused()
    expect(visit.options).to_have_count(0)


def test_the_slash_is_a_letter_inside_the_box(visit: Visit) -> None:
    visit.open().box.press_sequentially("a/b")
    expect(visit.box).to_have_value("a/b")


def test_the_first_stop_skips_to_the_answers(visit: Visit) -> None:
    visit.open(q='"number 7"/next')
    expect(visit.answers.first).to_be_visible()
    visit.page.keyboard.press("Tab")
    expect(visit.page.get_by_role("link", name="Skip to the answers")).to_be_focused()
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#view")).to_be_focused()
