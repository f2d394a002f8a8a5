"""Names and RDF terms.

| term         | spelled                  | name                                                          |
|--------------|--------------------------|---------------------------------------------------------------|
| IRI          | `<http://example.org/a>` | `http://example.org/a`, whole and without the brackets        |
| IRI of ours  | `<urn:blockhole:a%20b>`  | `a b`: names that are no RDF terms are percent-encoded        |
| blank node   | `_:b0`                   | `_:b0`                                                        |
| literal      | `"Alice"@en`             | `"Alice"@en`, its canonical N-Triples spelling, quotes and all |

So every RDF triple is a fact, no two terms share a name by accident, and names come back from N-Triples unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    import polars as pl

PREFIX = "urn:blockhole:"

# Canonical N-Triples: the spelling that pyoxigraph prints. IRIs are held to the grammar's characters, not to the
# structure of RFC 3986, because large public dumps break the latter; one that looks like a blank node is left out.
_IN_IRI = r"\x00-\x20<>\x22{}|^`\\"
IRI = rf"<(?:[^_{_IN_IRI}][^{_IN_IRI}]*|_(?:[^:{_IN_IRI}][^{_IN_IRI}]*)?)>"
_LETTER = (
    r"A-Za-z\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{2FF}\u{370}-\u{37D}\u{37F}-\u{1FFF}\u{200C}-\u{200D}\u{2070}-\u{218F}"
    r"\u{2C00}-\u{2FEF}\u{3001}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFFD}\u{10000}-\u{EFFFF}"
)
_LATER = rf"{_LETTER}0-9_\-\u{{B7}}\u{{300}}-\u{{36F}}\u{{203F}}-\u{{2040}}"
BLANK = rf"_:[{_LETTER}0-9_](?:[{_LATER}.]*[{_LATER}])?"
_CHARACTER = r"(?:[^\x00-\x1f\x22\\\x7f\u{FFFE}\u{FFFF}]|\\[tbnrf\x22\\]|\\u(?:00(?:0[0-7BEF]|1[0-9A-F]|7F)|FFF[EF]))"
LITERAL = rf"\x22{_CHARACTER}*\x22(?:@[a-z]+(?:-[a-z0-9]+)*(?:--ltr|--rtl)?|\^\^{IRI})?"
XSD_STRING = "^^<http://www.w3.org/2001/XMLSchema#string>"


def names_of_terms(terms: pl.Series) -> pl.Series:
    """The names of a column of canonical terms."""
    import polars as pl

    names = terms.to_frame("term").select(
        pl.when(pl.col("term").str.starts_with("<"))
        .then(pl.col("term").str.slice(1).str.strip_suffix(">"))
        .otherwise(pl.col("term"))
        .alias(terms.name)
    )[terms.name]
    ours = terms.filter(terms.str.starts_with(f"<{PREFIX}")).unique().str.slice(1).str.strip_suffix(">")
    return names.replace(ours, [_decoded(iri) for iri in ours]) if len(ours) else names


def _decoded(iri: str) -> str:
    try:
        name = unquote(iri.removeprefix(PREFIX), errors="strict")
    except UnicodeDecodeError:
        return iri
    return name or iri


def node_terms(names: Iterable[str], literals: Iterable[bool]) -> list[str]:
    """The terms of entity names; where `literals` allows it, a literal's spelling becomes that literal."""
    return [_node_term(name, literal) for name, literal in zip(names, literals, strict=True)]


def relation_terms(names: Iterable[str]) -> list[str]:
    """The terms of relation names: always IRIs."""
    return [_iri(name) for name in names]


def _node_term(name: str, literal: bool) -> str:
    if name.startswith("_:") and _is_blank_node(name):
        return name
    if literal and name.startswith('"') and _is_literal(name):
        return name
    return _iri(name)


def _iri(name: str) -> str:
    import pyoxigraph

    if not name.startswith(PREFIX) and ":" in name:
        try:
            return str(pyoxigraph.NamedNode(name))
        except ValueError:
            pass
    return f"<{PREFIX}{quote(name, safe='')}>"


def _is_blank_node(name: str) -> bool:
    import pyoxigraph

    try:
        return str(pyoxigraph.BlankNode(name.removeprefix("_:"))) == name
    except ValueError:
        return False


def _is_literal(name: str) -> bool:
    """Whether `name` is a literal as N-Triples spells it canonically."""
    import pyoxigraph

    if "\n" in name or "\r" in name:
        return False
    try:
        (quad,) = pyoxigraph.parse(f"<a:a> <a:a> {name} .", format=pyoxigraph.RdfFormat.N_TRIPLES)
    except SyntaxError:
        return False
    return str(quad.object) == name
