"""The query language: what it reads, what it writes, and what it says when it cannot."""

from __future__ import annotations

import string
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blockhole.errors import QueryError, QuerySyntaxError, UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.language import (
    Anchor,
    Hop,
    Piece,
    Projection,
    Query,
    encode,
    encode_hop,
    encode_hops,
    encode_prefix,
    hop_in_column,
    last_part,
    lex,
    parse,
    pieces,
    typed_hop,
    typed_name,
    write_name,
)

names = st.text(min_size=1)
queries = st.builds(Query, names, st.lists(st.builds(Hop, names, st.booleans()), min_size=1, max_size=4).map(tuple))


def graph(*triples: tuple[str, str, str]) -> KnowledgeGraph:
    entities = list(dict.fromkeys(name for s, _, t in triples for name in (s, t)))
    relations = list(dict.fromkeys(r for _, r, _ in triples))
    ids = [(entities.index(s), relations.index(r), entities.index(t)) for s, r, t in triples]
    return KnowledgeGraph(
        Vocabulary(entities, "entity"), Vocabulary(relations, "relation"), np.array(ids, dtype=np.int32)
    )


def test_figure_1() -> None:
    query = parse("William/^fatherOf/brotherOf/fatherOf")
    assert query == Query("William", (Hop("fatherOf", True), Hop("brotherOf"), Hop("fatherOf")))
    assert str(query) == "William/^fatherOf/brotherOf/fatherOf"


def test_a_query_is_a_tree_that_remembers_where_its_names_stand() -> None:
    query = parse(" William / ^fatherOf/ brotherOf")
    father = Projection(Anchor("William"), Hop("fatherOf", True))
    assert query.root == Projection(father, Hop("brotherOf"))
    assert query == Query(father, [Hop("brotherOf")]) == Query("William", [Hop("fatherOf", True), Hop("brotherOf")])
    assert query.nodes() == [Anchor("William"), father, query.root]
    assert [node.column for node in query.nodes()] == [1, 12, 22]
    assert (query.source, query.hops) == ("William", (Hop("fatherOf", True), Hop("brotherOf")))
    assert query.text == " William / ^fatherOf/ brotherOf"
    assert Query("a", [Hop("r")]).text is None


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a/**r", "a/^r"),
        ("a/r^-1", "a/^r"),
        ("a/^^r", "a/r"),
        ("a/^r^-1", "a/r"),
        ("a/****r", "a/r"),
        ("a/^**r", "a/r"),
        ("a/r^-1^-1", "a/r"),
        (" a / ^ r ^-1 / ** q ", "a/r/^q"),
        ("a/^<r>", "a/^r"),
        ('"a"/"r"', "a/r"),
        ("__elephantiasis_1/_type_of", "__elephantiasis_1/_type_of"),
        ("'hood.n.01/_hypernym", "'hood.n.01/_hypernym"),
        ("Élise/日本語", "Élise/日本語"),
        ('"William IV"/^fatherOf', '"William IV"/^fatherOf'),
        ('"/m/027rn"/</location/country>', '"/m/027rn"/"/location/country"'),
        ("<http://ex.org/a>/^<http://ex.org/p>", "<http://ex.org/a>/^<http://ex.org/p>"),
        ("ex:a/ex:p", "ex:a/ex:p"),
        (r'"a\"b\\c"/r', r'"a\"b\\c"/r'),
        (r'"tab\tline\nend\r"/"\u00e9\U0001F600"', r'"tab\u0009line\u000Aend\u000D"/é😀'),
        (r'"\uFFFF"/r', r'"\uFFFF"/r'),
        (r'"\uD7FF\uE000"/"\U0010FFFF"', r'"\uD7FF\uE000"/"\U0010FFFF"'),
        ('a/"**r"', 'a/"**r"'),
        ('a/"^r"', 'a/"^r"'),
        ('a/"r^-1"', 'a/"r^-1"'),
    ],
)
def test_reads_and_prints(text: str, printed: str) -> None:
    assert str(parse(text)) == printed
    assert parse(printed) == parse(text)


@given(queries)
@example(Query('"', (Hop("\\", True), Hop("^"), Hop("/"), Hop("**"), Hop("^-1"))))
@example(Query("<x>", (Hop("http://a/b>c"), Hop("\u202e"), Hop("\x00\x85\u2028"))))
def test_printed_queries_parse_to_the_same(query: Query) -> None:
    text = str(query)
    assert parse(text) == query
    assert text.isprintable()


@given(names)
def test_names_without_need_are_not_quoted(name: str) -> None:
    plain = set(string.ascii_letters + string.digits + "_-.:',;=&%$#@~[]{}`")
    if set(name) <= plain:
        assert write_name(name) == name


pieces_of_text = st.sampled_from(
    ["a", "r", "/", "^", "**", "^-1", '"', "\\", "<", ">", " ", "\n", "\\u00", "*", "(", "語"]
)


@given(st.text() | st.lists(pieces_of_text).map("".join))
def test_any_text_parses_or_says_where_it_does_not(text: str) -> None:
    failure: QuerySyntaxError | None = None
    try:
        query = parse(text)
    except QuerySyntaxError as error:
        failure = error
    if failure is None:
        assert parse(str(query)) == query
    else:
        assert 0 <= failure.column <= len(text)
        assert str(failure).splitlines()[2].strip() == "^"


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 0, "the query is empty: write source/relation"),
        ("  ", 2, "the query is empty: write source/relation"),
        ("William", 7, "a query needs at least one hop: write source/relation"),
        ("William/", 8, "a relation is missing at the end"),
        ("William/^", 9, "a relation is missing at the end"),
        ("/m/027rn/r", 0, 'a source entity is missing before this /; put a name with / in double quotes: "a/b"'),
        ("a//r", 2, 'a relation is missing before this /; put a name with / in double quotes: "a/b"'),
        ("^a/r", 0, "the first name is the source entity, which has no inverse"),
        ("**a/r", 0, "the first name is the source entity, which has no inverse"),
        ("William IV/r", 8, 'expected / here; put a name with spaces or punctuation in double quotes: "a b"'),
        ('a/b"c"', 3, 'expected / here; put a name with spaces or punctuation in double quotes: "a b"'),
        ("a/>", 2, 'expected a relation here; put a name with spaces or punctuation in double quotes: "a b"'),
        ("a/(b|c)", 2, 'paths have no (, only / and ^; put a name with spaces or punctuation in double quotes: "a b"'),
        ("a/r+", 3, 'paths have no +, only / and ^; put a name with spaces or punctuation in double quotes: "a b"'),
        ("a/r^2", 3, "^ goes before a relation, or after it as ^-1; put a name with ^ in double quotes"),
        ('a/"r', 2, "the quote that opens here is not closed"),
        (r'a/"r\"', 2, "the quote that opens here is not closed"),
        ("a/<r", 2, "the < that opens here is not closed by >"),
        ('a/""', 2, "a name cannot be empty"),
        ("a/<>", 2, "a name cannot be empty"),
        (r'a/"r\q"', 4, r"unknown escape: write \" \\ \n \r \t \uXXXX or \UXXXXXXXX"),
        (r'a/"\uD800"', 3, r"unknown escape: write \" \\ \n \r \t \uXXXX or \UXXXXXXXX"),
        (r'a/"\uDFFF"', 3, r"unknown escape: write \" \\ \n \r \t \uXXXX or \UXXXXXXXX"),
        (r'a/"\U00110000"', 3, r"unknown escape: write \" \\ \n \r \t \uXXXX or \UXXXXXXXX"),
    ],
)
def test_errors_point_at_the_column(text: str, column: int, problem: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert caught.value.column == column
    assert str(caught.value) == f"{problem}\n  {text}\n  {' ' * column}^"


def test_the_caret_stands_under_wide_combining_and_control_characters() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("日本e\u0301\tx/r")
    _, text, caret = str(caught.value).splitlines()
    assert text == "  日本e\u0301\ufffdx/r"
    assert caret == "  " + " " * 6 + "^"  # two wide characters, e with its accent, the tab's stand-in


def test_a_long_query_is_cut_around_the_caret() -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("a/" + "b" * 500 + "(" + "c" * 500)
    _, text, caret = str(caught.value).splitlines()
    assert text == "  …" + "b" * 60 + "(" + "c" * 39 + "…"
    assert text[caret.index("^")] == "("


def test_queries_cannot_be_changed_and_can_be_keys() -> None:
    query = parse("a/^r")
    with pytest.raises(FrozenInstanceError):
        query.source = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        query.hops[0].inverse = False  # type: ignore[misc]
    assert {query: 1}[parse("a/**r")] == 1


def test_queries_have_a_hop_and_names() -> None:
    with pytest.raises(ValueError, match="at least one hop"):
        Query("a", ())
    with pytest.raises(ValueError, match="not empty"):
        Query("a", (Hop(""),))


def test_encode_uses_one_space_for_relations_and_inverses() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    assert encode("William/^fatherOf/brotherOf", family) == (1, [2, 1])
    assert encode(parse("William/^fatherOf/brotherOf"), family) == (1, [2, 1])


def test_an_unknown_name_is_pointed_at_and_its_neighbours_named() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    with pytest.raises(UnknownName) as caught:
        encode("William / **fatherof", family)
    assert str(caught.value) == (
        "unknown relation 'fatherof'; did you mean 'fatherOf' or 'brotherOf'?\n  William / **fatherof\n"
        + " " * 14
        + "^"
    )
    assert isinstance(caught.value, QueryError)
    assert (caught.value.column, caught.value.nearest) == (12, ("fatherOf", "brotherOf"))
    with pytest.raises(
        UnknownName, match=r"unknown entity 'Wiliam'; did you mean 'William'\?\n  Wiliam/fatherOf\n  \^"
    ):
        encode(Query("Wiliam", (Hop("fatherOf"),)), family)
    with pytest.raises(UnknownName, match=r"unknown entity 'zzz'\.\n  zzz/fatherOf\n  \^"):
        encode("zzz/fatherOf", family)


def test_names_are_suggested_as_a_query_holds_them() -> None:
    cities = graph(("http://ex.org/Zürich", "liegt in", "http://ex.org/Schweiz"))
    with pytest.raises(
        UnknownName, match=r"^unknown entity 'Zürich'; did you mean <http://ex.org/Zürich>\?\n"
    ) as caught:
        encode('Zürich/"liegt in"', cities)
    assert caught.value.nearest == ("http://ex.org/Zürich",)
    with pytest.raises(UnknownName, match=r"^unknown relation 'liegtin'; did you mean \"liegt in\"\?\n"):
        encode("<http://ex.org/Zürich>/liegtin", cities)


def test_the_beginning_of_a_query_may_be_a_source_alone() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    assert encode_prefix("William", family) == (1, [])
    assert encode_prefix(" William / ^fatherOf", family) == (1, [2])
    with pytest.raises(QuerySyntaxError, match="a relation is missing at the end"):
        encode_prefix("William/", family)
    with pytest.raises(UnknownName) as caught:
        encode_prefix("William/fatherof", family)
    assert caught.value.column == 8


def test_a_hop_alone() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    texts = ("fatherOf", " ^fatherOf ", "**brotherOf", "brotherOf^-1")
    assert [encode_hop(text, family.relations) for text in texts] == [0, 2, 3, 3]
    with pytest.raises(UnknownName, match="unknown relation 'fatherOf/brotherOf'"):
        encode_hop("fatherOf/brotherOf", family.relations)
    with pytest.raises(QuerySyntaxError, match="the quote that opens here is not closed"):
        encode_hop('^"fatherOf', family.relations)
    with pytest.raises(UnknownName, match="unknown relation 'fatherof'"):
        encode_hop("^fatherof", family.relations)


def test_relations_alone_are_encoded_where_the_entities_are_elsewhere() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    assert encode_hops(parse("Nobody/^fatherOf/brotherOf"), family.relations) == [2, 1]
    with pytest.raises(UnknownName, match=r"unknown relation 'fatherof'; .*\n  Nobody/fatherof\n         \^"):
        encode_hops(parse("Nobody/fatherof"), family.relations)


@given(queries)
def test_a_made_query_is_pointed_at_as_a_read_one_is(query: Query) -> None:
    nothing = graph(("no such entity", "no such relation", "either"))
    said = []
    for each in (query, parse(str(query))):
        with pytest.raises(UnknownName) as caught:
            encode(each, nothing)
        said.append((str(caught.value), caught.value.column))
    assert said[0] == said[1]


def test_a_hop_in_a_column_is_not_quoted() -> None:
    texts = ("born in", "^born in", "**a/b", "^^r", '"')
    assert [hop_in_column(text) for text in texts] == [
        Hop("born in"),
        Hop("born in", True),
        Hop("a/b", True),
        Hop("r"),
        Hop('"'),
    ]


@given(st.text() | st.lists(pieces_of_text).map("".join))
def test_tokens_cover_all_but_white_space(text: str) -> None:
    at = 0
    for token in lex(text):
        assert text[at : token.column].strip() == ""
        assert at <= token.column < token.end
        at = token.end
    assert text[at:].strip() == ""


@given(st.text() | st.lists(pieces_of_text).map("".join))
def test_pieces_are_what_stands_between_slashes(text: str) -> None:
    found = pieces(text)
    assert "/".join(text[piece.column : piece.end] for piece in found) == text
    assert [piece.kind for piece in found] == ["entity", *["relation"] * (len(found) - 1)]
    assert [piece.finished for piece in found] == [True] * (len(found) - 1) + [False]
    assert all(piece.column <= piece.name_column <= piece.end for piece in found)
    assert last_part(text) == found[-1].column


@given(queries)
def test_the_pieces_of_a_query_are_its_names(query: Query) -> None:
    source, *hops = pieces(str(query))
    assert source.name == query.source
    assert [Hop(piece.name, piece.inverse) for piece in hops] == list(query.hops)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("", Piece("entity", 0, 0, 0, "", False, False)),
        (" Wil", Piece("entity", 0, 4, 1, "Wil", False, False)),
        ("William ", Piece("entity", 0, 8, 0, "William ", False, False)),
        ("William I", Piece("entity", 0, 9, 0, "William I", False, False)),
        ('"William I', Piece("entity", 0, 10, 0, "William I", False, False)),
        ("^Wil", Piece("entity", 0, 4, 0, "^Wil", False, False)),
        ("a/", Piece("relation", 2, 2, 2, "", False, False)),
        ("a/ ^", Piece("relation", 2, 4, 4, "", True, False)),
        ("a/^fath", Piece("relation", 2, 7, 3, "fath", True, False)),
        ("a/**^ fath", Piece("relation", 2, 10, 6, "fath", False, False)),
        ("a/fath^-1", Piece("relation", 2, 9, 2, "fath", True, False)),
        ('a/"b/c"/^<d/e', Piece("relation", 8, 13, 9, "d/e", True, False)),
        (r'a/"b\"c', Piece("relation", 2, 7, 2, 'b"c', False, False)),
        (r'a/"b\q', Piece("relation", 2, 6, 2, r"b\q", False, False)),
    ],
)
def test_what_is_being_typed(text: str, last: Piece) -> None:
    assert pieces(text)[-1] == last


def test_a_hop_or_a_name_is_typed_alone() -> None:
    hop = typed_hop("^fath")
    assert (hop.kind, hop.name, hop.inverse) == ("relation", "fath", True)
    assert [typed_name(text) for text in ("Wil", ' "Wil', "<Wil", '"Wil"', "a/b", "")] == [
        "Wil",
        "Wil",
        "Wil",
        "Wil",
        "a/b",
        "",
    ]
