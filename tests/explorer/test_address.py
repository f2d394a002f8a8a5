"""The query, the run, the view and the options live in the address."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.explorer.browser import Visit
from tests.explorer.world import BY_FACTS

QUERY = '"number 7"/next/double'


def test_a_link_shows_the_same_to_whoever_follows_it(visit: Visit) -> None:
    visit.open()
    visit.box.fill(QUERY)
    visit.box.press("Enter")
    visit.page.get_by_label("Candidates").select_option("all")
    visit.page.get_by_label("Top").select_option("5")
    visit.page.get_by_role("combobox", name="Run").select_option("complex")
    expect(visit.answers).to_have_count(5)
    visit.answers.nth(1).get_by_role("button").click()
    shown = _text_with_reason(visit)

    other = Visit(visit.page.context.new_page(), visit.url)
    other.page.goto(visit.page.url)
    assert _text_with_reason(other) == shown
    assert other.page.get_by_role("combobox", name="Run").input_value() == "complex"
    other.page.reload()
    assert _text_with_reason(other) == shown
    other.check()


def test_back_and_forward_go_through_what_was_seen(visit: Visit) -> None:
    visit.open()
    visit.box.fill(BY_FACTS)
    visit.box.press("Enter")
    visit.answers.filter(has_text="number 14").get_by_role("button").click()
    visit.page.get_by_role("link", name="number 7", exact=True).click()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("number 7")
    expect(visit.page).to_have_title("number 7 · BlockHolE")
    visit.page.go_back()
    expect(visit.page.get_by_role("region", name="Why number 14")).to_be_visible()
    visit.page.go_back()
    expect(visit.page.locator(".reason")).to_have_count(0)
    expect(visit.answers).to_have_count(11)
    visit.page.go_back()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("Ask where a path leads")
    expect(visit.box).to_have_value("")
    visit.page.go_forward()
    expect(visit.box).to_have_value(BY_FACTS)
    expect(visit.answers).to_have_count(11)


def test_opening_an_answer_does_not_ask_again(visit: Visit) -> None:
    visit.open(q=QUERY)
    expect(visit.answers).to_have_count(10)
    visit.page.wait_for_load_state("networkidle")
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.answers.first.get_by_role("button").click()
    expect(visit.page.locator(".reason-summary")).to_be_visible()
    assert [url.rpartition("/")[2] for url in asked if "/api/v1/" in url] == ["explain"]


def test_nonsense_in_the_address_is_as_if_it_were_not_there(visit: Visit) -> None:
    visit.open(q=QUERY, top="-3", candidates="x", only="y")
    expect(visit.answers).to_have_count(10)
    expect(visit.page.get_by_label("Top")).to_have_value("10")


def test_queries_stay_readable_in_the_address(visit: Visit) -> None:
    visit.open()
    visit.box.fill('"number 7"/^next')
    visit.box.press("Enter")
    expect(visit.answers.first).to_be_visible()
    assert visit.page.url.endswith("?q=%22number+7%22/^next")


def test_a_query_that_joins_paths_lives_in_the_address_too(visit: Visit) -> None:
    visit.open()
    joined = '"number 7"/next & !"number 9"/next | "number 3"/^next'
    visit.box.fill(joined)
    visit.box.press("Enter")
    expect(visit.answers.first).to_be_visible()
    assert visit.page.url.endswith("?q=%22number+7%22/next+%26+!%22number+9%22/next+|+%22number+3%22/^next")
    visit.page.reload()
    expect(visit.box).to_have_value(joined)
    expect(visit.answers.first).to_be_visible()


def _text_with_reason(visit: Visit) -> str:
    """What the page says once it shows why, without the time it took."""
    expect(visit.page.locator(".layers svg")).to_be_visible()
    visit.settle()
    head, _, tail = visit.page.locator("main").inner_text().replace("\n", " ").partition(" ms")
    return head.rpartition(" in ")[0] + tail
