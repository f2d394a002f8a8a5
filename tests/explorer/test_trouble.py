"""What the page does when the server is slow, busy, gone, or wants a key."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Route, expect

from tests.explorer.browser import Held, Visit
from tests.explorer.world import ARABIC, LONG, write_star
from tests.serving.processes import serving, serving_with
from tests.serving.random_run import write_random_run

QUERY = '"number 7"/next'


# What a proxy answers, and a queue that is full when the page asks and no longer so when it asks again, are played: no
# server of ours does either when it is told to.


def test_a_busy_server_is_asked_again_when_it_says(visit: Visit) -> None:
    visit.refused = {"ask"}
    asked = []

    def busy_twice(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) > 2:
            route.continue_()
            return
        body = {"error": {"kind": "busy", "message": "busy.", "place": None, "nearest": []}, "request_id": "1"}
        route.fulfill(status=503, headers={"Retry-After": "0"}, body=json.dumps(body))

    visit.page.route("**/api/v1/ask", busy_twice)
    visit.open(q=QUERY)
    expect(visit.answers.first).to_contain_text("number 8")
    assert len(asked) >= 3  # then the histogram asks


def test_a_server_that_is_gone_is_said_and_found_again(visit: Visit) -> None:
    visit.refused = {"ask"}
    visit.open()
    visit.settle()
    visit.page.context.set_offline(True)
    visit.box.fill(QUERY)
    visit.box.press("Enter")
    expect(visit.alert).to_have_text("The server does not answer. Is blockhole serve still running?")
    visit.page.context.set_offline(False)
    visit.box.press("Enter")
    expect(visit.answers.first).to_contain_text("number 8")
    visit.refusals -= {"complete"}  # completion was cut off as well, and the icon
    visit.complaints = [each for each in visit.complaints if "ERR_INTERNET_DISCONNECTED" not in each]


@pytest.mark.parametrize("body", ["<h1>Bad gateway</h1>", '{"message": "Bad gateway"}', '{"error": "502"}', "null"])
def test_a_proxy_that_answers_for_the_server_is_said(visit: Visit, body: str) -> None:
    visit.refused = {"ask"}
    visit.page.route("**/api/v1/ask", lambda route: route.fulfill(status=502, body=body))
    visit.open(q=QUERY)
    expect(visit.alert).to_have_text("Something between this page and the server answered 502.")


def test_a_late_answer_does_not_replace_a_newer_one(visit: Visit) -> None:
    held = Held(visit.page, "**/api/v1/ask")
    visit.open(q=QUERY)
    held.wait()
    held.let_others_pass()
    visit.box.fill('"number 30"/next')
    visit.box.press("Enter")
    expect(visit.answers.first).to_contain_text("number 31")
    held.release()
    visit.page.wait_for_timeout(200)
    expect(visit.answers.first).to_contain_text("number 31")


def test_going_back_from_what_has_not_come_yet_waits_for_nothing(visit: Visit) -> None:
    visit.open(q=QUERY)
    expect(visit.answers.first).to_contain_text("number 8")
    held = Held(visit.page, "**/api/v1/ask")
    visit.box.fill('"number 30"/next')
    visit.box.press("Enter")
    held.wait()
    expect(visit.page.locator("#view")).to_have_attribute("aria-busy", "true")
    visit.page.go_back()
    expect(visit.box).to_have_value(QUERY)
    expect(visit.answers.first).to_contain_text("number 8")
    expect(visit.page.locator("[aria-busy]")).to_have_count(0)


def test_a_reason_that_comes_late_is_not_announced_over_other_answers(visit: Visit) -> None:
    visit.open(q=QUERY)
    held = Held(visit.page, "**/api/v1/explain")
    visit.answers.first.get_by_role("button").click()
    held.wait()
    visit.box.fill('"number 30"/next')
    visit.box.press("Enter")
    expect(visit.page.get_by_role("status")).to_contain_text("the first is number 31")
    held.release()
    visit.page.wait_for_timeout(200)
    expect(visit.page.get_by_role("status")).to_contain_text("the first is number 31")


def test_what_is_typed_before_the_page_knows_its_runs_is_kept(visit: Visit) -> None:
    held = Held(visit.page, "**/api/v1/runs")
    visit.page.goto(visit.url)
    held.wait()
    visit.box.fill("remainder")
    held.release()
    expect(visit.options).to_have_count(6)
    expect(visit.box).to_have_value("remainder")


def test_what_is_asked_before_the_page_knows_its_runs_is_answered(visit: Visit) -> None:
    held = Held(visit.page, "**/api/v1/runs")
    visit.page.goto(visit.url)
    held.wait()
    held.let_others_pass()
    visit.box.fill(QUERY)
    visit.box.press("Enter")
    expect(visit.answers.first).to_contain_text("number 8")


def test_options_ask_what_is_typed_and_not_yet_asked(visit: Visit) -> None:
    visit.open(q=QUERY)
    visit.settle()
    visit.box.fill('"number 30"/next')
    visit.page.get_by_label("Top").select_option("5")
    expect(visit.box).to_have_value('"number 30"/next')
    expect(visit.answers).to_have_count(6)
    expect(visit.answers.first).to_contain_text("number 31")


NO_END = "import blockhole.answering.search as search; search._NUMBERS = 2**40\n"
"""Searches by default end before they take long; without a bound for what they hold, they take as long as they may."""
SLOW = " & ".join(f"e{i}/r0/r1/r2/r0" for i in range(4))


def test_a_slow_search_says_how_far_it_is_and_can_be_cancelled(browser: Browser, tmp_path: Path) -> None:
    run = write_random_run(tmp_path / "random", E=60_000, R=3, facts=180_000)
    other = Path(shutil.copytree(run, tmp_path / "other"))
    with (
        serving_with(tmp_path / "log", run, other, before=NO_END, timeout=600.0) as server,
        browser.new_context() as context,
    ):
        visit = Visit(context.new_page(), server.url)
        visit.refused = {"ask"}
        for beside in ({}, {"versus": "other"}):
            visit.open(q="e1/r0", **beside)
            expect(visit.answers.first).to_be_visible()
            before = visit.answers.locator(".name").all_text_contents()
            visit.box.fill(SLOW)
            visit.box.press("Enter")
            search = visit.page.locator("#search")
            expect(search.get_by_role("progressbar")).to_be_visible()
            expect(search).to_contain_text(re.compile(r"Searching for [\d.]+ of at most 600 s, [\d,]*[1-9][\d,]* step"))
            seen = Axe().run(visit.page)
            assert seen.violations_count == 0, seen.generate_report()
            search.get_by_role("button", name="Cancel").click()
            expect(visit.alert).to_have_text("The search was cancelled; ask again for its answers.")
            expect(search).to_be_hidden()
            assert visit.answers.locator(".name").all_text_contents() == before  # the old answers stay
        visit.check()


def test_a_slow_search_for_paths_says_that_it_goes_on(visit: Visit) -> None:
    held = Held(visit.page, "**/api/v1/paths")
    visit.open(entity="number 7", to="number 9")
    held.wait()
    connections = visit.page.get_by_role("region", name="Connections")
    expect(connections).to_contain_text("Looking for paths …")
    expect(connections.get_by_role("button", name="Cancel")).to_be_visible()
    held.release()
    expect(connections.locator(".paths li").first).to_be_visible()
    expect(connections.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_server_that_stops_leaves_the_page_usable(browser: Browser, runs: list[Path], tmp_path: Path) -> None:
    with browser.new_context() as context:
        with serving(tmp_path / "log", runs[0], "--port", 0) as server:
            visit = Visit(context.new_page(), server.url, "build").open(q=QUERY)
            expect(visit.answers.first).to_contain_text("number 8")
            expect(visit.page.locator(".offer").first).to_be_visible()
            server.end()
        visit.page.locator(".offer").first.click()
        expect(visit.alert).to_have_text("The server does not answer. Is blockhole serve still running?")
        expect(visit.answers.first).to_contain_text("number 8")
        visit.page.get_by_role("button", name="Help").click()
        expect(visit.page.get_by_role("dialog", name="Help")).to_be_visible()


def test_a_run_that_goes_away_is_said(browser: Browser, runs: list[Path], tmp_path: Path) -> None:
    """The server is started again without it."""
    with browser.new_context() as context:
        with serving(tmp_path / "log", *runs[:2], "--port", 0) as server:
            visit = Visit(context.new_page(), server.url).open(q=QUERY)
            expect(visit.answers.first).to_contain_text("number 8")
            server.end()
        with serving(tmp_path / "log", runs[1], "--port", server.port):
            visit.refused = {"ask"}
            visit.box.fill('"number 30"/next')
            visit.refusals -= {"complete"}
            visit.box.press("Enter")
            expect(visit.alert).to_contain_text("There is no run 'blockhole' here; the runs are complex.")
            expect(visit.answers.first).to_contain_text("number 8")
            visit.alert.get_by_role("button", name="complex", exact=True).click()
            expect(visit.page.get_by_role("combobox", name="Run")).to_have_value("complex")
            expect(visit.answers.first).to_contain_text("number 31")


def test_an_address_with_a_broken_query_leaves_the_page_usable(building: Visit) -> None:
    building.refused = {"ask", "parse", "read"}
    building.open(q="((((")
    expect(building.alert).to_be_visible()
    building.start("number 7")
    expect(building.page.get_by_role("heading", level=1)).to_have_text("number 7")
    expect(building.alert).to_have_count(0)


def test_names_without_end_and_from_right_to_left_are_built_with(building: Visit) -> None:
    building.open()
    building.page.get_by_role("combobox", name="Start at").fill(ARABIC[:4])
    building.page.get_by_role("option", name=ARABIC).click()
    building.offer("next").click()
    expect(building.chips).to_have_text([ARABIC, "next ›"])
    expect(building.answers.first).to_contain_text("number 4")
    building.open(q=f"{LONG}/next")
    expect(building.chips.first).to_contain_text("…")
    assert building.chips.first.evaluate("chip => chip.getBoundingClientRect().width") < 600


@pytest.mark.slow
def test_a_hundred_thousand_answers_are_counted_paged_and_saved(browser: Browser, tmp_path: Path) -> None:
    run = write_star(tmp_path / "star", 100_000)
    with serving(tmp_path / "log", run, "--port", 0) as server, browser.new_context() as context:
        visit = Visit(context.new_page(), server.url, "build").open(q="hub/holds", only="known")
        expect(visit.page.locator(".list h2")).to_have_text("10 of 100,000 known")
        visit.page.get_by_role("button", name="100 more of 99,990").click()
        expect(visit.answers).to_have_count(110)
        rows = visit.saved(visit.page.get_by_role("button", name="CSV")).splitlines()
        assert len(rows) == 100_001
        visit.check()


def test_a_server_with_a_key_shows_the_page_to_whoever_has_it(
    browser: Browser, runs: list[Path], tmp_path: Path
) -> None:
    key = "correct-horse-battery-staple"
    (tmp_path / "key").write_text(key, encoding="utf-8")
    with (
        serving(tmp_path / "log", runs[0], "--port", 0, "--api-key-file", tmp_path / "key") as server,
        browser.new_context() as stranger,
    ):
        assert stranger.request.get(server.url).status == 401
        with browser.new_context(http_credentials={"username": "anyone", "password": key}) as context:
            visit = Visit(context.new_page(), server.url).open(q=QUERY)
            expect(visit.answers.first).to_contain_text("number 8")
            visit.answers.first.get_by_role("button").click()
            expect(visit.page.locator(".layers svg")).to_be_visible()
            visit.check()
