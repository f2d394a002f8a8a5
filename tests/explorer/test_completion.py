"""The query box completes entities, and then only relations that make sense next."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.explorer.browser import Held, Visit
from tests.explorer.world import BOLD, HUB, LONG, SCRIPT


def test_entities_complete_and_then_relations(visit: Visit) -> None:
    visit.open().box.press_sequentially("number 7")
    expect(visit.options.first).to_have_text("number 7")
    expect(visit.box).to_have_attribute("aria-expanded", "true")
    visit.options.first.click()
    expect(visit.box).to_have_value('"number 7"/')
    expect(visit.options.filter(has_text="next").first).to_contain_text("facts lead on")
    visit.options.get_by_text("double", exact=True).first.click()
    expect(visit.box).to_have_value('"number 7"/double')
    expect(visit.answers.first).to_contain_text("number 14")


def test_only_relations_that_lead_on_are_offered(visit: Visit) -> None:
    visit.open().box.fill('"number 1"/mod6/')
    visit.box.press("End")
    expect(visit.options.first).to_be_visible()
    # Numbers lead to remainders, and nothing but that leads on from these.
    assert [text.removesuffix("facts lead on") for text in visit.options.all_text_contents()] == ["^mod6"]


def test_every_path_of_a_query_is_completed(visit: Visit) -> None:
    visit.open().box.press_sequentially('"number 1"/next & !number 5')
    expect(visit.options.first).to_have_text("number 5")
    visit.options.first.click()
    expect(visit.box).to_have_value('"number 1"/next & !"number 5"/')
    expect(visit.options.filter(has_text="next").first).to_contain_text("facts lead on")
    visit.box.press_sequentially("nex")
    visit.box.press("Tab")
    expect(visit.box).to_have_value('"number 1"/next & !"number 5"/next')
    visit.box.press("Enter")
    expect(visit.answers.first).to_contain_text("number 2")


def test_relations_that_lead_on_from_parentheses_are_offered(visit: Visit) -> None:
    visit.open().box.fill('("number 1"/mod6 | "number 2"/mod6)/')
    expect(visit.options.first).to_be_visible()
    assert [text.removesuffix("facts lead on") for text in visit.options.all_text_contents()] == ["^mod6"]


def test_a_caret_offers_inverses_only(visit: Visit) -> None:
    visit.open().box.fill('"number 1"/^')  # at once: what is offered on the way to it is something else
    expect(visit.options.first).to_be_visible()
    assert all(text.startswith("^") for text in visit.options.all_text_contents())
    visit.box.press_sequentially("nxt")  # letters in order are enough
    expect(visit.options).to_have_count(1)
    visit.box.press("Tab")
    expect(visit.box).to_have_value('"number 1"/^next')


def test_typing_errors_and_parts_of_names_find_entities(visit: Visit) -> None:
    visit.open().box.press_sequentially("nubmer 17")
    expect(visit.options.filter(has_text="number 17")).to_contain_text("looks alike")
    visit.box.fill('"emainder/3')
    expect(visit.options.first).to_have_text("remainder/3")


def test_names_are_quoted_as_queries_need_it(visit: Visit) -> None:
    visit.open().box.fill("hub of")
    expect(visit.options).to_have_text([HUB])
    visit.options.first.click()
    expect(visit.box).to_have_value(r'"the/hub of \"all\" \\ things"/')
    expect(visit.options.get_by_text("holds", exact=True)).to_be_visible()


def test_a_name_in_the_middle_can_be_exchanged(visit: Visit) -> None:
    visit.open().box.fill('"number 1"/dou/mod6')
    for _ in range(len("/mod6")):
        visit.box.press("ArrowLeft")
    expect(visit.options.first).to_contain_text("double")
    visit.box.press("Tab")
    expect(visit.box).to_have_value('"number 1"/double/mod6')


def test_keys_that_are_faster_than_the_server_complete_the_right_name(visit: Visit) -> None:
    visit.open().box.fill('"number 1"/')
    expect(visit.options.first).to_be_visible()
    held = Held(visit.page, "**/api/v1/complete*")
    visit.page.keyboard.type("dou")
    visit.page.keyboard.press("Tab")  # what is shown was found for the text before
    expect(visit.box).to_be_focused()
    expect(visit.box).to_have_value('"number 1"/dou')
    held.release()
    expect(visit.box).to_have_value('"number 1"/double')
    expect(visit.box).to_be_focused()


def test_keys_behind_a_tab_are_not_overwritten_by_what_it_would_have_completed(visit: Visit) -> None:
    visit.open().box.fill('"number 1"/')
    expect(visit.options.first).to_be_visible()
    held = Held(visit.page, "**/api/v1/complete*")
    visit.page.keyboard.type("do")
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.type("g")
    held.release()
    visit.page.wait_for_timeout(200)
    expect(visit.box).to_have_value('"number 1"/dog')


def test_tab_takes_what_was_chosen_though_the_name_is_complete(visit: Visit) -> None:
    visit.open().box.fill('"number 1"/next')
    expect(visit.options).to_have_count(2)
    visit.box.press("ArrowUp")
    expect(visit.options.last).to_have_attribute("aria-selected", "true")
    visit.box.press("Tab")
    expect(visit.box).to_have_value('"number 1"/^next')


def test_names_with_markup_are_offered_as_text(visit: Visit) -> None:
    visit.open().box.fill("<script")
    expect(visit.options.first).to_have_text(SCRIPT)
    visit.options.first.click()
    expect(visit.options.get_by_text(BOLD, exact=True)).to_be_visible()
    expect(visit.page).to_have_title("BlockHolE explorer")


def test_tab_completes_forwards_where_no_mark_was_typed(visit: Visit) -> None:
    """Also where facts lead on over the inverse alone, which is offered first before a letter is typed."""

    def known(number: int) -> list[str]:
        after = visit.page.request.get(f"{visit.url}api/relations", params={"after": f'"number {number}"'})
        return [each["text"] for each in after.json()["result"]["relations"] if each["known"]]

    number = next(i for i in range(60) if "^double" in known(i) and "double" not in known(i))
    visit.open().box.fill(f'"number {number}"/dou')
    expect(visit.options.first).to_contain_text("the model only")
    visit.box.press("Tab")
    expect(visit.box).to_have_value(f'"number {number}"/double')


def test_a_closed_quote_is_no_typing_error(visit: Visit) -> None:
    visit.open().box.fill('"number 1"')
    expect(visit.options.first).to_have_text("number 1")  # and not: looks alike


def test_a_suggestion_is_taken_for_what_was_typed_since(visit: Visit) -> None:
    visit.open().box.fill("remaind")
    expect(visit.options).to_have_count(6)
    held = Held(visit.page, "**/api/v1/complete*")
    visit.page.keyboard.type("er")
    visit.options.get_by_text("remainder/3").click()
    expect(visit.box).to_have_value('"remainder/3"/')
    held.release()


def test_letters_of_two_code_units_do_not_shift_what_is_replaced(visit: Visit) -> None:
    visit.open().box.fill("number 1/😀😀")
    visit.box.press("Home")
    expect(visit.options.first).to_have_text("number 1")
    visit.options.first.click()
    expect(visit.box).to_have_value('"number 1"/😀😀')
    visit.box.fill("😀/ne/😀")  # the caret, too, is counted in letters
    visit.box.press("ArrowLeft")
    expect(visit.options).to_have_count(0)  # nothing makes sense after a name that is unknown


def test_an_endless_name_is_one_suggestion_among_others(visit: Visit) -> None:
    visit.open().box.fill("a_name_that")
    expect(visit.options.first).to_contain_text("…")
    box = visit.options.first.bounding_box()
    assert box is not None
    assert box["height"] < 160
    visit.options.first.click()
    expect(visit.box).to_have_value(f"{LONG}/")
