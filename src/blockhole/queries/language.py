"""The language of path queries: `William/^fatherOf/brotherOf/fatherOf`, a source entity and then hops.

It is the notation of SPARQL 1.1 property paths, cut to sequences and inverses::

    query   = name "/" hop { "/" hop }
    hop     = { "^" | "**" } name { "^-1" }            inverse marks, of which two cancel
    name    = bare | "<" any but ">" ">" | '"' any, with \\" \\\\ \\n \\r \\t \\uXXXX \\UXXXXXXXX '"'
    bare    = anything but white space, control characters and / ^ " < > \\ ( ) | ! * + ?

Spaces around names and marks are ignored. `* + ? | ! ( )` mean something in SPARQL that this language lacks, so a name
that holds them is quoted. `**r` is Guu's notation of an inverse, `r^-1` the mathematician's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from blockhole.errors import QuerySyntaxError, UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary

_BARE = re.compile(r'[^\s\x00-\x1f\x7f-\x9f/^"<>\\()|!*+?]+')
_IRI = re.compile(r"<([^>]*)>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# In what is being typed: a name in quotes or < >, which the end may leave open, or a / between names.
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|<[^>]*(?:>|\Z)|/', re.DOTALL)
_MARKS = re.compile(r"(?:\s|\^|\*\*)+")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTER_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_LOOKS_LIKE_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f-\x9f<>"\\{}|^`]+')
_OPERATORS = "()|!*+?"
_INVERSE_SUFFIX = "^-1"


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
class PathQuery:
    """s/r1/…/rk in names; `str` writes the text that parses to the same query."""

    source: str
    hops: tuple[Hop, ...]

    def __post_init__(self) -> None:
        if not self.hops:
            raise ValueError("a path query has at least one hop")
        if not self.source or not all(hop.relation for hop in self.hops):
            raise ValueError("a name is not empty")

    def __str__(self) -> str:
        return "/".join([write_name(self.source), *map(str, self.hops)])


def parse(text: str) -> PathQuery:
    """Read a query; raises `QuerySyntaxError` that points at the column."""
    return _Parser(text).query()[0]


def encode(query: PathQuery | str, graph: KnowledgeGraph) -> tuple[int, list[int]]:
    """The id of the source and those of the relations, in the graph's space of 2R.

    A name that the graph does not have raises `UnknownName`, which points at it and suggests the nearest ones.
    """
    text = str(query)
    parsed, columns = _Parser(text).query()
    return _encode(text, parsed.source, parsed.hops, columns, graph)


def encode_prefix(text: str, graph: KnowledgeGraph) -> tuple[int, list[int]]:
    """The same for the beginning of a query, a source and any number of hops."""
    return _encode(text, *_Parser(text).prefix(), graph)


def encode_hop(text: str, graph: KnowledgeGraph) -> int:
    """The id of a relation as queries write it, such as ^fatherOf."""
    hop, column = _Parser(text).hop()
    return _find(graph.relations, hop.relation, text, column) + hop.inverse * graph.num_relations


def _encode(
    text: str, source: str, hops: Sequence[Hop], columns: Sequence[int], graph: KnowledgeGraph
) -> tuple[int, list[int]]:
    relations = zip(hops, columns[1:], strict=True)
    return _find(graph.entities, source, text, columns[0]), [
        _find(graph.relations, hop.relation, text, column) + hop.inverse * graph.num_relations
        for hop, column in relations
    ]


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


def _find(vocabulary: Vocabulary, name: str, text: str, column: int) -> int:
    try:
        return vocabulary.id(name)
    except UnknownName as unknown:
        written = [_suggested(near) for near in unknown.nearest]
        raise UnknownName(unknown.kind, name, unknown.nearest, text, column, written) from None


def _suggested(name: str) -> str:
    """A name between quotes of a sentence, or in those that a query needs."""
    written = write_name(name)
    return repr(name) if written == name else written


@final
class _Parser:
    """One pass over the text; `at` is the next column to read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def query(self) -> tuple[PathQuery, list[int]]:
        """The query, and the column at which each of its names begins."""
        source, hops, columns = self.prefix()
        if not hops:
            raise self._error("a query needs at least one hop: write source/relation")
        return PathQuery(source, tuple(hops)), columns

    def prefix(self) -> tuple[str, list[Hop], list[int]]:
        """A source and any number of hops, and the column at which each of these names begins."""
        self._skip_space()
        if self.at == len(self.text):
            raise self._error("the query is empty: write source/relation")
        if self._ahead("^") or self._ahead("**"):
            raise self._error("the first name is the source entity, which has no inverse")
        columns = [self.at]
        source = self._name("source entity")
        hops = []
        while self._skip("/"):
            hop, column = self._hop()
            hops.append(hop)
            columns.append(column)
        if self.at < len(self.text):
            raise self._stray()
        return source, hops, columns

    def hop(self) -> tuple[Hop, int]:
        """A hop and nothing else, and the column of its name."""
        self._skip_space()
        found = self._hop()
        if self.at < len(self.text):
            raise self._unquoted("expected the end here")
        return found

    def _hop(self) -> tuple[Hop, int]:
        inverse = False
        while self._skip("**") or self._skip("^"):
            inverse = not inverse
        column = self.at
        relation = self._name("relation")
        while self._skip(_INVERSE_SUFFIX):
            inverse = not inverse
        return Hop(relation, inverse), column

    def _name(self, what: str) -> str:
        if self._ahead('"'):
            name = self._enclosed(_QUOTED, "the quote that opens here is not closed")
            column = self.at - len(name) - 1
            name = _ESCAPE.sub(lambda escape: self._unescape(escape, column), name)
        elif self._ahead("<"):
            name = self._enclosed(_IRI, "the < that opens here is not closed by >")
        elif match := _BARE.match(self.text, self.at):
            name = match[0]
            self.at = match.end()
        else:
            raise self._no_name(what)
        self._skip_space()
        return name

    def _enclosed(self, pattern: re.Pattern[str], unclosed: str) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self._error(unclosed)
        if not match[1]:
            raise self._error("a name cannot be empty")
        self.at = match.end()
        return match[1]

    def _unescape(self, escape: re.Match[str], column: int) -> str:
        digits, letter = escape[1] or escape[2], escape[3]
        if digits is None and letter in _LETTER_ESCAPES:
            return _LETTER_ESCAPES[letter]
        code = int(digits, 16) if digits is not None else None
        if code is None or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            self.at = column + escape.start()
            raise self._error(r"unknown escape: write \" \\ \n \r \t \uXXXX or \UXXXXXXXX")
        return chr(code)

    def _no_name(self, what: str) -> QuerySyntaxError:
        if self.at == len(self.text):
            return self._error(f"a {what} is missing at the end")
        if self._ahead("/"):
            return self._error(f'a {what} is missing before this /; put a name with / in double quotes: "a/b"')
        return self._unquoted(f"expected a {what} here")

    def _stray(self) -> QuerySyntaxError:
        """What follows a name and is no /."""
        if self._ahead("^"):
            return self._error(
                f"^ goes before a relation, or after it as {_INVERSE_SUFFIX}; put a name with ^ in double quotes"
            )
        return self._unquoted("expected / here")

    def _unquoted(self, expected: str) -> QuerySyntaxError:
        if self.text[self.at] in _OPERATORS:
            expected = f"paths have no {self.text[self.at]}, only / and ^"
        return self._error(f'{expected}; put a name with spaces or punctuation in double quotes: "a b"')

    def _ahead(self, mark: str) -> bool:
        return self.text.startswith(mark, self.at)

    def _skip(self, mark: str) -> bool:
        if not self._ahead(mark):
            return False
        self.at += len(mark)
        self._skip_space()
        return True

    def _skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _error(self, problem: str) -> QuerySyntaxError:
        return QuerySyntaxError(self.text, self.at, problem)


# Text that is being typed: the same names and marks, any of which may still be open, wrong or missing.


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """What stands between two / of a text that is being typed, the source or a hop, from column `start` to `end`.

    `name` is what there is of it, without quotes, escapes and inverse marks; two of these cancel.
    """

    start: int
    end: int
    kind: Literal["entity", "relation"]
    inverse: bool
    name: str


def pieces(text: str) -> list[Piece]:
    """The pieces of a text, in order, whatever mistakes it holds; there is always a first, and one behind a last /."""
    ends = [*(found.start() for found in _PIECE.finditer(text) if found[0] == "/"), len(text)]
    starts = [0, *(end + 1 for end in ends[:-1])]
    found = [Piece(0, ends[0], "entity", False, begun_name(text[: ends[0]]))]
    for start, end in zip(starts[1:], ends[1:], strict=True):
        found.append(Piece(start, end, "relation", *begun_hop(text[start:end])))
    return found


def last_part(text: str) -> int:
    """The column behind the last / that is outside quotes and < >: there begins the name or hop that is being typed."""
    return pieces(text)[-1].start


def end_of_name(text: str, column: int) -> int:
    """The column behind the name that begins at `column`."""
    match = _QUOTED.match(text, column) or _IRI.match(text, column) or _BARE.match(text, column)
    return column if match is None else match.end()


def begun_hop(text: str) -> tuple[bool, str]:
    """Whether the hop that is being typed is inverse so far, and its name so far."""
    marks = _MARKS.match(text)
    before, rest = (marks[0], text[marks.end() :]) if marks else ("", text)
    enclosed = _PIECE.match(rest)
    name = enclosed[0] if enclosed else rest.partition("^")[0]
    count = before.count("^") + before.count("**") + rest[len(name) :].count(_INVERSE_SUFFIX)
    return count % 2 == 1, begun_name(name)


def begun_name(text: str) -> str:
    """A name that is being typed, without the quotes or < > that it opens and perhaps closes."""
    text = text.strip()
    if text.startswith("<"):
        return text[1:].partition(">")[0]
    if not text.startswith('"'):
        return text
    closed = _QUOTED.match(text)
    return _ESCAPE.sub(_unescape_begun, closed[1] if closed else text[1:])


def _unescape_begun(escape: re.Match[str]) -> str:
    digits, letter = escape[1] or escape[2], escape[3]
    if digits is None:
        return _LETTER_ESCAPES.get(letter, letter)
    code = int(digits, 16)
    return escape[0] if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)
