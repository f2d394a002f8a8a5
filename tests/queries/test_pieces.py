"""Text that is being typed, taken apart as the language takes whole queries apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.queries.language import Hop, PathQuery, end_of_name, parse, pieces, write_name

NAMES = st.text(st.sampled_from('ab/^"<>\\ *é😀:') | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
QUERIES = st.builds(PathQuery, NAMES, st.lists(st.builds(Hop, NAMES, st.booleans()), min_size=1, max_size=4).map(tuple))


@given(QUERIES)
def test_pieces_of_a_query_are_its_names_and_hops(query: PathQuery) -> None:
    text = str(query)
    found = pieces(text)
    assert [text[piece.start : piece.end] for piece in found] == [write_name(query.source), *map(str, query.hops)]
    assert [(piece.inverse, piece.name) for piece in found[1:]] == [(hop.inverse, hop.relation) for hop in query.hops]
    assert (found[0].kind, found[0].name) == ("entity", query.source)
    assert {piece.kind for piece in found[1:]} == {"relation"}


@given(st.text(st.sampled_from('ab/^"<>\\ *-1u') | st.characters(exclude_categories=["Cs"]), max_size=20))
def test_any_text_has_pieces_and_they_leave_nothing_out(text: str) -> None:
    assert "/".join(text[piece.start : piece.end] for piece in pieces(text)) == text


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("", ("entity", False, "")),
        ("Wil", ("entity", False, "Wil")),
        (" number 1 ", ("entity", False, "number 1")),
        ('"George III"', ("entity", False, "George III")),
        ('"a/b', ("entity", False, "a/b")),
        ("<http://x", ("entity", False, "http://x")),
        ("^x", ("entity", False, "^x")),
        ("William/", ("relation", False, "")),
        ("William/^fa", ("relation", True, "fa")),
        ("William/ ^^ fa ", ("relation", False, "fa")),
        ("William/**fa", ("relation", True, "fa")),
        ("William/^", ("relation", True, "")),
        ("William/fa^-1", ("relation", True, "fa")),
        ("William/fa^-", ("relation", False, "fa")),
        ('William/^"a b', ("relation", True, "a b")),
        ('William/"a \\"b\\""^-1', ("relation", True, 'a "b"')),
        ('William/"\\u00e9\\n', ("relation", False, "é\n")),
        ("<http://x/y>/r", ("relation", False, "r")),
        ('"a\\"/b"/r', ("relation", False, "r")),
    ],
)
def test_the_last_piece_of_what_is_typed(text: str, last: tuple[str, bool, str]) -> None:
    piece = pieces(text)[-1]
    assert (piece.kind, piece.inverse, piece.name) == last
    assert piece.end == len(text)


@given(QUERIES)
def test_a_name_ends_where_the_next_mark_begins(query: PathQuery) -> None:
    text = str(query) + "^-1"
    start = len(str(query)) - len(write_name(query.hops[-1].relation))
    assert end_of_name(text, start) == len(text) - len("^-1")
    assert parse(text).hops[-1].inverse is not query.hops[-1].inverse
