"""Asking, explaining, choosing which answers to see, and what a mistake looks like."""

from __future__ import annotations

from itertools import pairwise

import pytest
from playwright.sync_api import expect

from tests.explorer.browser import Visit
from tests.explorer.world import SPOKES

THREE_ON = '"number 7"/next/next/next'


def ask(visit: Visit, query: str) -> None:
    visit.box.fill(query)
    visit.page.get_by_role("button", name="Ask", exact=True).click()


def test_the_first_page_teaches_by_examples_that_can_be_asked(visit: Visit) -> None:
    visit.open()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("Ask where a path leads")
    examples = visit.page.locator(".examples a")
    query = examples.last.locator("code").text_content()
    examples.last.click()
    expect(visit.box).to_have_value(query or "")
    expect(visit.answers.first).to_be_visible()


def test_answers_say_known_or_predicted_and_how_probable(visit: Visit) -> None:
    visit.open()
    ask(visit, THREE_ON)
    expect(visit.page.locator(".list h2")).to_have_text(["1 known", "The first 10 predicted"])
    expect(visit.answers).to_have_count(11)
    known = visit.answers.filter(has_text="number 10")
    expect(known.locator(".status")).to_have_text("known")
    expect(known.locator(".percent")).to_have_text("100 %")
    predicted = visit.answers.filter(has_text="predicted").first
    share = predicted.locator(".bar > span").evaluate("bar => bar.offsetWidth / bar.parentElement.offsetWidth")
    said = float((predicted.locator(".percent").text_content() or "").removesuffix(" %").removeprefix("< "))
    assert share == pytest.approx(said / 100, abs=0.03)


def test_options_choose_which_answers_come(visit: Visit) -> None:
    visit.open(q=THREE_ON)
    expect(visit.answers).to_have_count(11)
    visit.page.get_by_label("Top").select_option("25")
    expect(visit.answers).to_have_count(26)
    visit.page.get_by_label("Show").select_option("predicted")
    expect(visit.answers.filter(has_text="number 10")).to_have_count(0)
    expect(visit.answers.locator(".status.known")).to_have_count(0)
    visit.page.get_by_label("Candidates").select_option("all")
    visit.page.wait_for_url("**candidates=all**")
    visit.page.get_by_label("Show").select_option("known")
    expect(visit.answers).to_have_count(1)


def test_a_known_answer_is_explained_by_facts(visit: Visit) -> None:
    visit.open()
    ask(visit, THREE_ON)
    visit.answers.filter(has_text="number 10").get_by_role("button").click()
    reason = visit.page.get_by_role("region", name="Why number 10")
    expect(reason).to_contain_text("every step is a known fact")
    expect(reason.locator("svg a.node")).to_have_count(4)
    nodes = [node.get_attribute("aria-label") for node in reason.locator("svg a.node").all()]
    assert nodes == ["number 7", "number 8", "number 9", "number 10"]
    boxes = [node.bounding_box() for node in reason.locator("svg a.node").all()]
    assert all(a and b and a["x"] + a["width"] < b["x"] for a, b in pairwise(boxes))  # one column a hop
    lines = reason.locator(".layers .edge.known .line")
    expect(lines).to_have_count(3)
    expect(lines.first).to_have_css("stroke-dasharray", "none")
    expect(reason.locator(".words li")).to_have_text(
        ["100 %number 7 next known number 8 next known number 9 next known number 10 "]
    )


def test_a_predicted_answer_is_explained_with_dashes_or_not_at_all(visit: Visit) -> None:
    """Every predicted answer has dashed steps with probabilities, or says that no proof is plausible."""
    visit.open(q=THREE_ON, only="predicted")
    drawn = 0
    for row in range(10):
        answer = visit.answers.nth(row)
        answer.get_by_role("button").click()
        reason = answer.get_by_role("region")
        expect(reason.locator(".reason-summary")).to_be_visible()
        if "No single proof" in (reason.text_content() or ""):
            expect(reason.locator("svg")).to_have_count(0)
            continue
        drawn += 1
        dashed = reason.locator(".layers .edge.predicted .line")
        expect(dashed.first).to_have_css("stroke-dasharray", "6px, 4px")
        expect(reason.locator(".layers .note")).to_have_count(dashed.count())
        expect(reason.locator(".words li").first).to_contain_text("predicted")
    assert drawn > 0


def test_known_answers_are_counted_and_paged(visit: Visit) -> None:
    visit.open(q=r'"the/hub of \"all\" \\ things"/holds', top="25")
    heading = visit.page.locator(".list h2").first
    expect(heading).to_have_text(f"25 of {SPOKES} known")
    visit.page.get_by_role("button", name="100 more of 105").click()
    expect(heading).to_have_text(f"125 of {SPOKES} known")
    expect(visit.answers.nth(25).get_by_role("button")).to_be_focused()
    visit.page.get_by_role("button", name="5 more of 5").click()
    expect(heading).to_have_text(f"{SPOKES} known")
    names = visit.answers.filter(has=visit.page.locator(".status.known")).locator(".name")
    expect(names).to_have_text([f"spoke {i:03d}" for i in range(SPOKES)])
    expect(visit.page.get_by_role("button", name="more of")).to_have_count(0)
    visit.answers.nth(SPOKES - 1).get_by_role("button").click()
    expect(visit.page.get_by_role("region", name="Why spoke 129")).to_contain_text("every step is a known fact")


def _predicted(visit: Visit) -> int:
    """The number that is most probably twice the one after 7, a fact that the graph lacks."""
    body = {"query": '"number 7"/next/double', "only": "predicted", "top": 1}
    answers = visit.page.request.post(f"{visit.url}api/ask", data=body).json()["result"]["answers"]
    return int(answers[0]["entity"].removeprefix("number "))


def test_an_intersection_is_explained_by_nested_lists(visit: Visit) -> None:
    number = _predicted(visit)
    visit.open(q=f'"number 7"/next/double & "number {number - 1}"/next', answer=f"number {number}")
    reason = visit.page.get_by_role("region", name=f"Why number {number}")
    expect(reason).to_contain_text("takes one step that the graph does not have")
    expect(reason).to_contain_text("An answer is at least as probable as its best proof")
    nodes = [node.get_attribute("aria-label") for node in reason.locator(".layers a.node").all()]
    assert sorted(nodes) == sorted(["number 7", "number 8", f"number {number - 1}", f"number {number}"])  # type: ignore[type-var]
    expect(reason.locator(".layers .edge.predicted")).to_have_count(1)
    best = reason.locator(".trees > li").first
    items = best.locator(".because > li")
    expect(items.locator(".joint")).to_have_text(["since", "and"])
    expect(items.filter(has_text="number 7 next known number 8 double predicted")).to_have_count(1)
    expect(items.filter(has_text=f"number {number - 1} next known number {number}")).to_have_count(1)
    best.get_by_role("link", name="number 8", exact=True).click()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("number 8")


def test_a_hop_behind_parentheses_is_told_above_what_it_starts_from(visit: Visit) -> None:
    visit.open(q='("number 7"/next & "number 9"/^next)/next', answer="number 9")
    best = visit.page.get_by_role("region", name="Why number 9").locator(".trees > li").first
    lines = best.locator("div:not(:has(div))")
    expect(lines).to_have_count(3)
    expect(lines.first).to_have_text("number 8 next known number 9 ")
    assert {line.strip() for line in lines.all_text_contents()[1:]} == {
        "number 7 next known number 8",
        "number 9 ^next known number 8",
    }


def test_a_negation_says_what_would_exclude_the_answer(visit: Visit) -> None:
    number = _predicted(visit)
    visit.open(q=f'"number {number - 1}"/next & !"number 7"/next/double', answer=f"number {number}")
    expect(visit.page.get_by_text("The negation is over known facts")).to_be_visible()
    expect(visit.page.locator(".list h2").first).to_have_text("1 known")
    expect(visit.answers.first.locator(".percent")).not_to_have_text("100 %")
    reason = visit.page.get_by_role("region", name=f"Why number {number}")
    expect(reason).to_contain_text("every step is a known fact, and none excludes it")
    expect(reason.locator(".layers .edge.known .line")).to_have_count(1)
    expect(reason.locator(".because > li")).to_contain_text("unlessnumber 7 next known number 8 double predicted ")


def test_the_chains_of_a_union_are_drawn_by_their_relations(visit: Visit) -> None:
    visit.open(q='"number 3"/next/double | "number 7"/next', answer="number 8")
    reason = visit.page.get_by_role("region", name="Why number 8")
    expect(reason.locator(".layers svg")).to_have_count(2)
    relations = [drawn.locator(".relation").count() for drawn in reason.locator(".layers").all()]
    assert sorted(relations) == [1, 2]
    expect(reason.locator(".words li").filter(has_text="100 %")).to_have_count(2)


def test_an_answer_opens_and_closes(visit: Visit) -> None:
    visit.open(q=THREE_ON)
    button = visit.answers.first.get_by_role("button")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    visit.answers.nth(1).get_by_role("button").click()
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(visit.page.locator(".reason")).to_have_count(1)
    visit.answers.nth(1).get_by_role("button").click()
    expect(visit.page.locator(".reason")).to_have_count(0)


def test_an_answer_that_is_not_among_those_shown_is_explained_too(visit: Visit) -> None:
    visit.open(q='"number 7"/next', answer="remainder/1")
    expect(visit.page.get_by_role("region", name="Why remainder/1")).to_contain_text("is not among these answers")


def test_a_syntax_error_has_a_caret_under_its_place(visit: Visit) -> None:
    visit.refused = {"ask", "read"}
    visit.open()
    ask(visit, '"number 7"/next//nobody')
    expect(visit.alert).to_contain_text("A relation is missing before this /")
    expect(visit.alert).to_contain_text("At character 17: ")
    expect(visit.box).to_have_attribute("aria-invalid", "true")
    wrong = visit.alert.locator(".wrong")
    before = wrong.evaluate("wrong => wrong.previousSibling.textContent")
    assert before == '"number 7"/next/'
    caret = wrong.evaluate("wrong => getComputedStyle(wrong, '::after').content")
    assert caret.startswith('"^"')
    ask(visit, '"number 7"/next/next')
    expect(visit.answers.first).to_be_visible()
    expect(visit.alert).to_have_count(0)


def test_an_unknown_name_can_be_mended_by_a_click(visit: Visit) -> None:
    visit.refused = {"ask"}
    visit.open(q='"number 7"/^nextt/double')
    expect(visit.alert).to_contain_text("Unknown relation 'nextt'")
    expect(visit.alert.locator(".wrong")).to_have_text("nextt")
    visit.alert.get_by_role("button", name="next", exact=True).click()
    expect(visit.box).to_have_value('"number 7"/^next/double')
    expect(visit.answers.first).to_be_visible()


def test_columns_count_letters_and_not_code_units(visit: Visit) -> None:
    visit.refused = {"ask", "read"}
    visit.open(q='"😀😀"/next//next')
    wrong = visit.alert.locator(".wrong")
    assert wrong.evaluate("wrong => wrong.previousSibling.textContent") == '"😀😀"/next/'


def test_no_answers_says_why_and_what_to_do(visit: Visit) -> None:
    visit.open(q='"remainder/1"/next', only="known")
    expect(visit.page.get_by_text("The facts of the graph lead to no answer.")).to_be_visible()
    visit.page.get_by_role("button", name="Show all answers").click()
    expect(visit.answers.first).to_be_visible()


def test_a_run_without_calibration_shows_scores(visit: Visit) -> None:
    visit.refused = {"explain"}
    visit.open(run="bare", q=THREE_ON, only="predicted")
    expect(visit.answers.first.locator(".percent")).to_contain_text("score")
    expect(visit.page.get_by_text("bare has no calibration")).to_be_visible()
    visit.answers.first.get_by_role("button").click()
    expect(visit.alert).to_contain_text("calibrate")


def test_an_unknown_run_is_said(visit: Visit) -> None:
    visit.open(run="nobody", q=THREE_ON)
    expect(visit.alert).to_contain_text("There is no run nobody here; the runs are blockhole, complex, bare.")
    visit.alert.get_by_role("button", name="complex").click()
    expect(visit.page.get_by_role("combobox", name="Run")).to_have_value("complex")
    expect(visit.answers.first).to_be_visible()
