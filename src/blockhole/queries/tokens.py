"""The tokens of a query's text, and names as a text holds them: bare, quoted, or as an IRI in < >.

Nothing is refused here: whoever completes what is being typed reads the same tokens as the parser.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

TokenKind = Literal[
    "bare", "quoted", "iri", "/", "(", ")", "&", "|", "!", "inverse", "inverse suffix", "stray"
]  # fmt: skip
NAMES: tuple[TokenKind, ...] = ("bare", "quoted", "iri")
CONNECTIVES: dict[str, TokenKind] = {"and": "&", "or": "|"}
WORDS = (*CONNECTIVES, "not")
INVERSE_SUFFIX = "^-1"

_MARKS: tuple[TokenKind, ...] = ("/", "(", ")", "&", "|", "!")
_INVERSE_MARKS = ("**", "^")
_BARE = re.compile(r'[^\s\x00-\x1f\x7f-\x9f/^"<>\\()|!*+?&]+')
_GLUED = re.compile(r'[^\s\x00-\x1f\x7f-\x9f/^"<>\\]+')
_ENCLOSED = re.compile(r'"((?:[^"\\]|\\.)*)("|\\?\Z)|<([^>]*)(>|\Z)', re.DOTALL)  # the end may leave it open
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTER_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_LOOKS_LIKE_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f-\x9f<>"\\{}|^`]+')
_BEHIND_NOT = re.compile(r'[\s(!"<]')
_BEHIND_A_CONNECTIVE = re.compile(r'[\s(!"<^]|\*\*')  # of relations, the way back may be an alternative
_SLASH_BEHIND = re.compile(r"\s*/")


class Token(NamedTuple):
    """A part of a text from `column` to `end`; what stands between two tokens is white space.

    `inside` is a name without its quotes or brackets, escapes not yet read; `closed` says whether these were closed. A
    word for a connective has the kind of its mark. A `stray` character begins nothing that the language knows.
    """

    kind: TokenKind
    column: int
    end: int
    inside: str
    closed: bool = True


def lex(text: str) -> list[Token]:
    """Every token of a text, be it a query, a part of one or none."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        tokens.append(_token(text, at, tokens[-1].kind if tokens else None))
        at = tokens[-1].end
    return tokens


def _token(text: str, at: int, before: TokenKind | None) -> Token:
    """The token that begins at a column, after one of kind `before`, if any."""
    ends_operand = before in (*NAMES, "inverse suffix", ")")
    if match := _BARE.match(text, at):
        kind = _kind_of_word(text, match, ends_operand, before in (None, "(", "&", "|", "!"))
        return Token(kind, at, match.end(), match[0])
    if match := _ENCLOSED.match(text, at):
        if match[1] is not None:
            return Token("quoted", at, match.end(), match[1], match[2] == '"')
        return Token("iri", at, match.end(), match[3], match[4] == ">")
    # Before a name ^-1 is a mark and a relation called -1.
    if ends_operand and text.startswith(INVERSE_SUFFIX, at):
        return Token("inverse suffix", at, at + len(INVERSE_SUFFIX), INVERSE_SUFFIX)
    for mark in _INVERSE_MARKS:
        if text.startswith(mark, at):
            return Token("inverse", at, at + len(mark), mark)
    for kind in _MARKS:
        if text[at] == kind:
            return Token(kind, at, at + 1, kind)
    return Token("stray", at, at + 1, text[at])


def _kind_of_word(text: str, word: re.Match[str], ends_operand: bool, begins_operand: bool) -> TokenKind:
    """What a bare word is: a connective only where no name can stand, so that paths mean what they always did."""
    if ends_operand and word[0] in CONNECTIVES and _BEHIND_A_CONNECTIVE.match(text, word.end()):
        return CONNECTIVES[word[0]]
    if begins_operand and word[0] == "not" and _BEHIND_NOT.match(text, word.end()):
        return "bare" if _SLASH_BEHIND.match(text, word.end()) else "!"
    return "bare"


def glued(text: str, column: int) -> str:
    """The run of characters around a column that would be one bare name if marks could stand in it.

    Parentheses around it are not its own.
    """
    run = next((run[0] for run in _GLUED.finditer(text) if run.start() <= column < run.end()), "")
    return run.lstrip("(").rstrip(")") if run.startswith("(") else run


def follows_bare(text: str, column: int) -> bool:
    """Whether a bare name ends right before a column."""
    return column > 0 and _BARE.match(text[column - 1]) is not None


def joins_nothing(text: str, token: Token) -> bool:
    """Whether an & stands in the middle or at the end of a bare word, where it was once a part of a name."""
    if token.inside != "&" or not follows_bare(text, token.column):
        return False
    return text[token.end : token.end + 1] in ("", "^") or _BARE.match(text, token.end) is not None


# Names


def write_name(name: str) -> str:
    """A name as queries hold it: bare where it can be, as an IRI where it looks like one, else quoted."""
    if name.isprintable() and _BARE.fullmatch(name) and name not in WORDS:
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


def unescape(token: Token) -> str:
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
