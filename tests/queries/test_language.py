"""The query language: what it reads, what it writes, and what it says when it cannot."""

from __future__ import annotations

import re
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
    Intersection,
    Negation,
    Projection,
    Query,
    Union,
    encode_chain,
    encode_entity,
    encode_hop,
    encode_hops,
    encode_path,
    encode_prefix,
    encode_tree,
    find_plan,
    hop_in_column,
    lex,
    parse,
    write_name,
)
from blockhole.queries.plans import Plan
from blockhole.queries.tokens import follows_bare, glued
from blockhole.queries.tree import negated, nodes_of
from tests.queries.trees import names, queries, texts, trees

QUOTE = 'put a name with spaces or punctuation in double quotes: "a b"'
UNBOUNDED = "! takes answers away, and here there are none to take them from: write a/r & !b/s"
NEGATED_PROPERTY = "SPARQL's negated property a/!r is not in this language, which negates sets: write a/s & !a/r"


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
    assert [node.column for node in query.nodes() if isinstance(node, Anchor | Projection)] == [1, 12, 22]
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
        # sets
        ("(a/r & b/s)/t", "(a/r & b/s)/t"),
        ("a/r|b/s", "a/r | b/s"),
        ("a/r & !(b/s/t)", "a/r & !b/s/t"),
        ("a/r & b/s | c/t", "a/r & b/s | c/t"),
        ("(a/r & b/s) | (c/t)", "a/r & b/s | c/t"),
        ("a/r & (b/s | c/t)", "a/r & (b/s | c/t)"),
        ("a/r & (b/s & (c/t & d/u))", "a/r & b/s & c/t & d/u"),
        ("a/r & !(b/s | c/t)", "a/r & !(b/s | c/t)"),
        ("!!a/r", "a/r"),
        ("a/r & !(!(b/s))", "a/r & b/s"),
        ("a/r & ! ! !b", "a/r & !b"),
        ("a/r & William", "a/r & William"),
        ("(William|Harry)/r", "(William | Harry)/r"),
        ("(((a)))/r", "a/r"),
        ("(a/r)/s", "a/r/s"),
        ('"a b"/r&"c"/s', '"a b"/r & c/s'),
        ("a/r&(b/s)", "a/r & b/s"),
        ("a/r &b/s", "a/r & b/s"),
        ('"AT&T"/r', '"AT&T"/r'),
        # words
        ("a/r and not b/s or c/t", "a/r & !b/s | c/t"),
        ("not a/r and b/s", "!a/r & b/s"),
        ("(a/r)and(b/s)or not(c/t)and d/u", "a/r & b/s | !c/t & d/u"),
        ("a/r and ! b/s", "a/r & !b/s"),
        ("a/r & not not b/s", "a/r & b/s"),
        ("Andrew/order and Orlando/notes", "Andrew/order & Orlando/notes"),
        ('"and"/r and "not"', '"and"/r & "not"'),
        # what ends a word, besides a space
        ('a/r & not"b"/s', "a/r & !b/s"),
        ('a/"r"and"b"/s or"c"/t', "a/r & b/s | c/t"),
        ("a/<r>and<b>/s or<c>/t", "a/r & b/s | c/t"),
        ("a/r and not<b>/s", "a/r & !b/s"),
        ("a/r or(b/s)", "a/r | b/s"),
        ("a/r^-1or b/s and!c/t", "a/^r | b/s & !c/t"),
        ("a/(r or^s)", "a/r | a/^s"),
        ("a/(r or**s)", "a/r | a/^s"),
        ("a/(not^-1|r)", 'a/^"not" | a/r'),
        # words where only a name can stand
        ("and/or", '"and"/"or"'),
        ("not / and / not", '"not"/"and"/"not"'),
        # alternatives
        ("a/(r|^s)", "a/r | a/^s"),
        ("a/(r or s)/t", "(a/r | a/s)/t"),
        ("a/^(r|^s)", "a/^r | a/s"),
        ("a/(r|s)^-1", "a/^r | a/^s"),
        ("a/^(r/s)", "a/^s/^r"),
        ("a/(r/s|t)", "a/r/s | a/t"),
        ("a/^(r/(s|t)/u)", "(a/^u/^s | a/^u/^t)/^r"),
        ("a/(r)", "a/r"),
        ("a/((r|s)|t)", "a/r | a/s | a/t"),
        ("b/s & a/(r|t)", "b/s & (a/r | a/t)"),
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
    plain = set(string.ascii_letters + string.digits + "_-.:',;=%$#@~[]{}`")
    if set(name) <= plain and name not in ("and", "or", "not"):
        assert write_name(name) == name


@given(texts)
def test_any_text_parses_or_says_where_it_does_not(text: str) -> None:
    failure: QueryError | None = None
    try:
        query = parse(text)
    except QueryError as error:
        failure = error
    if failure is None:
        assert parse(str(query)) == query
    elif not isinstance(failure, QuerySyntaxError):
        assert re.search(r"a query may have \d\d at most", str(failure))
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
        ("William IV/r", 8, f"expected / & or | here; {QUOTE}"),
        ('a/b"c"', 3, f"expected / & or | here; {QUOTE}"),
        ("(a b)/r", 3, f"expected / & or | here; {QUOTE}"),
        ("a/(r s)", 5, f"expected / & or | here; {QUOTE}"),
        ("a/>", 2, f"expected a relation here; {QUOTE}"),
        ("a/r+", 3, f"the language has no +; {QUOTE}"),
        ("*/r", 0, f"the language has no *; {QUOTE}"),
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
        # a side is missing
        ("a/r &", 4, "nothing stands after this &"),
        ("a/r | ", 4, "nothing stands after this |"),
        ("a/r & !", 6, "nothing stands after this !"),
        ("a/r & & b/s", 4, "nothing stands after this &"),
        ("a/r && b/s", 4, "& is written once: a/r & b/s"),
        ("a/r || b/s", 4, "| is written once: a/r | b/s"),
        ("a/r AND b/s", 4, "write and in small letters"),
        ("a/r Or b/s", 4, "write or in small letters"),
        ("(a/r & )", 5, "nothing stands after this &"),
        ("a/r and or b/s", 8, 'this or joins nothing; put a name in double quotes: "or"'),
        ("a/r and ", 4, "nothing stands after this and"),
        ("a/r and", 4, "nothing stands after this and"),
        ("a/r and b/s or", 12, "nothing stands after this or"),
        ("a/r and^b/s", 7, "the first name is the source entity, which has no inverse"),
        ('and"x"/r', 0, 'this and joins nothing; put a name in double quotes: "and"'),
        ("or(a/r)", 0, 'this or joins nothing; put a name in double quotes: "or"'),
        ("and b/s", 0, 'this and joins nothing; put a name in double quotes: "and"'),
        ("a/r & not", 6, 'this not joins nothing; put a name in double quotes: "not"'),
        ("a/r not b/s", 4, "write & !, or: and not"),
        ("| a/r", 0, "a source entity is missing before this |"),
        ("a/(r|)", 4, 'nothing stands after this |; put a name with | in double quotes: "r|"'),
        ("a/(|r)", 3, 'a relation is missing before this |; put a name with | in double quotes: "|r"'),
        ("a/(r | )", 5, "nothing stands after this |"),
        # parentheses
        ("(a/r", 0, "the ( that opens here is not closed"),
        ("a/r & (b/s | (c/t)", 6, "the ( that opens here is not closed"),
        ("(a/(r", 3, "the ( that opens here is not closed"),
        ("a/^(r|s", 3, "the ( that opens here is not closed"),
        ("(a/r))", 5, "this ) closes nothing"),
        ("a/r )", 4, "this ) closes nothing"),
        ("()/r", 1, "there is nothing in these parentheses"),
        ("a/()", 3, "there is nothing in these parentheses"),
        ("a/r & ()", 7, "there is nothing in these parentheses"),
        ("a/r (b/s)", 4, "expected / & or | before this ("),
        ("a/r !b/s", 4, "expected / & or | before this !"),
        ("(a/r)^-1", 5, "^ goes before a relation, or after it as ^-1; put a name with ^ in double quotes"),
        ("(^a)/r", 1, "the first name is the source entity, which has no inverse"),
        # names that hold marks
        ("AT&T/r", 2, 'put spaces around an & that joins two sets; put a name with & in double quotes: "AT&T"'),
        ("a/r&b/s", 3, 'put spaces around an & that joins two sets; put a name with & in double quotes: "r&b"'),
        ("a/r&", 3, 'put spaces around an & that joins two sets; put a name with & in double quotes: "r&"'),
        ("a/r&^-1", 3, 'put spaces around an & that joins two sets; put a name with & in double quotes: "r&"'),
        ("a/r&/s", 3, 'nothing stands after this &; put a name with & in double quotes: "r&"'),
        ("a/&", 2, 'a relation is missing before this &; put a name with & in double quotes: "&"'),
        ("&a/r", 0, 'a source entity is missing before this &; put a name with & in double quotes: "&a"'),
        ("a/&r", 2, 'a relation is missing before this &; put a name with & in double quotes: "&r"'),
        ("Yahoo!/r", 5, 'expected / & or | before this !; put a name with ! in double quotes: "Yahoo!"'),
        ("a(b)/r", 1, 'expected / & or | before this (; put a name with ( in double quotes: "a(b)"'),
        ("a)/r", 1, 'this ) closes nothing; put a name with ) in double quotes: "a)"'),
        # what another language has
        ("a/!r", 2, NEGATED_PROPERTY),
        ("a/^!(r|s)", 3, NEGATED_PROPERTY),
        ("a/(r|!s)", 5, NEGATED_PROPERTY),
        ("a/(r & s)", 5, "relations are joined by | alone: write a/r & a/s for what both lead to"),
        # nothing to take answers from
        ("!a/r", 0, UNBOUNDED),
        ("not a/r", 0, UNBOUNDED),
        ("a/r | !(b/s)", 6, UNBOUNDED),
        ("(!(a/r))/s", 1, UNBOUNDED),
        ("a/r & (b/s | !c/t)/u", 13, UNBOUNDED),
        ("!(a/r & b/s)", 0, UNBOUNDED),
        ("!a/r & !b/s", 0, UNBOUNDED),
        ("a/r | !(b/s & !c/t)", 6, UNBOUNDED),
        ("a/r & !((!b/s)/t)", 9, UNBOUNDED),
        # no hop
        ("a & b", 5, "a query needs at least one hop: write source/relation"),
        ("(a | !b)", 8, "a query needs at least one hop: write source/relation"),
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
    problem, text, caret = str(caught.value).splitlines()
    assert problem == "expected / & or | before this ("
    assert text == "  …" + "b" * 60 + "(" + "c" * 39 + "…"
    assert text[caret.index("^")] == "("


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a" + "/r" * 65, "the query has 65 hops; a query may have 64 at most."),
        ("a/r & " * 32 + "a/r", "the query has 33 branches; a query may have 32 at most."),
        ("a/r" + "/(r|s)" * 6, "with its alternatives written out the query has 94 hops; a query may have 64 at most."),
        ("a/" + "(" * 10_000, "parentheses may be 64 deep at most"),
        ("(" * 10_000, "parentheses may be 64 deep at most"),
        ("(" * 10_000 + "a/r" + ")" * 10_000, "parentheses may be 64 deep at most"),
        ("(" * 65 + "a/r" + ")" * 65, "parentheses may be 64 deep at most"),
    ],
)
def test_what_is_too_large_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert str(caught.value).splitlines()[0] == said


def test_what_is_just_not_too_large() -> None:
    assert parse("a" + "/r" * 64).num_hops == 64
    assert parse("a/r" + " & a/r" * 31).num_hops == 32
    assert parse("(" * 64 + "a/r" + ")" * 64) == parse("a/r")
    assert parse("!" * 10_000 + "a/r") == parse("a/r")


def test_a_tree_of_every_operator() -> None:
    query = parse("(a/r & !b) | c/s")
    a, b, c = Projection(Anchor("a"), Hop("r")), Negation(Anchor("b")), Projection(Anchor("c"), Hop("s"))
    assert query.root == Union((Intersection((a, b)), c))
    assert not query.has_negation  # no fact can make b another entity
    assert parse("a/r & !(b | c/s)").has_negation
    assert not parse("a/r & !(!b | !c/s)").has_negation
    assert not query.is_chain
    assert [node.column for node in query.nodes() if isinstance(node, Negation)] == [7]
    with pytest.raises(QueryError, match=r"^a/r & !b \| c/s is not a path from one entity: it has &, \| or !\.$"):
        query.chain()
    with pytest.raises(QueryError, match="is not a path from one entity"):
        encode_chain(query, graph(("a", "r", "b"), ("c", "s", "b")))


def test_made_trees_are_checked_like_read_ones() -> None:
    path = Projection(Anchor("a"), Hop("r"))
    assert Intersection((path, Intersection((path, path)))) == Intersection((path, path, path))
    for wrong in (Intersection, Union):
        with pytest.raises(ValueError, match="two or more parts"):
            wrong((path,))
    with pytest.raises(ValueError, match="two negations cancel"):
        Negation(Negation(path))
    with pytest.raises(QueryError, match=r"^! takes answers away, .*; this has !a/r alone\.$"):
        Query(Negation(path))
    with pytest.raises(QueryError, match="65 hops"):
        Query("a", [Hop("r")] * 65)


@pytest.mark.parametrize("text", ["a/r & a/r", "a/r | a/r", "!!a/r", "a/(r|r)", "((a/r))", "!(!a/r | !a/r)"])
def test_what_comes_to_a_path_is_one(text: str) -> None:
    query = parse(text)
    assert query.is_chain
    assert query.chain() == ("a", (Hop("r"),))
    assert query.normal == parse("a/r").root


@given(trees())
def test_any_tree_parses_from_its_text_in_marks_and_in_words(query: Query) -> None:
    assert parse(str(query)) == query
    words = str(query).replace("&", "and").replace("|", "or").replace("!", "not ")
    assert parse(words) == query


@given(st.lists(st.sampled_from(["and", "or", "not", "a", "nor", "Andrew"]), min_size=2, max_size=5), st.data())
def test_paths_mean_what_they_meant(path: list[str], data: st.DataObject) -> None:
    """Whatever their names and spaces: a word is a connective only where no name can stand."""
    spaces = st.sampled_from(["", " ", "  "])
    text = "/".join(data.draw(spaces) + name + data.draw(spaces) for name in path)
    assert parse(text).chain() == (path[0], tuple(map(Hop, path[1:])))


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
    assert encode_chain("William/^fatherOf/brotherOf", family) == (1, [2, 1])
    assert encode_chain(parse("William/^fatherOf/brotherOf"), family) == (1, [2, 1])
    for known in ("William/^fatherOf/brotherOf", "Charles/fatherOf", "Charles/(fatherOf|brotherOf) & !Andrew"):
        assert find_plan(parse(known), family) == encode_tree(known, family)
    for unknown in ("Will/fatherOf", "William/fatherof/brotherOf", "William/fatherOf & !Charles/brotherof"):
        assert find_plan(parse(unknown), family) is None


def test_an_unknown_name_is_pointed_at_and_its_neighbours_named() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    with pytest.raises(UnknownName) as caught:
        encode_chain("William / **fatherof", family)
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
        encode_chain(Query("Wiliam", (Hop("fatherOf"),)), family)
    with pytest.raises(UnknownName, match=r"unknown entity 'zzz'\.\n  zzz/fatherOf\n  \^"):
        encode_chain("zzz/fatherOf", family)


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("Charles/fatherOf & Wiliam/brotherOf", 19, "unknown entity 'Wiliam'; did you mean 'William'?"),
        ("Charles/fatherOf & !(Wiliam)", 21, "unknown entity 'Wiliam'; did you mean 'William'?"),
        ("Charles/(fatherOf|^brotherof)", 19, "unknown relation 'brotherof'; did you mean 'brotherOf' or 'fatherOf'?"),
        ("zzz/fatherOf | yyy/fatherOf", 0, "unknown entity 'zzz'."),
        (
            "fatherOf/brotherOf",
            0,
            "'fatherOf' is a relation; a query and each side of & and | starts with an entity.",
        ),
        (
            "Charles/fatherOf|brotherOf",
            17,
            "'brotherOf' is a relation; a query and each side of & and | starts with an entity, and several relations "
            "go in parentheses: a/(r|s).",
        ),
        (
            "(brotherOf & Charles)/fatherOf",
            1,
            "'brotherOf' is a relation; a query and each side of & and | starts with an entity, and several relations "
            "go in parentheses: a/(r|s).",
        ),
        ("Charles/fatherOf/William", 17, "'William' is an entity; a relation follows /."),
        ("AC|DC/fatherOf", 0, "unknown entity 'AC'; did you mean \"AC|DC\"?"),
        ("Charles/fatherOf | AC|DC/fatherOf", 19, "unknown entity 'AC'; did you mean \"AC|DC\"?"),
        ("Rock & Roll/fatherOf", 0, "unknown entity 'Rock'; did you mean \"Rock & Roll\"?"),
        ("R2/D2/fatherOf", 0, "unknown entity 'R2'; did you mean \"R2/D2\"?"),
        ("Charles/fatherOf & x|y", 19, "unknown entity 'x'."),
        # Wiliam is read first, and Charle comes first where queries are put in order.
        ("Wiliam/fatherOf & Charle/fatherOf", 0, "unknown entity 'Wiliam'; did you mean 'William'?"),
    ],
)
def test_an_unknown_name_is_pointed_at_in_any_branch(text: str, column: int, said: str) -> None:
    family = graph(
        ("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "AC|DC"), ("Rock & Roll", "brotherOf", "R2/D2")
    )
    with pytest.raises(UnknownName) as caught:
        encode_tree(text, family)
    assert str(caught.value) == f"{said}\n  {text}\n  {' ' * column}^"
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("r)", 1, 'this ) closes nothing; put a name with ) in double quotes: "r)"'),
        ("r/s t", 4, f"expected / & or | here; {QUOTE}"),
        ("r/^s ^t", 5, "^ goes before a relation, or after it as ^-1; put a name with ^ in double quotes"),
        ("r/s and", 4, "nothing stands after this and"),
        ("r/", 2, "a relation is missing at the end"),
        ("", 0, "a relation is missing at the end"),
    ],
)
def test_a_path_alone_ends_where_its_hops_end(text: str, column: int, problem: str) -> None:
    relations = Vocabulary("rst", "relation")
    assert encode_path(" r/^s / t^-1 ", relations) == [0, 4, 5]
    assert encode_path('"r"', relations) == [0]
    with pytest.raises(QuerySyntaxError) as caught:
        encode_path(text, relations)
    assert str(caught.value) == f"{problem}\n  {text}\n  {' ' * column}^"


@pytest.mark.parametrize("word", ["and", "or", "not"])
def test_a_word_before_a_slash_is_a_name_though_nothing_follows(word: str) -> None:
    assert parse(f"{word}/r") == Query(word, [Hop("r")])
    with pytest.raises(QuerySyntaxError, match=r"^a relation is missing at the end\n"):
        parse(f"{word}/")


def test_names_are_suggested_as_a_query_holds_them() -> None:
    cities = graph(("http://ex.org/Zürich", "liegt in", "http://ex.org/Schweiz"))
    with pytest.raises(
        UnknownName, match=r"^unknown entity 'Zürich'; did you mean <http://ex.org/Zürich>\?\n"
    ) as caught:
        encode_chain('Zürich/"liegt in"', cities)
    assert caught.value.nearest == ("http://ex.org/Zürich",)
    with pytest.raises(UnknownName, match=r"^unknown relation 'liegtin'; did you mean \"liegt in\"\?\n"):
        encode_chain("<http://ex.org/Zürich>/liegtin", cities)


def test_the_beginning_of_a_query_may_be_a_source_alone() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    assert encode_prefix("William", family) == Plan.of_chain(1, [])
    assert encode_prefix(" William / ^fatherOf", family) == Plan.of_chain(1, [2])
    assert encode_prefix("(William | Charles)", family).ids == (0, 1)
    with pytest.raises(QuerySyntaxError, match="a relation is missing at the end"):
        encode_prefix("William/", family)
    with pytest.raises(QuerySyntaxError, match="! takes answers away"):
        encode_prefix("(!William)", family)
    with pytest.raises(QueryError, match="10,000 hops"):
        encode_prefix("William" + "/fatherOf" * 10_000, family)
    with pytest.raises(UnknownName) as caught:
        encode_prefix("William/fatherof", family)
    assert caught.value.column == 8


def test_an_entity_alone() -> None:
    family = graph(("Charles", "of", "George III"), ("<x>", "of", '"y"'), ("x", "of", "a/b"))
    written = ("Charles", '"Charles"', "<Charles>", ' "George III" ', "George III", "<x>", '"y"', "a/b", "x")
    found = [encode_entity(text, family.entities, family.relations) for text in written]
    assert [family.entities[i] for i in found] == [
        *["Charles"] * 3, "George III", "George III", "<x>", '"y"', "a/b", "x"
    ]  # fmt: skip
    for unknown, said in (("Charls", "'Charls'"), ('"Charls"', "'Charls'"), ("George IV", "'George IV'")):
        with pytest.raises(UnknownName, match=f"unknown entity {said}"):
            encode_entity(unknown, family.entities, family.relations)
    for relation in ("of", '"of"'):
        with pytest.raises(UnknownName, match=r"^'of' is a relation; name an entity here\.$"):
            encode_entity(relation, family.entities, family.relations)


def test_a_hop_whose_name_holds_marks_needs_no_quotes_where_it_stands_alone() -> None:
    odd = graph(("a", "^up", "b"), ("a", "x y", "b"), ("a", "up^-1", "b"))
    written = ("^up", "x y", "^x y", "**x y", "^^x y", "^^^x y", "up^-1", "^up^-1", '"x y"', '^"x y"')
    names = [odd.relation_name(encode_hop(text, odd.relations)) for text in written]
    up, apart, suffixed = "^up", "x y", "up^-1"
    assert names == [(up, False), (apart, False), (apart, True), (apart, True), (apart, False), (apart, True),
                         (suffixed, False), (suffixed, True), (apart, False), (apart, True)]  # fmt: skip


def test_a_hop_alone() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    written = ("fatherOf", " ^fatherOf ", "**brotherOf", "brotherOf^-1", "^(^fatherOf)")
    assert [encode_hop(text, family.relations) for text in written] == [0, 2, 3, 3, 0]
    with pytest.raises(UnknownName, match="unknown relation 'fatherOf/brotherOf'"):
        encode_hop("fatherOf/brotherOf", family.relations)
    with pytest.raises(QuerySyntaxError, match="one relation belongs here, such as") as caught:
        encode_path("fatherOf/(fatherOf|brotherOf)", family.relations)
    assert caught.value.column == 0
    with pytest.raises(QuerySyntaxError, match="the quote that opens here is not closed"):
        encode_hop('^"fatherOf', family.relations)
    with pytest.raises(UnknownName, match="unknown relation 'fatherof'"):
        encode_hop("^fatherof", family.relations)


def test_relations_alone_are_encoded_where_the_entities_are_elsewhere() -> None:
    family = graph(("Charles", "fatherOf", "William"), ("Charles", "brotherOf", "Andrew"))
    assert encode_hops(parse("Nobody/^fatherOf/brotherOf"), family.relations) == [2, 1]
    with pytest.raises(UnknownName, match=r"unknown relation 'fatherof'; .*\n  Nobody/fatherof\n         \^"):
        encode_hops(parse("Nobody/fatherof"), family.relations)


@given(queries | trees())
def test_a_made_query_is_pointed_at_as_a_read_one_is(query: Query) -> None:
    nothing = graph(("no such entity", "no such relation", "either"))
    said = []
    for each in (query, parse(str(query))):
        with pytest.raises(UnknownName) as caught:
            encode_tree(each, nothing)
        said.append((str(caught.value), caught.value.column))
    assert said[0] == said[1]


def test_nodes_show_and_compare_what_they_ask_not_where_it_was_written() -> None:
    query = parse("(a/r & !b/^s)/t")
    shown = (
        "Query(root=Projection(of=Intersection(parts=(Projection(of=Anchor(entity='a'), hop=Hop(relation='r', "
        "inverse=False)), Negation(of=Projection(of=Anchor(entity='b'), hop=Hop(relation='s', inverse=True))))), "
        "hop=Hop(relation='t', inverse=False)))"
    )
    assert repr(query) == shown
    by_hand = Projection(
        Intersection((Projection(Anchor("a"), Hop("r")), Negation(Projection(Anchor("b"), Hop("s", inverse=True))))),
        Hop("t"),
    )
    assert query == Query(by_hand)
    assert hash(query) == hash(Query(by_hand))
    assert (query.text, Query(by_hand).text) == ("(a/r & !b/^s)/t", None)
    columns = [node.column for node in nodes_of(by_hand) if not isinstance(node, Intersection | Union)]
    assert columns == [0] * 6
    assert negated(Anchor("a")) == Negation(Anchor("a"))
    assert [getattr(negated(Anchor("a"), *column), "column", None) for column in ((), (3,))] == [0, 3]


@pytest.mark.parametrize(
    ("text", "column", "run"),
    [
        ("AT&T/r", 2, "AT&T"),
        ("AT&T/r", 4, ""),
        ("AT&T/r", 5, "r"),
        ('ab"c"', 2, ""),
        ("(a|b)", 0, "a|b"),
        ("a)", 1, "a)"),
    ],
)
def test_what_would_be_one_name_around_a_column(text: str, column: int, run: str) -> None:
    assert glued(text, column) == run


def test_nothing_stands_before_a_text() -> None:
    assert [follows_bare("a b", column) for column in range(4)] == [False, True, False, True]


def test_a_hop_in_a_column_is_not_quoted() -> None:
    texts = ("born in", "^born in", "**a/b", "^^r", '"')
    assert [hop_in_column(text) for text in texts] == [
        Hop("born in"),
        Hop("born in", True),
        Hop("a/b", True),
        Hop("r"),
        Hop('"'),
    ]


@given(texts)
def test_tokens_cover_all_but_white_space(text: str) -> None:
    at = 0
    for token in lex(text):
        assert text[at : token.column].strip() == ""
        assert at <= token.column < token.end
        at = token.end
    assert text[at:].strip() == ""
