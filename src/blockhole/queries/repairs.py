"""What a text that is no query was perhaps meant to be: names in quotes, marks closed, and nothing left over."""

from __future__ import annotations

import re

from blockhole.errors import QueryError, QuerySyntaxError
from blockhole.queries.language import parse, pieces
from blockhole.queries.tokens import joins_nothing, lex, write_name

_LONGEST = 2000
"""Characters of a text that is looked into: every repair reads it again."""
_LOOSE_END = re.compile(r"[\s/&|!^(]+\Z")


def repairs(text: str) -> list[str]:
    """Texts close to this one that are queries, the most likely first; none where it is a query already."""
    if len(text) > _LONGEST or _mistake(text) is None:
        return []
    tried = dict.fromkeys([_closed(text), _closed(_LOOSE_END.sub("", text)), *_without_mark(text), quoted_names(text)])
    return [each for each in tried if each != text and _mistake(each) is None]


def with_name(text: str, column: int, end: int, name: str) -> str:
    """The text with a name in the place of text[column:end], or of all of it that stands there without its quotes."""
    size = len(name)
    for first in range(max(0, end - size), column + 1):
        if text[first : first + size].casefold() == name.casefold():
            column, end = first, first + size
            break
    return text[:column] + write_name(name) + text[end:]


def quoted_names(text: str) -> str:
    """The same text with quotes around the names that need them: number 7/next is "number 7"/next."""
    written, last = [], 0
    for piece in pieces(text):
        name = piece.name.strip()
        own = "^" * piece.inverse + write_name(name) if name else text[piece.column : piece.end].strip()
        written += [text[last : piece.column], own]
        behind = text[piece.column : piece.end]
        if piece.finished and behind.endswith(" ") and not text[piece.end :].startswith("/"):
            written.append(" ")
        last = piece.end
    return "".join([*written, text[last:]])


def _closed(text: str) -> str:
    """The text with its last quote and all of its parentheses closed."""
    tokens = lex(text)
    if tokens and not tokens[-1].closed:
        text += '"' if tokens[-1].kind == "quoted" else ">"
    return text + ")" * sum({"(": 1, ")": -1}.get(token.kind, 0) for token in tokens)


def _without_mark(text: str) -> list[str]:
    """The text without the mark that it is wrong at, or the one before.

    An & in the middle of a word is put between spaces instead. A ! stays, for without it the opposite is asked: behind
    a | it is the | that becomes an &.
    """
    mistake = _mistake(text)
    if not isinstance(mistake, QuerySyntaxError):
        return []
    column, tokens = mistake.column, lex(text)
    at = next((place for place, token in enumerate(tokens) if token.column == column), len(tokens))
    if at < len(tokens) and tokens[at].kind == "!":
        before = tokens[at - 1] if at else tokens[at]
        return [f"{text[: before.column]}&{text[before.end :]}"] if before.kind == "|" else []
    if at < len(tokens) and joins_nothing(text, tokens[at]):
        return [f"{text[:column]} & {text[column + 1 :]}"]
    found = [text[:at] + text[at + 1 :] for at in (column, column - 1) if text[at : at + 1] in ("/", "&", "|", ")")]
    return [" ".join(each.split()) for each in found]


def _mistake(text: str) -> QueryError | None:
    try:
        parse(text)
    except QueryError as mistake:
        return mistake
    return None
