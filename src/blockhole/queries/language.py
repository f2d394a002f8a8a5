"""The language of queries: `William/^fatherOf/brotherOf/fatherOf`, `(a/r & b/s)/t`, `a/r | b/s`, `a/r & !(b/s/t)`.

Paths are SPARQL 1.1 property paths of sequences, inverses and alternatives; sets are joined by & | and !::

    query   = both { "|" both }
    both    = without { "&" without }
    without = { "!" } path                             two cancel
    path    = ( name | "(" query ")" ) { "/" hop }
    hop     = { "^" | "**" } ( name | "(" ways ")" ) { "^-1" }     inverse marks, of which two cancel
    ways    = hop { "/" hop } { "|" hop { "/" hop } }
    name    = bare | "<" any but ">" ">" | '"' any, with \\" \\\\ \\n \\r \\t \\uXXXX \\UXXXXXXXX '"'
    bare    = anything but white space, control characters and / ^ " < > \\ ( ) & | ! * + ?

A query has at least one hop, and what is negated stands beside something that is not. `and`, `or` and `not` are & | and
! where no name can stand and they are words of their own: between spaces, parentheses, marks or the quotes and < > of
names. `a/(r|^s)` is `a/r | a/^s`, and `^(r/s)` is `^s/^r`. Spaces around names and marks are ignored, but an & in the
middle of a word joins nothing: it may be part of a name that wants quotes.
`* + ?` mean something in SPARQL that this language lacks, so a name that holds them is quoted. `**r` is Guu's notation
of an inverse, `r^-1` the mathematician's.

Text is taken apart once: `lex` cuts it into tokens, `parse` makes a tree of them that remembers where its names stand,
and `encode_tree` looks these up, points at one that it does not know, and gives the plan that evaluators work on.
Whoever completes what is being typed reads the same tokens through `pieces`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn, final

from blockhole.errors import QuerySyntaxError, UnknownName, quoted
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.plans import Plan, plan_of
from blockhole.queries.tokens import (
    INVERSE_SUFFIX,
    NAMES,
    WORDS,
    Token,
    TokenKind,
    follows_bare,
    glued,
    joins_nothing,
    lex,
    unescape,
    write_name,
)
from blockhole.queries.tree import (
    MAX_BRANCHES,
    MAX_HOPS,
    Anchor,
    Hop,
    Intersection,
    Negation,
    Node,
    Projection,
    Query,
    Union,
    check_node,
    check_size,
    named_nodes,
    negated,
    normal_form,
    write_node,
)
from blockhole.queries.typed import Piece, last_part, pieces, typed_hop, typed_name

__all__ = [
    "MAX_BRANCHES",
    "MAX_HOPS",
    "Anchor",
    "Hop",
    "Intersection",
    "Negation",
    "Node",
    "Piece",
    "Projection",
    "Query",
    "Union",
    "encode_chain",
    "encode_entity",
    "encode_hop",
    "encode_hops",
    "encode_path",
    "encode_prefix",
    "encode_tree",
    "find_plan",
    "hop_in_column",
    "last_part",
    "lex",
    "normal_form",
    "parse",
    "pieces",
    "typed_hop",
    "typed_name",
    "write_name",
]


def parse(text: str) -> Query:
    """Read a query; raises `QuerySyntaxError` that points at the column."""
    return _Parser(text).query()


# From names to ids


def encode_tree(query: Query | str, graph: KnowledgeGraph) -> Plan:
    """The plan of any query, in its normal form.

    A name that the graph does not have raises `UnknownName`, which points at it and suggests the nearest ones.
    """
    query = parse(query) if isinstance(query, str) else query
    return _plan(query.normal, query.root, query.text, graph)


def encode_prefix(text: str, graph: KnowledgeGraph) -> Plan:
    """The same for the beginning of a query that a hop may follow, such as an entity alone."""
    root = _Parser(text).prefix()
    check_node(root, text)
    return _plan(normal_form(root), root, text, graph)


def encode_chain(query: Query | str, graph: KnowledgeGraph) -> tuple[int, list[int]]:
    """The id of a chain's source and those of its relations, in the graph's space of 2R; refuses any other query."""
    query = parse(query) if isinstance(query, str) else query
    source, hops = query.chain()
    try:
        return graph.entities.id(source), [graph.relation_id(hop.relation, hop.inverse) for hop in hops]
    except UnknownName as unknown:
        raise _pointed_at(unknown, query.root, query.text, graph.entities, graph.relations) from None


def find_plan(query: Query, graph: KnowledgeGraph) -> Plan | None:
    """The same as `encode_tree`, or None where the graph lacks a name: at once, as nothing like it is searched for."""

    def found(place: int | None) -> int:
        if place is None:
            raise _Missing
        return place

    try:
        return plan_of(
            query.normal,
            lambda node: found(graph.entities.find(node.entity)),
            lambda node: found(graph.relations.find(node.hop.relation)) + node.hop.inverse * graph.num_relations,
        )
    except _Missing:
        return None


class _Missing(Exception):
    """A name that the graph does not have."""


def encode_hops(query: Query, relations: Vocabulary) -> list[int]:
    """The same of the relations alone, for those who do not hold the entities."""
    try:
        return [relations.id(hop.relation) + hop.inverse * len(relations) for hop in query.hops]
    except UnknownName as unknown:
        raise _pointed_at(unknown, query.root, query.text, None, relations) from None


def encode_path(text: str, relations: Vocabulary) -> list[int]:
    """The same for relations alone, such as ^fatherOf/brotherOf."""
    return _hop_ids(_Parser(text).path(), text, relations)


# Names that stand alone, in a column or an argument, need no quotes; who writes them as in a query is understood too.


def encode_entity(text: str, entities: Vocabulary, relations: Vocabulary) -> int:
    """The id of an entity by its name as it is, or as queries write it; what is one of `relations` is refused so."""
    found = entities.find(text)
    if found is None and [token.kind in NAMES for token in lex(text)] == [True]:
        text = _Parser(text).lone_name()
    if found is None and text not in entities and text in relations:
        raise UnknownName("entity", text, problem=f"{quoted(text)} is a relation; name an entity here")
    return entities.id(text) if found is None else found


def encode_hop(text: str, relations: Vocabulary) -> int:
    """The id of a hop in the space of 2R, by the name as it is behind its inverse marks, or as queries write it."""
    inverse, name = _marks_and_name(text)
    if name and (found := relations.find(name)) is not None:
        return found + inverse * len(relations)
    if name and (found := relations.find(text)) is not None:
        return found
    try:
        hop = _Parser(text).lone_hop()
    except QuerySyntaxError:
        if not name or name[0] in '"<':
            raise
        return relations.id(name)  # raises that it is unknown
    return _hop_ids([hop], text, relations)[0]


def hop_in_column(text: str) -> Hop:
    """The same in names, where no vocabulary can tell what is a mark and what belongs to a name."""
    try:
        return _Parser(text).lone_hop().hop
    except QuerySyntaxError:
        inverse, name = _marks_and_name(text)
        return Hop(name, inverse)


def _marks_and_name(text: str) -> tuple[bool, str]:
    """Whether the marks before a name invert it, and all that follows them."""
    tokens = lex(text)
    marks = next((i for i, token in enumerate(tokens) if token.kind != "inverse"), len(tokens))
    return marks % 2 == 1, text[tokens[marks - 1].end :].lstrip() if marks else text


def _hop_ids(hops: Sequence[Projection], text: str, relations: Vocabulary) -> list[int]:
    """The ids of hops that were read without a source."""
    ids: list[int] = []
    for each in hops:
        try:
            ids.append(relations.id(each.hop.relation) + each.hop.inverse * len(relations))
        except UnknownName as unknown:
            raise _pointed_at(unknown, each, text, None, relations) from None
    return ids


def _plan(normal: Node, root: Node, text: str | None, graph: KnowledgeGraph) -> Plan:
    try:
        return plan_of(
            normal,
            lambda node: graph.entities.id(node.entity),
            lambda node: graph.relation_id(node.hop.relation, node.hop.inverse),
        )
    except UnknownName as unknown:
        raise _pointed_at(unknown, root, text, graph.entities, graph.relations) from None


def _pointed_at(
    unknown: UnknownName, root: Node, text: str | None, entities: Vocabulary | None, relations: Vocabulary
) -> UnknownName:
    """The error about the first name of a query that is unknown, with its text and the column at which it stands."""
    if text is None:  # the query was made, not read
        text = write_node(root)
        root = _Parser(text).prefix()
    for node in named_nodes(root):
        name, known = (node.entity, entities) if isinstance(node, Anchor) else (node.hop.relation, relations)
        if known is not None and name not in known:
            break
    else:
        return unknown
    # Looking for what is alike takes long where there are millions of names, and was done for one of them.
    nearest = unknown.nearest if (known.kind, name) == (unknown.kind, unknown.name) else tuple(known.nearest(name))
    problem = None
    if (whole := _unquoted(text, node.column, known)) is not None:
        nearest = (whole,)
    elif isinstance(node, Anchor) and name in relations:
        problem = f"{quoted(name)} is a relation; a query and each side of & and | starts with an entity"
        if node.column > 0:
            problem += ", and several relations go in parentheses: a/(r|s)"
    elif isinstance(node, Projection) and entities is not None and name in entities:
        problem = f"{quoted(name)} is an entity; a relation follows /"
    suggested = [_suggested(near) for near in nearest]
    return UnknownName(known.kind, name, nearest, text, node.column, suggested, problem)


def _unquoted(text: str, column: int, known: Vocabulary) -> str | None:
    """The longest known name of several tokens around a column, which has marks or spaces in it that nobody quoted."""
    tokens = lex(text)
    at = next(place for place, token in enumerate(tokens) if token.column == column)
    spans = [
        text[first.column : last.end]
        for first in tokens[max(0, at - _MOST_TOKENS) : at + 1]
        for last in tokens[at : at + _MOST_TOKENS + 1]
        if first is not last
    ]
    return max((span for span in spans if span in known), key=len, default=None)


def _suggested(name: str) -> str:
    """A name between quotes of a sentence, or in those that a query needs."""
    written = write_name(name)
    return repr(name) if written == name else written


# The grammar


class _Named(NamedTuple):
    """A hop, and the column of its relation."""

    hop: Hop
    column: int


class _Ways(NamedTuple):
    """The alternatives of a hop, each a sequence of hops."""

    sequences: tuple[tuple[_Named | _Ways, ...], ...]


def _inverted(step: _Named | _Ways) -> _Named | _Ways:
    """The way back: ^(r/s|t) is ^s/^r|^t."""
    if isinstance(step, _Named):
        return _Named(Hop(step.hop.relation, not step.hop.inverse), step.column)
    return _Ways(tuple(tuple(map(_inverted, reversed(sequence))) for sequence in step.sequences))


def _follow(start: Node, step: _Named | _Ways) -> Node:
    """Where a hop leads from a subquery; alternatives are a union."""
    if isinstance(step, _Named):
        return Projection(start, step.hop, step.column)
    ends: list[Node] = []
    for sequence in step.sequences:
        end = start
        for each in sequence:
            end = _follow(end, each)
        ends.append(end)
        names = [named_nodes(each) for each in ends]  # alternatives after alternatives soon are more than memory holds
        hops = sum(isinstance(name, Projection) for each in names for name in each)
        check_size(hops, sum(map(len, names)) - hops, "with its alternatives written out the query")
    return ends[0] if len(ends) == 1 else Union(tuple(ends))


_DEEPEST = 64
_MOST_TOKENS = 8
"""Tokens on either side of one that are looked at for a name which they make up together."""
_LONGEST_OFFER = 60
_QUOTE = "put a name with {} in double quotes: {}"
_QUOTE_ANY = 'put a name with spaces or punctuation in double quotes: "a b"'
_ALONE = 'this {0} joins nothing; put a name in double quotes: "{0}"'
_NEGATED_PROPERTY = "SPARQL's negated property a/!r is not in this language, which negates sets: write a/s & !a/r"


@final
class _Parser:
    """One pass over the tokens of a text; `at` is the next to read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = lex(text)
        self.at = 0
        self._opened: list[Token] = []

    def query(self) -> Query:
        """The query that the whole text is."""
        root = self.prefix()
        if not any(isinstance(node, Projection) for node in named_nodes(root)):
            raise self._error("a query needs at least one hop: write source/relation")
        return Query(root, text=self.text)

    def prefix(self) -> Node:
        """A query that may be an entity alone."""
        if not self.tokens:
            raise self._error("the query is empty: write source/relation")
        root = self._union()
        if self.at < len(self.tokens):
            self._refuse_stray()
        return root

    def path(self) -> list[Projection]:
        """Hops without a source, at least one."""
        hops = [self._single(step) for step in self._sequence()]
        if self.at < len(self.tokens):
            self._refuse_stray()
        return hops

    def lone_hop(self) -> Projection:
        """A hop and nothing else, from nowhere."""
        step = self._step()
        if self.at < len(self.tokens):
            raise self._error(f"expected the end here; {_QUOTE_ANY}")
        return self._single(step)

    def lone_name(self) -> str:
        """The name of an entity and nothing else."""
        return self._name("entity")

    def _single(self, step: _Named | _Ways) -> Projection:
        """A hop that is no alternative, from nowhere."""
        if isinstance(step, _Ways):
            raise QuerySyntaxError(self.text, 0, "one relation belongs here, such as ^fatherOf")
        return Projection(Anchor(""), step.hop, step.column)

    # Sets

    def _union(self) -> Node:
        parts = [self._intersection()]
        while self._skip("|"):
            parts.append(self._intersection())
        return parts[0] if len(parts) == 1 else Union(tuple(parts))

    def _intersection(self) -> Node:
        parts = [self._negation()]
        while self._ahead("&"):
            if joins_nothing(self.text, self.tokens[self.at]):
                quote = _QUOTE.format("&", write_name(glued(self.text, self._column())))
                raise self._error(f"put spaces around an & that joins two sets; {quote}")
            self.at += 1
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else Intersection(tuple(parts))

    def _negation(self) -> Node:
        column, marks = self._column(), 0
        while self._skip("!"):
            marks += 1
        node = self._path()
        return negated(node, column) if marks % 2 else node

    def _path(self) -> Node:
        node = self._start()
        while self._skip("/"):
            node = _follow(node, self._step())
        return node

    def _start(self) -> Node:
        if self._ahead("("):
            self._open()
            node = self._union()
            self._close()
            return node
        if self._ahead("inverse"):
            raise self._error("the first name is the source entity, which has no inverse")
        column = self._column()
        return Anchor(self._name("source entity"), column)

    # Hops

    def _step(self) -> _Named | _Ways:
        inverse = False
        while self._skip("inverse"):
            inverse = not inverse
        step: _Named | _Ways
        if self._ahead("("):
            step = self._ways()
        elif self._ahead("!"):
            raise self._error(_NEGATED_PROPERTY)
        else:
            column = self._column()
            step = _Named(Hop(self._name("relation")), column)
        while self._skip("inverse suffix"):
            inverse = not inverse
        return _inverted(step) if inverse else step

    def _ways(self) -> _Named | _Ways:
        """Relations in parentheses, joined by |."""
        self._open()
        sequences = [self._sequence()]
        while self._skip("|"):
            sequences.append(self._sequence())
        if self._ahead("&"):
            raise self._error("relations are joined by | alone: write a/r & a/s for what both lead to")
        self._close()
        return sequences[0][0] if len(sequences) == len(sequences[0]) == 1 else _Ways(tuple(sequences))

    def _sequence(self) -> tuple[_Named | _Ways, ...]:
        steps = [self._step()]
        while self._skip("/"):
            steps.append(self._step())
        return tuple(steps)

    # Parentheses and names

    def _open(self) -> None:
        self._opened.append(self.tokens[self.at])
        if len(self._opened) > _DEEPEST:
            raise self._error(f"parentheses may be {_DEEPEST} deep at most")
        self.at += 1
        if self._ahead(")"):
            raise self._error("there is nothing in these parentheses")

    def _close(self) -> None:
        if self.at == len(self.tokens):
            raise QuerySyntaxError(self.text, self._opened[-1].column, "the ( that opens here is not closed")
        if not self._skip(")"):
            self._refuse_stray()
        self._opened.pop()

    def _name(self, what: str) -> str:
        if not self._ahead(*NAMES):
            raise self._no_name(what)
        token = self.tokens[self.at]
        if not token.closed:
            opened = "the quote that opens here is not closed" if token.kind == "quoted" else None
            raise self._error(opened or "the < that opens here is not closed by >")
        if not token.inside:
            raise self._error("a name cannot be empty")
        if token.kind == "bare" and token.inside in WORDS and what == "source entity" and not self._slash_behind():
            raise self._error(_ALONE.format(token.inside))
        try:
            name = unescape(token)
        except ValueError as unknown:
            raise QuerySyntaxError(
                self.text,
                token.column + 1 + unknown.args[0],
                r"unknown escape: write \" \\ \n \r \t \uXXXX or \UXXXXXXXX",
            ) from None
        self.at += 1
        return name

    def _slash_behind(self) -> bool:
        return self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].kind == "/"

    # What is refused

    def _no_name(self, what: str) -> QuerySyntaxError:
        before = self.tokens[self.at - 1] if self.at else None
        here = self.tokens[self.at] if self.at < len(self.tokens) else None
        if (
            before is not None
            and before.kind in ("&", "|", "!")
            and (here is None or here.kind in (")", "&", "|", "/"))
        ):
            column, problem = before.column, f"nothing stands after this {before.inside}"
            if here is not None and here.kind == before.kind and here.column == before.end:
                return QuerySyntaxError(self.text, column, f"{before.kind} is written once: a/r {before.kind} b/s")
            return QuerySyntaxError(self.text, column, problem + self._offer(column))
        if here is None:
            return self._error(f"a {what} is missing at the end")
        if here.kind == "/":
            return self._error(f'a {what} is missing before this /; put a name with / in double quotes: "a/b"')
        if here.kind in ("&", "|", ")"):
            offer = self._offer(here.column) or f"; {_QUOTE.format('&', write_name('&'))}" * (here.inside == "&")
            return self._error(f"a {what} is missing before this {here.inside}{offer}")
        return self._error(self._unknown_mark(f"expected a {what} here") + f"; {_QUOTE_ANY}")

    def _refuse_stray(self) -> NoReturn:
        """What follows a set or a hop and joins nothing to it."""
        token = self.tokens[self.at]
        if self.text[token.column] == "^":
            raise self._error(
                f"^ goes before a relation, or after it as {INVERSE_SUFFIX}; put a name with ^ in double quotes"
            )
        if token.kind in ("!", "(", ")"):
            problem = "this ) closes nothing" if token.kind == ")" else f"expected / & or | before this {token.inside}"
            raise self._error(problem + (self._offer(token.column) if follows_bare(self.text, token.column) else ""))
        if token.kind == "bare" and token.inside in WORDS:
            problem = "write & !, or: and not" if token.inside == "not" else f"nothing stands after this {token.inside}"
            raise self._error(problem)
        if token.kind == "bare" and token.inside.casefold() in WORDS:
            raise self._error(f"write {token.inside.casefold()} in small letters")
        raise self._error(self._unknown_mark("expected / & or | here") + f"; {_QUOTE_ANY}")

    def _offer(self, column: int) -> str:
        """The quotes that a name with the mark at a column in it needs, if there may be such a name."""
        mark, whole = self.text[column], glued(self.text, column)
        named = mark in "()&|!" and whole.strip("()&|!") and len(whole) <= _LONGEST_OFFER
        return f"; {_QUOTE.format(mark, write_name(whole))}" if named else ""

    def _unknown_mark(self, otherwise: str) -> str:
        character = self.text[self._column()]
        return f"the language has no {character}" if character in "*+?" else otherwise

    def _ahead(self, *kinds: TokenKind) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].kind in kinds

    def _skip(self, kind: TokenKind) -> bool:
        ahead = self._ahead(kind)
        self.at += ahead
        return ahead

    def _column(self) -> int:
        """Where the next token stands, or the end of the text."""
        return self.tokens[self.at].column if self.at < len(self.tokens) else len(self.text)

    def _error(self, problem: str) -> QuerySyntaxError:
        return QuerySyntaxError(self.text, self._column(), problem)
