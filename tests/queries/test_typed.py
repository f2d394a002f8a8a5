"""What is being typed: the names of half a query, which of them are relations, and what these continue."""

from __future__ import annotations

import pytest
from hypothesis import given

from blockhole.queries.language import (
    Anchor,
    Hop,
    Piece,
    Projection,
    Query,
    last_part,
    parse,
    pieces,
    typed_hop,
    typed_name,
)
from blockhole.queries.tree import MAX_HOPS
from tests.queries.trees import queries, texts, trees


@given(texts)
def test_pieces_follow_one_another_and_none_is_empty_in_vain(text: str) -> None:
    found = pieces(text)
    ends = [0]
    for piece in found:
        assert ends[-1] <= piece.column <= piece.name_column <= piece.end <= len(text)
        ends.append(piece.end)
    assert all(piece.finished for piece in found[:-1])
    assert (found[0].kind, found[0].after) == ("entity", None)
    assert last_part(text) == found[-1].column


# A word such as not, though a quote follows it at once, is no part of a path.
@given(
    texts.filter(lambda text: not set(text) & set("()&|!") and not any(word in text for word in ("and", "or", "not")))
)
def test_the_pieces_of_a_path_are_what_stands_between_slashes(text: str) -> None:
    found = pieces(text)
    assert "/".join(text[piece.column : piece.end] for piece in found) == text
    assert [piece.kind for piece in found] == ["entity", *["relation"] * (len(found) - 1)]
    assert [piece.finished for piece in found] == [True] * (len(found) - 1) + [False]
    assert [piece.after for piece in found[1:]] == [text[: piece.column - 1] for piece in found[1:]]


@given(queries | trees())
def test_the_pieces_of_a_query_are_its_names(query: Query) -> None:
    named = [node for node in query.nodes() if isinstance(node, Anchor | Projection)]
    for each in (str(query), str(query).replace("&", "and").replace("|", "or").replace("!", "not ")):
        if parse(each) != query:  # a mark was in a name
            continue
        found = pieces(each)
        assert [(piece.kind, piece.name, piece.inverse) for piece in found] == [
            ("entity", node.entity, False)
            if isinstance(node, Anchor)
            else ("relation", node.hop.relation, node.hop.inverse)
            for node in named
        ]


@given(trees())
def test_a_hop_continues_the_path_before_it(query: Query) -> None:
    text = str(query)
    hops = [node for node in parse(text).nodes() if isinstance(node, Projection)]
    typed = [piece for piece in pieces(text) if piece.kind == "relation"]
    for node, piece in zip(hops, typed, strict=True):
        assert piece.after is not None
        assert parse(f"{piece.after}/r").root == Projection(node.of, Hop("r"))


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("", Piece("entity", 0, 0, 0, "", False, False)),
        (" Wil", Piece("entity", 0, 4, 1, "Wil", False, False)),
        ("William ", Piece("entity", 0, 8, 0, "William ", False, False)),
        ("William I", Piece("entity", 0, 9, 0, "William I", False, False)),
        ('"William I', Piece("entity", 0, 10, 0, "William I", False, False)),
        ("^Wil", Piece("entity", 0, 4, 0, "^Wil", False, False)),
        ("a/", Piece("relation", 2, 2, 2, "", False, False, "a")),
        ("a/ ^", Piece("relation", 2, 4, 4, "", True, False, "a")),
        ("a/^fath", Piece("relation", 2, 7, 3, "fath", True, False, "a")),
        ("a/**^ fath", Piece("relation", 2, 10, 6, "fath", False, False, "a")),
        ("a/fath^-1", Piece("relation", 2, 9, 2, "fath", True, False, "a")),
        ('a/"b/c"/^<d/e', Piece("relation", 8, 13, 9, "d/e", True, False, 'a/"b/c"')),
        (r'a/"b\"c', Piece("relation", 2, 7, 2, 'b"c', False, False, "a")),
        (r'a/"b\q', Piece("relation", 2, 6, 2, r"b\q", False, False, "a")),
        # inside branches
        ("(", Piece("entity", 1, 1, 1, "", False, False)),
        ("(Wil", Piece("entity", 1, 4, 1, "Wil", False, False)),
        ("a/r & ", Piece("entity", 6, 6, 6, "", False, False)),
        ("a/r &Wil", Piece("entity", 5, 8, 5, "Wil", False, False)),
        ("a/r and Wil", Piece("entity", 8, 11, 8, "Wil", False, False)),
        ("a/r | !Wil", Piece("entity", 7, 10, 7, "Wil", False, False)),
        ("a/r and not Wil", Piece("entity", 12, 15, 12, "Wil", False, False)),
        ("a/r & (b/s | c/", Piece("relation", 15, 15, 15, "", False, False, " c")),
        ("(a/r & b/s)/fa", Piece("relation", 12, 14, 12, "fa", False, False, "(a/r & b/s)")),
        ("x/p | (a/r & b/s)/t/", Piece("relation", 20, 20, 20, "", False, False, " (a/r & b/s)/t")),
        ("(a/r & b/s)", Piece("relation", 9, 10, 9, "s", False, True, " b")),
        ("a/(fa", Piece("relation", 3, 5, 3, "fa", False, False, "a")),
        ("x/p & a/(r|^fa", Piece("relation", 11, 14, 12, "fa", True, False, " a")),
        ("a/(r|s/", Piece("relation", 7, 7, 7, "", False, False, "a/s")),
        ("a/(r|s)/", Piece("relation", 8, 8, 8, "", False, False, "a/(r|s)")),
        ("a/^(r|fa", Piece("relation", 6, 8, 6, "fa", False, False)),
        # a mark in a name that nobody has quoted yet
        ("AT&T", Piece("entity", 0, 4, 0, "AT&T", False, False)),
        ("AT&", Piece("entity", 0, 3, 0, "AT&", False, False)),
        ("^(a", Piece("entity", 0, 3, 0, "^(a", False, False)),
        ("Paris (T", Piece("entity", 0, 8, 0, "Paris (T", False, False)),
        ("Yahoo!", Piece("entity", 0, 6, 0, "Yahoo!", False, False)),
        ("William and", Piece("entity", 0, 11, 0, "William and", False, False)),
    ],
)
def test_what_is_being_typed(text: str, last: Piece) -> None:
    assert pieces(text)[-1] == last


def test_a_hop_or_a_name_is_typed_alone() -> None:
    hop = typed_hop("^fath")
    assert hop == Piece("relation", 0, 5, 1, "fath", True, False)
    assert typed_hop(" ^fa ") == Piece("relation", 0, 5, 2, "fa ", True, False)  # the space may be one of the name
    assert typed_hop('**"x"^-1') == Piece("relation", 0, 8, 2, "x", False, False)
    assert typed_name("Wil ") == "Wil "
    assert [typed_name(text) for text in ("Wil", ' "Wil', "<Wil", '"Wil"', "a/b", "R&B", "")] == [
        "Wil",
        "Wil",
        "Wil",
        "Wil",
        "a/b",
        "R&B",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "( a / ^ r  & !b /s^-1 ) / t",
            [
                Piece("entity", 2, 4, 2, "a", False, True),
                Piece("relation", 5, 9, 8, "r", True, True, " a "),
                Piece("entity", 14, 16, 14, "b", False, True),
                Piece("relation", 17, 21, 17, "s", True, True, "b "),
                Piece("relation", 25, 27, 26, "t", False, False, "( a / ^ r  & !b /s^-1 ) "),
            ],
        ),
        (
            "a/ (  r | ^ (s ) ) /",
            [
                Piece("entity", 0, 1, 0, "a", False, True),
                Piece("relation", 6, 7, 6, "r", False, True, "a"),
                Piece("relation", 13, 14, 13, "s", False, True),  # inside ^( ), nothing is continued
                Piece("relation", 20, 20, 20, "", False, False, "a/ (  r | ^ (s ) ) "),
            ],
        ),
        (
            "a/(r/s|t)/u & x",
            [
                Piece("entity", 0, 1, 0, "a", False, True),
                Piece("relation", 3, 4, 3, "r", False, True, "a"),
                Piece("relation", 5, 6, 5, "s", False, True, "a/r"),
                Piece("relation", 7, 8, 7, "t", False, True, "a"),
                Piece("relation", 10, 11, 10, "u", False, True, "a/(r/s|t)"),
                Piece("entity", 14, 15, 14, "x", False, False),
            ],
        ),
        (
            "a & !(b | c /r) /s",
            [
                Piece("entity", 0, 1, 0, "a", False, True),
                Piece("entity", 6, 7, 6, "b", False, True),
                Piece("entity", 10, 12, 10, "c", False, True),
                Piece("relation", 13, 14, 13, "r", False, True, " c "),
                Piece("relation", 17, 18, 17, "s", False, False, "(b | c /r) "),
            ],
        ),
        ("!!a & (b", [Piece("entity", 2, 3, 2, "a", False, True), Piece("entity", 7, 8, 7, "b", False, False)]),
        ("( )/r", [Piece("entity", 2, 2, 2, "", False, True), Piece("relation", 4, 5, 4, "r", False, False, "( )")]),
        (
            "a/r ^-1 & b",
            [
                Piece("entity", 0, 1, 0, "a", False, True),
                Piece("relation", 2, 7, 2, "r", True, True, "a"),
                Piece("entity", 10, 11, 10, "b", False, False),
            ],
        ),
        # marks that mean nothing where they stand belong to a name, or to nothing behind a )
        (
            "a )/ b",
            [Piece("entity", 0, 3, 0, "a )", False, True), Piece("relation", 4, 6, 5, "b", False, False, "a )")],
        ),
        ("a/!r", [Piece("entity", 0, 1, 0, "a", False, True), Piece("relation", 2, 4, 2, "!r", False, False, "a")]),
        ("a/^r(s", [Piece("entity", 0, 1, 0, "a", False, True), Piece("relation", 2, 6, 3, "r(s", True, False, "a")]),
        (
            "(a)(b/ r",
            [Piece("entity", 1, 2, 1, "a", False, True), Piece("relation", 6, 8, 7, "r", False, False, "(a)(b")],
        ),
    ],
)
def test_all_pieces_of_a_text(text: str, expected: list[Piece]) -> None:
    assert pieces(text) == expected


def test_a_text_too_long_for_a_query_is_not_copied_for_each_hop() -> None:
    found = pieces("a" + "/r" * 200)
    assert len(found) == 201
    assert [piece.after for piece in found[1:]] == [
        "a" + "/r" * (hop - 1) if hop <= 2 * MAX_HOPS else None for hop in range(1, 201)
    ]


@pytest.mark.parametrize(
    ("text", "inverse"),
    [("r", False), ("r^-1", True), ("r^-1^-1", False), ("^r^-1", False), ("^^r", False), ("^^^r", True), ("^", True)],
)
def test_inverse_marks_of_both_sides_are_counted(text: str, inverse: bool) -> None:
    hop = typed_hop(text)
    assert (hop.name, hop.inverse) == (text.strip("^-1"), inverse)
