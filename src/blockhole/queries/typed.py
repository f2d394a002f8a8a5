"""What is being typed: the names in a text that may be half a query, and which of them are entities or relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from blockhole.queries.tokens import Token, joins_nothing, lex, unescape
from blockhole.queries.tree import MAX_HOPS

PieceKind = Literal["entity", "relation"]


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """An entity or a hop of a text that may be half a query: text[column:end], without the marks around it.

    Its name begins at `name_column`, behind inverse marks; `name` is what is there of it, without quotes. `inverse`
    counts the marks on either side. A piece is `finished` if a mark follows it. A hop continues the path `after`, the
    text of a query's beginning; None where nothing is continued, or something inside an inverse ^( ).
    """

    kind: PieceKind
    column: int
    end: int
    name_column: int
    name: str
    inverse: bool
    finished: bool
    after: str | None = None


def pieces(text: str) -> list[Piece]:
    """What a text is made of that may be half a query: its entities and its hops, the last of which may be empty.

    Nothing is refused: a name with a space that nobody has quoted yet is still the beginning of a name.
    """
    scan = _Scan(text)
    for token in lex(text):
        scan.take(token)
    return scan.end()


def typed_hop(text: str) -> Piece:
    """A text as the beginning of a hop alone."""
    tokens = [token for token in lex(text) if token.kind != "/"]
    return _piece(text, 0, len(text), tokens, "relation", False, None)


def typed_name(text: str) -> str:
    """A text as the beginning of an entity's name alone, without quotes."""
    return _piece(text, 0, len(text), lex(text), "entity", False, None).name


def last_part(text: str) -> int:
    """The column behind the last mark that is outside quotes and < >: there begins what is being typed."""
    return pieces(text)[-1].column


@dataclass(slots=True)
class _Group:
    """Parentheses that are open, or the whole text: the path that relations in it continue, where they are such."""

    kind: PieceKind
    start: int
    base: str | None = None

    def path(self, text: str, end: int) -> str | None:
        """The path that a hop at `end` continues."""
        own = text[self.start : end]
        if self.kind == "entity":
            return own
        return None if self.base is None else f"{self.base}/{own}"


@final
class _Scan:
    """One pass over the tokens: the groups that are open, and the piece that is being read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._groups = [_Group("entity", 0)]
        self._found: list[Piece] = []
        self._kind: PieceKind | None = "entity"  # None behind a ), where a mark has to come
        self._after: str | None = None
        self._start = 0
        self._tokens: list[Token] = []
        self._named = False  # whether they are more than inverse marks
        self._trimmed = False  # beside any mark but / a space is no part of a name

    def take(self, token: Token) -> None:
        """Read one token, which ends a piece, opens or closes a group, or belongs to a piece."""
        group = self._groups[-1]
        if token.kind == "/":
            self._finish(token)
            # What is too long to be a query is not copied for each of its hops.
            path = group.path(self._text, token.column) if len(self._found) <= 2 * MAX_HOPS else None
            self._begin("relation", token, path)
        elif token.kind in ("&", "|") and not joins_nothing(self._text, token):
            self._finish(token)
            group.start = token.end
            self._begin(group.kind, token, group.base)
        elif token.kind == "!" and self._kind == "entity" and not self._tokens:
            group.start = token.end
            self._begin("entity", token, None)
        elif token.kind == "(" and self._kind is not None and not self._named:
            base = None if self._tokens else self._after
            self._groups.append(_Group(self._kind, token.end, base))
            self._begin(self._kind, token, base)
        elif token.kind == ")" and len(self._groups) > 1:
            self._finish(token)
            self._groups.pop()
            self._kind, self._tokens = None, []
        else:
            self._tokens.append(token)
            self._named = self._named or self._kind == "entity" or token.kind != "inverse"

    def end(self) -> list[Piece]:
        """All pieces, the last as far as it was typed."""
        self._finish(None)
        return self._found

    def _begin(self, kind: PieceKind, behind: Token, after: str | None) -> None:
        self._kind, self._after, self._start, self._tokens = kind, after, behind.end, []
        self._named = False
        self._trimmed = behind.kind != "/"

    def _finish(self, mark: Token | None) -> None:
        if self._kind is None:
            return
        start, end, own = self._start, len(self._text) if mark is None else mark.column, self._tokens
        if self._trimmed:
            start = own[0].column if own else end
        if mark is not None and mark.kind != "/":
            end = max(start, own[-1].end if own else start)
        self._found.append(_piece(self._text, start, end, own, self._kind, mark is not None, self._after))


def _piece(
    text: str, start: int, end: int, tokens: Sequence[Token], kind: PieceKind, finished: bool, after: str | None
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
    return Piece(kind, start, end, column, name, (marks + suffixes) % 2 == 1, finished, after)


def _read(token: Token) -> str:
    """The name of a token as far as it can be read."""
    try:
        return unescape(token)
    except ValueError:
        return token.inside
