"""What people come for, done in a real browser without typing an operator: names are typed, all else is clicked."""

from __future__ import annotations

import csv
import json
import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

from tests.explorer.browser import PATIENCE, Held, Visit

COUSINS = "William/^fatherOf/brotherOf/fatherOf"
WHILE_MADE = 4 * PATIENCE  # what the server makes in the background gives way to everything else
COUNT_CLICKS = "clicks = 0; addEventListener('click', event => { clicks += event.isTrusted; }, true)"


def query_of(page: Page) -> str:
    """The query that the address holds."""
    return parse_qs(urlsplit(page.url).query)["q"][0]


def build_cousins(visit: Visit) -> None:
    visit.start("William")
    for words in ("father of, backwards", "brother of", "father of"):
        visit.offer(words).click()


def test_the_paper_s_query_in_five_clicks_and_its_proof(family: Visit) -> None:
    family.open().page.evaluate(COUNT_CLICKS)
    build_cousins(family)
    expect(family.chips).to_have_text(["William", "‹ fatherOf", "brotherOf ›", "fatherOf ›"])
    family.answers.filter(has_text="Beatrice").first.get_by_role("button").click()
    assert family.page.evaluate("clicks") == 5
    assert query_of(family.page) == COUSINS
    reason = family.page.get_by_role("region", name="Why Beatrice")
    expect(reason.locator(".layers .edge.predicted").first).to_be_attached()
    expect(reason.locator(".words li").first).to_contain_text("William ^fatherOf predicted")


def test_cousins_of_william_born_in_london(family: Visit) -> None:
    family.open()
    build_cousins(family)
    expect(family.answers.first).to_be_visible()
    before = family.answers.locator(".name").all_text_contents()
    family.page.get_by_role("button", name="and …", exact=True).click()
    family.page.get_by_role("combobox", name="and …, starting at").fill("London")
    family.page.get_by_role("option", name="London", exact=True).click()
    family.offer("born in, backwards").click()
    expect(family.chips).to_have_text(["William", "‹ fatherOf", "brotherOf ›", "fatherOf ›", "London", "‹ bornIn"])
    expect(family.page.get_by_role("group", name="All of these")).to_be_visible()
    assert query_of(family.page) == f"{COUSINS} & London/^bornIn"
    expect(family.answers.first).to_be_visible()
    expect(family.answers.filter(has_text="Beatrice")).to_have_count(1)
    assert family.answers.locator(".name").all_text_contents() != before


def test_how_william_and_beatrice_are_related(family: Visit) -> None:
    family.open()
    family.start("William")
    family.page.get_by_role("combobox", name="How is it connected with").fill("Beatrice")
    family.page.get_by_role("option", name="Beatrice", exact=True).click()
    paths = family.page.locator(".paths li")
    expect(paths.filter(has_text="father of, backwards → brother of → father of").first).to_contain_text("predicted")
    expect(paths.locator(".mark.known").first).to_be_visible()
    expect(family.page.locator(".graph-entity").filter(has_text="Beatrice")).to_have_count(1)
    paths.get_by_role("link", name="father of, backwards → brother of → father of", exact=True).click()
    why = family.page.get_by_role("region", name="Why Beatrice")
    expect(why).to_contain_text("best proof of Beatrice")
    expect(why.locator(".rule")).to_contain_text("follows by the rule ^spouseOf/motherOf ⇒ fatherOf, right in")


def test_a_csv_and_a_json_of_all_known_answers(family: Visit) -> None:
    family.open()
    family.start("London")
    family.offer("born in, backwards").click()
    heading = family.page.locator(".list h2").first
    expect(heading).to_contain_text("known")
    total = int((heading.text_content() or "").removeprefix("10 of ").removesuffix(" known"))
    assert total > 10
    rows = list(csv.DictReader(family.saved(family.page.get_by_role("button", name="CSV")).splitlines()))
    known = [row["entity"] for row in rows if row["status"] == "known"]
    assert len(known) == len(set(known)) == total
    assert sum(row["status"] == "predicted" for row in rows) == 10
    saved = json.loads(family.saved(family.page.get_by_role("button", name="JSON")))
    assert [answer["entity"] for answer in saved["answers"]] == [row["entity"] for row in rows]


def test_a_shared_link_shows_the_same(family: Visit) -> None:
    family.open()
    build_cousins(family)
    family.answers.filter(has_text="Beatrice").first.get_by_role("button").click()
    slider = family.page.get_by_role("slider", name="Least probability")
    slider.fill("0.5")
    expect(family.answers.filter(visible=True).last.locator(".percent")).not_to_contain_text("< ")
    family.page.wait_for_url("**least=0.5**")
    family.page.locator("summary", has_text="Share").click()
    link = family.page.locator(".share dd").first.text_content() or ""
    assert link == family.page.url

    def seen(page: Page) -> list[list[str]]:
        expect(page.locator(".reason-summary")).to_be_visible()
        shown = page.locator(".answer").filter(visible=True).locator("> button .name")
        return [page.locator(".chip").all_text_contents(), shown.all_text_contents(), _summary(page)]

    other = Visit(family.page.context.new_page(), family.url, "build")
    other.page.goto(link)
    assert seen(other.page) == seen(family.page)
    assert len(seen(other.page)[1]) < 10
    other.check()


def _summary(page: Page) -> list[str]:
    return page.locator(".reason-summary").all_text_contents()


def test_the_same_question_for_a_shell_for_python_and_in_sparql(family: Visit) -> None:
    family.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    family.open(q=f"{COUSINS} & !Andrew/fatherOf").page.locator("summary", has_text="Share").click()
    shared = family.page.locator(".share dl")
    expect(shared).to_contain_text("curl -s http")
    expect(shared).to_contain_text('blockhole.ask(run, "William/^fatherOf/brotherOf/fatherOf & !Andrew/fatherOf"')
    expect(shared).to_contain_text(":William ^:fatherOf/:brotherOf/:fatherOf ?answer .")
    shared.get_by_role("button", name="Copy curl").click()
    expect(family.page.get_by_role("status")).to_have_text("Copied")
    assert family.page.evaluate("navigator.clipboard.readText()").startswith("curl -s http")


# Chips.


def menu(visit: Visit, chip: int, deed: str) -> None:
    visit.chips.nth(chip).click()
    visit.page.get_by_role("dialog").get_by_role("button", name=deed, exact=True).click()


def test_relations_are_offered_to_someone_who_types_before_they_are_there(family: Visit) -> None:
    family.open(q="William/fatherOf/bornIn").settle()
    held = Held(family.page, "**/api/v1/relations*")
    menu(family, 2, "Replace")
    held.wait()
    held.let_others_pass()
    family.page.get_by_role("combobox", name="Another relation").fill("brother of")
    family.page.get_by_role("dialog").get_by_role("option").first.click()
    expect(family.chips).to_have_text(["William", "fatherOf ›", "brotherOf ›"])


def test_chips_are_turned_replaced_moved_and_removed(family: Visit) -> None:
    family.open(q="William/fatherOf/bornIn")
    menu(family, 1, "Turn round")
    expect(family.chips).to_have_text(["William", "‹ fatherOf", "bornIn ›"])
    assert query_of(family.page) == "William/^fatherOf/bornIn"
    menu(family, 2, "Replace")
    family.page.get_by_role("combobox", name="Another relation").fill("brother of")
    family.page.get_by_role("dialog").get_by_role("option").first.click()
    expect(family.chips).to_have_text(["William", "‹ fatherOf", "brotherOf ›"])
    menu(family, 2, "Move to the left")
    expect(family.chips).to_have_text(["William", "brotherOf ›", "‹ fatherOf"])
    family.chips.nth(1).drag_to(family.chips.nth(2))
    expect(family.chips).to_have_text(["William", "‹ fatherOf", "brotherOf ›"])
    menu(family, 0, "Replace")
    family.page.get_by_role("combobox", name="Another entity").fill("Harry")
    family.page.get_by_role("option", name="Harry", exact=True).click()
    expect(family.chips.first).to_have_text("Harry")
    menu(family, 2, "Remove")
    expect(family.chips).to_have_text(["Harry", "‹ fatherOf"])
    menu(family, 1, "Remove")
    expect(family.page.get_by_role("heading", level=1)).to_have_text("Harry")


def test_branches_are_joined_turned_excluded_and_removed(family: Visit) -> None:
    family.open(q="William/fatherOf & Charles/fatherOf")
    family.page.get_by_role("button", name="and: make it or").click()
    expect(family.page.get_by_role("group", name="Any of these")).to_be_visible()
    assert query_of(family.page) == "William/fatherOf | Charles/fatherOf"
    family.page.get_by_role("button", name="and not …").click()
    family.page.get_by_role("combobox", name="starting at").fill("Harry")
    family.page.get_by_role("option", name="Harry", exact=True).click()
    expect(family.page.get_by_text("and not", exact=True)).to_be_visible()
    assert query_of(family.page) == "(William/fatherOf | Charles/fatherOf) & !Harry"
    menu(family, 4, "Keep these (no not)")
    assert query_of(family.page) == "(William/fatherOf | Charles/fatherOf) & Harry"
    expect(family.answers.filter(has_text="Harry")).to_have_count(1)
    menu(family, 4, "Remove this branch")
    assert query_of(family.page) == "William/fatherOf | Charles/fatherOf"
    family.page.get_by_role("button", name="Go on from these").click()
    family.page.get_by_role("dialog").get_by_role("option", name="born in").first.click()
    assert query_of(family.page) == "(William/fatherOf | Charles/fatherOf)/bornIn"


def test_chips_text_and_sparql_are_one_query_and_one_address(family: Visit) -> None:
    family.open(q="William/brotherOf & !Charles/fatherOf")
    expect(family.chips).to_have_text(["William", "brotherOf ›", "Charles", "fatherOf ›"])
    address = family.page.url
    family.page.get_by_role("button", name="Text", exact=True).click()
    expect(family.box).to_have_value("William/brotherOf & !Charles/fatherOf")
    family.page.get_by_role("button", name="SPARQL", exact=True).click()
    area = family.page.get_by_role("textbox", name="SPARQL")
    expect(area).to_have_value(re.compile("MINUS"))
    assert family.page.url == address
    area.fill("SELECT ?who WHERE { :Harry ^:fatherOf/:brotherOf ?who }")
    family.page.locator("#ask-sparql").click()
    family.page.wait_for_url("**Harry**")
    family.page.get_by_role("button", name="Build", exact=True).click()
    expect(family.chips).to_have_text(["Harry", "‹ fatherOf", "brotherOf ›"])


def test_sparql_that_no_query_says_is_refused_in_a_sentence(family: Visit) -> None:
    family.refused = {"translate"}
    family.open().page.get_by_role("button", name="SPARQL", exact=True).click()
    family.page.get_by_role("textbox", name="SPARQL").fill("SELECT ?a ?b WHERE { ?a :fatherOf ?b }")
    family.page.locator("#ask-sparql").click()
    expect(family.alert).to_contain_text("says more than one query can")


# Names and mistakes.


def test_a_name_alone_opens_its_page(family: Visit) -> None:
    family.refused = {"ask", "parse"}
    family.open(q="william")
    expect(family.page.get_by_role("heading", level=1)).to_have_text("William")
    expect(family.page).to_have_url(f"{family.url}?entity=William")
    family.page.get_by_role("button", name="Text", exact=True).click()
    family.box.fill("George III")
    family.box.press("Enter")
    expect(family.page.get_by_role("heading", level=1)).to_have_text("George III")


def test_a_name_alone_that_is_misspelt_has_its_repair(family: Visit) -> None:
    family.refused = {"ask", "parse", "read"}
    family.open(q="Willam")
    expect(family.alert).to_contain_text("Unknown entity 'Willam'")
    family.alert.get_by_role("button", name="William", exact=True).click()
    expect(family.page.get_by_role("heading", level=1)).to_have_text("William")


def test_names_with_spaces_are_quoted_for_the_user(family: Visit) -> None:
    family.refused = {"ask", "parse"}
    family.open(q="George III/fatherOf")
    expect(family.chips).to_have_text(["George III", "fatherOf ›"])
    assert query_of(family.page) == '"George III"/fatherOf'
    expect(family.answers.first).to_be_visible()


def test_a_mistake_keeps_the_answers_and_offers_its_repair(family: Visit) -> None:
    family.refused = {"ask", "read"}
    family.open(q="William/fatherOf").page.get_by_role("button", name="Text", exact=True).click()
    expect(family.answers.first).to_be_visible()
    before = family.answers.count()
    family.box.fill("William/fatherOff")
    family.box.press("Enter")
    expect(family.alert).to_contain_text("Unknown relation 'fatherOff'")
    expect(family.answers).to_have_count(before)
    family.box.fill("(William/fatherOff/")
    family.box.press("Enter")
    expect(family.alert).to_contain_text("A relation is missing at the end")
    expect(family.answers).to_have_count(before)
    family.alert.get_by_role("button", name="(William/fatherOff)").click()
    family.alert.get_by_role("button", name="fatherOf", exact=True).click()
    expect(family.alert).to_have_count(0)
    assert query_of(family.page) == "(William/fatherOf)"


def test_the_last_queries_and_starred_ones_are_kept_in_the_browser(family: Visit) -> None:
    family.open(q="William/fatherOf").page.get_by_role("button", name="☆ Star").click()
    expect(family.page.get_by_role("button", name="Starred")).to_have_attribute("aria-pressed", "true")
    family.open(q="Harry/brotherOf")
    expect(family.answers.first).to_be_visible()
    family.page.get_by_role("button", name="Queries").click()
    drawer = family.page.get_by_role("dialog", name="Queries")
    expect(drawer.get_by_role("link")).to_have_text(["William/fatherOf", "Harry/brotherOf", "William/fatherOf"])
    drawer.get_by_role("link").first.click()
    expect(drawer).to_have_count(0)
    assert query_of(family.page) == "William/fatherOf"


def test_help_tells_the_syntax_the_keys_and_what_a_probability_means(family: Visit) -> None:
    family.open().settle()
    family.page.locator("h1").click()
    family.page.keyboard.press("?")
    drawer = family.page.get_by_role("dialog", name="Help")
    for said in ("William/^fatherOf", "go to the query", "about seven in ten are true"):
        expect(drawer).to_contain_text(said)
    family.page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


# Choosing among answers.


def test_a_threshold_hides_what_is_less_probable_and_facets_narrow(family: Visit) -> None:
    family.open(q="London/^bornIn", top="25")
    expect(family.page.locator(".histogram rect")).to_have_count(20)
    predicted = family.answers.filter(has=family.page.locator(".status.predicted"))
    expect(predicted).to_have_count(25)
    body = {"query": "London/^bornIn", "only": "predicted", "top": 1000}
    whole = family.page.request.post(f"{family.url}api/v1/ask", data=body).json()["result"]["answers"]
    assert len(whole) > 200
    slider, said = family.page.get_by_role("slider", name="Least probability"), family.page.locator(".threshold .said")
    for least in (0, 0.01, 0.9):
        slider.fill(str(least))
        all_, listed = (sum(answer["probability"] >= least for answer in some) for some in (whole, whole[:25]))
        expect(said).to_have_text(
            re.compile(rf"^at least .*%: {all_:,}" + (rf", of which {listed} are listed$" if listed < all_ else "$"))
        )
        assert predicted.filter(visible=True).count() == listed
    assert listed < 25
    facet = family.page.locator(".facets a").first
    expect(facet).to_be_visible()
    branch = facet.get_attribute("title") or ""
    facet.click()
    family.page.wait_for_url("**%26**")
    assert query_of(family.page) == f"London/^bornIn & {branch.removeprefix('and ')}"
    expect(family.page.get_by_role("group", name="All of these")).to_be_visible()


def test_more_predicted_answers_come_by_a_click(family: Visit) -> None:
    family.open(q="William/^fatherOf")
    predicted = family.answers.filter(has=family.page.locator(".status.predicted"))
    expect(predicted).to_have_count(10)
    family.answers.first.get_by_role("button").click()  # what is open is no reason to forget the rest
    family.page.get_by_role("button", name="More predicted answers").click()
    expect(predicted).to_have_count(110)


# The graph, and pages of the model.


def graph_node(visit: Visit, name: str) -> Locator:
    return visit.page.locator(".graph-entity").filter(has_text=name).locator("text").first


def test_the_graph_grows_and_connects_what_is_chosen(family: Visit) -> None:
    family.page.emulate_media(reduced_motion="reduce")
    family.open(entity="William")
    nodes = family.page.locator(".graph-entity")
    expect(graph_node(family, "Harry")).to_be_visible()
    before = nodes.count()
    graph_node(family, "Harry").click()
    expect(nodes).not_to_have_count(before)
    family.page.get_by_role("button", name="Add predicted edges").click()
    expect(family.page.locator(".graph-edge.predicted").first).to_be_attached()
    expect(family.page.locator(".graph-note.predicted").first).to_contain_text("%")
    svg = family.saved(family.page.get_by_role("button", name="SVG"))
    assert svg.startswith("<svg")
    assert "William" in svg
    with family.page.expect_download() as download:
        family.page.get_by_role("button", name="PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    graph_node(family, "Diana").click(modifiers=["Shift"])
    graph_node(family, "Catherine").click(modifiers=["Shift"])
    family.page.get_by_role("button", name="Connect the two chosen").click()
    expect(family.page).to_have_url(f"{family.url}?entity=Diana&to=Catherine")
    expect(family.page.locator(".paths li").first).to_be_visible()
    graph_node(family, "Catherine").dblclick()
    expect(family.page.get_by_role("heading", level=1)).to_have_text("Catherine")


def test_answers_are_drawn_as_a_graph(family: Visit) -> None:
    family.page.emulate_media(reduced_motion="reduce")
    family.open(q=COUSINS).page.get_by_text("Draw as a graph").click()
    expect(family.page.locator(".graph-entity.centre")).to_have_count(8)
    expect(graph_node(family, "Charles")).to_be_attached()
    expect(family.page.locator(".graph-note.predicted").first).to_contain_text("father of, backwards")


def test_paper_shows_the_answers_alone(family: Visit) -> None:
    family.open(q="William/fatherOf")
    expect(family.answers.first).to_be_visible()
    family.page.emulate_media(media="print")
    expect(family.answers.first).to_be_visible()
    expect(family.page.locator(".asked")).to_have_text("William/fatherOf")
    for hidden in (".top", "#builder", ".takeaway", ".threshold", ".drawn"):
        expect(family.page.locator(hidden)).to_be_hidden()


def test_the_graph_can_be_worked_as_a_list(family: Visit) -> None:
    family.page.emulate_media(reduced_motion="reduce")
    family.open(entity="William").page.get_by_text("The same as a list").click()
    items = family.page.locator(".graph-list li")
    before = items.count()
    items.filter(has_text="Harry").get_by_role("button", name="Open Harry").click()
    expect(items).not_to_have_count(before)
    items.get_by_label("Choose William", exact=True).check()
    items.get_by_label("Choose Diana", exact=True).check()
    expect(family.page.get_by_role("button", name="Connect the two chosen")).to_be_enabled()


def test_a_relation_has_a_page(family: Visit) -> None:
    family.open(q="William/fatherOf")
    menu(family, 1, "About this relation")
    expect(family.page.get_by_role("heading", level=1)).to_have_text("fatherOf")
    expect(family.page.locator(".sheet")).to_contain_text("Leads from")
    expect(family.page.locator(".sheet")).to_contain_text("stood among the first ten predictions", timeout=WHILE_MADE)
    expect(family.page.locator(".facts li")).to_have_count(12)


def test_a_relation_s_page_tells_its_rules_in_sentences(family: Visit) -> None:
    family.open(relation="spouseOf")
    rules = family.page.locator(".rules li")
    rule = rules.filter(has_text=re.compile(r"^If A mother of B and C father of B, then A spouse of Cright in \d"))
    expect(rule).to_have_count(1, timeout=WHILE_MADE)
    expect(rule).to_contain_text("of known cases")
    expect(rule).to_contain_text(re.compile(r"borne out by \d+ facts$"))
    expect(rules.filter(has_text=re.compile("^If B spouse of A, then A spouse of B"))).to_have_count(1)
    expect(family.page.get_by_role("heading", name="What follows from it")).to_be_visible()
    rule.get_by_role("link", name="mother of").click()
    expect(family.page.get_by_role("heading", level=1)).to_have_text("motherOf")
    expect(rules.filter(has_text="then A spouse of C").first).to_be_visible()


def test_a_run_has_a_page_with_curves_and_what_probabilities_are_worth(family: Visit) -> None:
    family.open().page.get_by_role("link", name="Run", exact=True).click()
    charts = family.page.locator(".chart svg")
    expect(charts.first).to_have_attribute("aria-label", re.compile("loss"))
    expect(family.page.locator(".chart .dot").first).to_be_visible(timeout=WHILE_MADE)
    expect(family.page.get_by_role("table")).to_contain_text("fatherOf")
    family.page.get_by_role("table").get_by_role("link", name="fatherOf").click()
    expect(family.page.get_by_role("heading", level=1)).to_have_text("fatherOf")


def test_entities_stand_on_a_map(family: Visit) -> None:
    family.open().page.get_by_role("link", name="Map", exact=True).click()
    expect(family.page.locator("canvas.map")).to_be_visible(timeout=WHILE_MADE)
    expect(family.page.locator(".sheet")).to_contain_text("719 entities")
    expect(family.page.locator(".sheet")).to_contain_text("coloured by the relation that they have most facts of")
    expect(family.page.locator(".legend")).to_contain_text("born in, backwards")
    family.page.get_by_role("combobox", name="Find on the map").fill("William")
    family.page.get_by_role("option", name="William", exact=True).click()
    expect(family.page.locator(".pointed-at")).to_contain_text("William")
    family.page.locator(".legend summary").first.click()
    family.page.locator(".legend details a").first.click()
    expect(family.page.locator(".graph")).to_be_visible()
