"""The language of queries: `William/^fatherOf/brotherOf/fatherOf`, a source entity and then hops.

It is the notation of SPARQL 1.1 property paths, cut to sequences and inverses::

    query   = name "/" hop { "/" hop }
    hop     = { "^" | "**" } name { "^-1" }            inverse marks, of which two cancel
    name    = bare | "<" any but ">" ">" | '"' any, with \\" \\\\ \\n \\r \\t \\uXXXX \\UXXXXXXXX '"'
    bare    = anything but white space, control characters and / ^ " < > \\ ( ) | ! * + ?

Spaces around names and marks are ignored. `* + ? | ! ( )` mean something in SPARQL that this language lacks, so a name
that holds them is quoted. `**r` is Guu's notation of an inverse, `r^-1` the mathematician's.

A query is a tree: an `Anchor` is an entity, a `Projection` follows one hop from all answers of a subquery. Text is
taken apart once: `lex` cuts it into tokens, `parse` makes a tree of them that remembers where its names stand, and
`encode` looks these up and points at one that it does not know. Whoever completes what is being typed reads the same
tokens through `pieces`. A further operator is a class of node with its place in `Query.nodes`, in `_Parser`, in
`Query.__str__` and in `encode`; its answers belong in `queries/exact.py`, its vectors in `answering/vectors.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, final

from blockhole.errors import QuerySyntaxError, UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary

# The tree


@final
@dataclass(frozen=True, slots=True)
class Hop:
    """One step along a relation, or against it."""

    relation: str
    inverse: bool = False

    def __str__(self) -> str:
        return f"{'^' * self.inverse}{write_name(self.relation)}"


@final
@dataclass(frozen=True, slots=True)
class Anchor:
    """An entity, which is its own only answer; `column` is where its name stands in the text, if it was read."""

    entity: str
    column: int = field(default=0, compare=False, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Projection:
    """The entities that one hop leads to from an answer of the subquery `of`; `column` as above, of the relation."""

    of: Node
    hop: Hop
    column: int = field(default=0, compare=False, repr=False)


Node = Anchor | Projection


@final
@dataclass(frozen=True, init=False)
class Query:
    """A query in names: Query("William", [Hop("fatherOf", inverse=True)]); `str` writes the text that parses to it.

    It starts at an entity or at a subquery, and follows hops. `text` is what it was read from, if it was.
    """

    root: Node
    text: str | None = field(compare=False, repr=False)

    def __init__(self, start: str | Node, hops: Iterable[Hop] = (), *, text: str | None = None) -> None:
        root: Node = Anchor(start) if isinstance(start, str) else start
        for hop in hops:
            root = Projection(root, hop)
        if isinstance(root, Anchor):
            raise ValueError("a path query has at least one hop")
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "text", text)
        if not self.source or not all(hop.relation for hop in self.hops):
            raise ValueError("a name is not empty")

    def nodes(self) -> list[Node]:
        """Every node, each after the subqueries that it is made of, as they are read from left to right."""
        found: list[Node] = []
        left: list[Node] = [self.root]
        while left:
            node = left.pop()
            found.append(node)
            if isinstance(node, Projection):
                left.append(node.of)
        return found[::-1]

    @property
    def source(self) -> str:
        """The entity that the chain starts at."""
        return next(node.entity for node in self.nodes() if isinstance(node, Anchor))

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hops of the chain, in order."""
        return tuple(node.hop for node in self.nodes() if isinstance(node, Projection))

    def __str__(self) -> str:
        return _print(self.nodes())


def _print(nodes: Sequence[Node]) -> str:
    return "/".join(write_name(node.entity) if isinstance(node, Anchor) else str(node.hop) for node in nodes)


# From text to names, from names to ids


def parse(text: str) -> Query:
    """Read a query; raises `QuerySyntaxError` that points at the column."""
    return _Parser(text).query()


def encode(query: Query | str, graph: KnowledgeGraph) -> tuple[int, list[int]]:
    """The id of the source and those of the relations, in the graph's space of 2R.

    A name that the graph does not have raises `UnknownName`, which points at it and suggests the nearest ones.
    """
    query = parse(query) if isinstance(query, str) else query
    source, *path = _ids(query.nodes(), query.text, graph.entities, graph.relations)
    return source, path


def encode_hops(query: Query, relations: Vocabulary) -> list[int]:
    """The same of the relations alone, for those who do not hold the entities."""
    return _ids(query.nodes(), query.text, None, relations)


def encode_prefix(text: str, graph: KnowledgeGraph) -> tuple[int, list[int]]:
    """The same for the beginning of a query, a source and any number of hops."""
    source, *path = _ids(_Parser(text).prefix(), text, graph.entities, graph.relations)
    return source, path


def encode_path(text: str, relations: Vocabulary) -> list[int]:
    """The same for relations alone, such as ^fatherOf/brotherOf."""
    return _ids(_Parser(text).path(), text, None, relations)


# Names that stand alone, in a column or an argument, need no quotes; who writes them as in a query is understood too.


def encode_entity(text: str, entities: Vocabulary) -> int:
    """The id of an entity by its name as it is, or as queries write it."""
    if text not in entities and [token.kind in _NAMES for token in lex(text)] == [True]:
        text = _Parser(text).lone_name("entity")
    return entities.id(text)


def encode_hop(text: str, relations: Vocabulary) -> int:
    """The id of a hop in the space of 2R, by the name as it is behind its inverse marks, or as queries write it."""
    inverse, name = _marks_and_name(text)
    if name and name in relations:
        return relations.id(name) + inverse * len(relations)
    if name and text in relations:
        return relations.id(text)
    try:
        hop = _Parser(text).lone_hop()
    except QuerySyntaxError:
        if not name or name[0] in '"<':
            raise
        return relations.id(name)  # raises that it is unknown
    return _ids([hop], text, None, relations)[0]


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


def _ids(nodes: Sequence[Node], text: str | None, entities: Vocabulary | None, relations: Vocabulary) -> list[int]:
    """One id for each name of a chain, in order."""
    ids: list[int] = []
    for place, node in enumerate(nodes):
        try:
            if isinstance(node, Projection):
                ids.append(relations.id(node.hop.relation) + node.hop.inverse * len(relations))
            elif entities is not None:
                ids.append(entities.id(node.entity))
        except UnknownName as unknown:
            raise _pointed_at(unknown, nodes, text, place) from None
    return ids


def _pointed_at(unknown: UnknownName, nodes: Sequence[Node], text: str | None, place: int) -> UnknownName:
    """The same error with the text of the query, and the column in it at which the name stands."""
    if text is None:  # the query was made, not read
        text = _print(nodes)
        nodes = _Parser(text).prefix()
    suggested = [_suggested(near) for near in unknown.nearest]
    return UnknownName(unknown.kind, unknown.name, unknown.nearest, text, nodes[place].column, suggested)


def _suggested(name: str) -> str:
    """A name between quotes of a sentence, or in those that a query needs."""
    written = write_name(name)
    return repr(name) if written == name else written


def write_name(name: str) -> str:
    """A name as queries hold it: bare where it can be, as an IRI where it looks like one, else quoted."""
    if name.isprintable() and _BARE.fullmatch(name):
        return name
    if name.isprintable() and _LOOKS_LIKE_IRI.fullmatch(name):
        return f"<{name}>"
    return '"' + "".join(map(_escaped, name)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


# Tokens

_BARE = re.compile(r'[^\s\x00-\x1f\x7f-\x9f/^"<>\\()|!*+?]+')
_ENCLOSED = re.compile(r'"((?:[^"\\]|\\.)*)("|\\?\Z)|<([^>]*)(>|\Z)', re.DOTALL)  # the end may leave it open
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTER_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_LOOKS_LIKE_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f-\x9f<>"\\{}|^`]+')
_OPERATORS = "()|!*+?"
_INVERSE_MARKS = ("**", "^")
_INVERSE_SUFFIX = "^-1"

TokenKind = Literal["bare", "quoted", "iri", "/", "inverse", "inverse suffix", "stray"]
_NAMES: tuple[TokenKind, ...] = ("bare", "quoted", "iri")


class Token(NamedTuple):
    """A part of a text from `column` to `end`; what stands between two tokens is white space.

    `inside` is a name without its quotes or brackets, escapes not yet read; `closed` says whether these were closed. A
    `stray` character begins nothing that the language knows.
    """

    kind: TokenKind
    column: int
    end: int
    inside: str
    closed: bool = True


def lex(text: str) -> list[Token]:
    """Every token of a text, be it a query, a part of one or none: nothing is refused here."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        after_name = bool(tokens) and tokens[-1].kind in (*_NAMES, "inverse suffix")
        tokens.append(_token(text, at, after_name))
        at = tokens[-1].end
    return tokens


def _token(text: str, at: int, after_name: bool) -> Token:
    if match := _BARE.match(text, at):
        return Token("bare", at, match.end(), match[0])
    if match := _ENCLOSED.match(text, at):
        if match[1] is not None:
            return Token("quoted", at, match.end(), match[1], match[2] == '"')
        return Token("iri", at, match.end(), match[3], match[4] == ">")
    # Before a name ^-1 is a mark and a relation called -1.
    if after_name and text.startswith(_INVERSE_SUFFIX, at):
        return Token("inverse suffix", at, at + len(_INVERSE_SUFFIX), _INVERSE_SUFFIX)
    for mark in _INVERSE_MARKS:
        if text.startswith(mark, at):
            return Token("inverse", at, at + len(mark), mark)
    return Token("/" if text[at] == "/" else "stray", at, at + 1, text[at])


def _unescape(token: Token) -> str:
    """The name in a token; an escape that there is not is a `ValueError` with its place behind the quote."""
    if token.kind != "quoted":
        return token.inside

    def read(escape: re.Match[str]) -> str:
        digits, letter = escape[1] or escape[2], escape[3]
        if digits is None and letter in _LETTER_ESCAPES:
            return _LETTER_ESCAPES[letter]
        code = int(digits, 16) if digits is not None else None
        if code is None or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError(escape.start())
        return chr(code)

    return _ESCAPE.sub(read, token.inside)


# What is being typed


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """The source or a hop of a text that may be half a query: text[column:end], without the / around it.

    Its name begins at `name_column`, behind inverse marks; `name` is what is there of it, without quotes. `inverse`
    counts the marks on either side. A piece is `finished` if a / follows it.
    """

    kind: Literal["entity", "relation"]
    column: int
    end: int
    name_column: int
    name: str
    inverse: bool
    finished: bool


def pieces(text: str) -> list[Piece]:
    """What a text is made of that may be half a query: its source and its hops, the last of which may be empty.

    Nothing is refused: a name with a space that nobody has quoted yet is still the beginning of a name.
    """
    found: list[Piece] = []
    start, own = 0, list[Token]()
    for token in lex(text):
        if token.kind != "/":
            own.append(token)
            continue
        found.append(_piece(text, start, token.column, own, "relation" if found else "entity", finished=True))
        start, own = token.end, []
    found.append(_piece(text, start, len(text), own, "relation" if found else "entity", finished=False))
    return found


def typed_hop(text: str) -> Piece:
    """A text as the beginning of a hop alone."""
    tokens = [token for token in lex(text) if token.kind != "/"]
    return _piece(text, 0, len(text), tokens, "relation", finished=False)


def typed_name(text: str) -> str:
    """A text as the beginning of an entity's name alone, without quotes."""
    return _piece(text, 0, len(text), lex(text), "entity", finished=False).name


def last_part(text: str) -> int:
    """The column behind the last / that is outside quotes and < >: there begins the name or hop that is being typed."""
    return pieces(text)[-1].column


def _piece(
    text: str, start: int, end: int, tokens: Sequence[Token], kind: Literal["entity", "relation"], finished: bool
) -> Piece:
    marks = 0
    while kind == "relation" and marks < len(tokens) and tokens[marks].kind == "inverse":
        marks += 1
    rest = tokens[marks:]
    suffixes = sum(token.kind == "inverse suffix" for token in rest) if kind == "relation" else 0
    if not rest:
        column = end
        name = ""
    else:
        column = rest[0].column
        last = rest[: len(rest) - suffixes][-1]
        if last is rest[0] and last.kind in ("quoted", "iri"):
            name = _read(last)
        else:  # a space at the end may be one in the middle of a name
            name = text[column : last.end if finished or suffixes else end]
    return Piece(kind, start, end, column, name, (marks + suffixes) % 2 == 1, finished)


def _read(token: Token) -> str:
    """The name of a token as far as it can be read."""
    try:
        return _unescape(token)
    except ValueError:
        return token.inside


# The grammar


@final
class _Parser:
    """One pass over the tokens of a text; `at` is the next to read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = lex(text)
        self.at = 0

    def query(self) -> Query:
        """The query that the whole text is."""
        *_, root = nodes = self.prefix()
        if len(nodes) == 1:
            raise self._error("a query needs at least one hop: write source/relation")
        return Query(root, text=self.text)

    def prefix(self) -> list[Node]:
        """A source and any number of hops, each node the projection of the one before it."""
        if not self.tokens:
            raise self._error("the query is empty: write source/relation")
        if self._ahead("inverse"):
            raise self._error("the first name is the source entity, which has no inverse")
        column = self._column()
        nodes: list[Node] = [Anchor(self._name("source entity"), column)]
        while self._skip("/"):
            hop, column = self._hop()
            nodes.append(Projection(nodes[-1], hop, column))
        if self.at < len(self.tokens):
            raise self._stray()
        return nodes

    def path(self) -> list[Node]:
        """Hops without a source, at least one."""
        nodes: list[Node] = []
        while not nodes or self._skip("/"):
            hop, column = self._hop()
            nodes.append(Projection(Anchor(""), hop, column))
        if self.at < len(self.tokens):
            raise self._stray()
        return nodes

    def lone_hop(self) -> Projection:
        """A hop and nothing else, from nowhere."""
        hop, column = self._hop()
        if self.at < len(self.tokens):
            raise self._unquoted("expected the end here")
        return Projection(Anchor(""), hop, column)

    def lone_name(self, what: str) -> str:
        """The first name."""
        return self._name(what)

    def _hop(self) -> tuple[Hop, int]:
        inverse = False
        while self._skip("inverse"):
            inverse = not inverse
        column = self._column()
        relation = self._name("relation")
        while self._skip("inverse suffix"):
            inverse = not inverse
        return Hop(relation, inverse), column

    def _name(self, what: str) -> str:
        if not self._ahead(*_NAMES):
            raise self._no_name(what)
        token = self.tokens[self.at]
        if not token.closed:
            opened = "the quote that opens here is not closed" if token.kind == "quoted" else None
            raise self._error(opened or "the < that opens here is not closed by >")
        if not token.inside:
            raise self._error("a name cannot be empty")
        try:
            name = _unescape(token)
        except ValueError as unknown:
            raise QuerySyntaxError(
                self.text,
                token.column + 1 + unknown.args[0],
                r"unknown escape: write \" \\ \n \r \t \uXXXX or \UXXXXXXXX",
            ) from None
        self.at += 1
        return name

    def _no_name(self, what: str) -> QuerySyntaxError:
        if self.at == len(self.tokens):
            return self._error(f"a {what} is missing at the end")
        if self._ahead("/"):
            return self._error(f'a {what} is missing before this /; put a name with / in double quotes: "a/b"')
        return self._unquoted(f"expected a {what} here")

    def _stray(self) -> QuerySyntaxError:
        """What follows a name and is no /."""
        if self.text[self._column()] == "^":
            return self._error(
                f"^ goes before a relation, or after it as {_INVERSE_SUFFIX}; put a name with ^ in double quotes"
            )
        return self._unquoted("expected / here")

    def _unquoted(self, expected: str) -> QuerySyntaxError:
        character = self.text[self._column()]
        if character in _OPERATORS:
            expected = f"paths have no {character}, only / and ^"
        return self._error(f'{expected}; put a name with spaces or punctuation in double quotes: "a b"')

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
