"""The page of the API, in a real browser: it draws what the document says, and sends a request when told to."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.explorer.browser import Visit


def test_a_request_can_be_tried(visit: Visit) -> None:
    page = visit.page
    page.goto(f"{visit.url}docs")
    route = page.locator("#operations-default-parse_api_v1_parse_get")
    route.get_by_role("button", name="/api/v1/parse").first.click()
    route.get_by_placeholder("query").fill('"number 7"/next')
    route.get_by_role("button", name="Execute").click()
    expect(route.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
    expect(route.locator(".live-responses-table")).to_contain_text("number 7")
    visit.check()
