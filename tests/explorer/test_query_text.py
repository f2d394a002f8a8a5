"""The page cuts queries where the language does: its pieces are compared with what Python writes and parses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from blockhole.queries.language import Hop, PathQuery, write_name

NAMES = st.text(st.sampled_from('ab/^"<>\\ *é😀:') | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
QUERIES = st.builds(PathQuery, NAMES, st.lists(st.builds(Hop, NAMES, st.booleans()), min_size=1, max_size=4).map(tuple))


@pytest.fixture(scope="module")
def page(browser: Browser, url: str) -> Page:
    page = browser.new_page()
    page.goto(url)
    return page


def call(page: Page, function: str, *arguments: Any) -> Any:
    script = f"async given => (await import('/static/query-text.js')).{function}(...given)"
    return page.evaluate(script, arguments)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(query=QUERIES)
def test_pieces_are_the_names_as_the_language_writes_them(page: Page, query: PathQuery) -> None:
    pieces = call(page, "pieces", str(query))
    assert [piece["text"] for piece in pieces] == [write_name(query.source), *map(str, query.hops)]
    assert "/".join(piece["text"] for piece in pieces) == str(query)


@pytest.mark.parametrize(
    ("text", "caret", "piece", "place"),
    [
        ("", 0, "", 0),
        ("Wil", 3, "Wil", 0),
        ("William/", 8, "", 1),
        ("William/^fa", 11, "^fa", 1),
        ('"a/b', 4, '"a/b', 0),
        ('"a\\"/b"/r', 9, "r", 1),
        ("<http://x/y>/r/s", 14, "r", 1),
        ("<http://x", 9, "<http://x", 0),
    ],
)
def test_the_piece_at_the_caret(page: Page, text: str, caret: int, piece: str, place: int) -> None:
    found = call(page, "pieceAt", text, caret)
    assert (found["piece"]["text"], found["place"]) == (piece, place)


@pytest.mark.parametrize(
    ("text", "inverse", "name"),
    [
        ("fa", False, "fa"),
        ("^fa", True, "fa"),
        ("**fa", True, "fa"),
        ("^^ fa", False, "fa"),
        ('^"a b', True, "a b"),
        ('"a \\"b\\""', False, 'a "b"'),
        ("<http://x>", False, "http://x"),
        ("^", True, ""),
    ],
)
def test_what_is_looked_for(page: Page, text: str, inverse: bool, name: str) -> None:
    assert call(page, "typedName", text) == {"inverse": inverse, "name": name}


def test_other_orders(page: Page) -> None:
    assert call(page, "otherOrders", "a/r/s/s") == ["a/s/r/s"]
    assert call(page, "otherOrders", "a/r/^r") == ["a/^r/r"]
    assert call(page, "otherOrders", "a/r/r") == []
    assert call(page, "otherOrders", "a/r") == []
