"""Terms of RDF and the ids of entities: the one's names are the other's, as files of RDF have them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, final

from blockhole.files.rdf import PREFIX, name_of_iri, node_terms

if TYPE_CHECKING:
    from rdflib.term import Node

    from blockhole.graph.knowledge_graph import KnowledgeGraph

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^<([^>]*)>)?', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
DOUBLE, INTEGER = "http://www.w3.org/2001/XMLSchema#double", "http://www.w3.org/2001/XMLSchema#integer"


class Spelled(NamedTuple):
    """A term taken apart: its kind, its text, and for a literal its language or datatype."""

    kind: str
    text: str
    language: str | None = None
    datatype: str | None = None


def taken_apart(term: str) -> Spelled:
    """A term as N-Triples spells it."""
    if term.startswith("<"):
        return Spelled("uri", term[1:-1])
    if term.startswith("_:"):
        return Spelled("bnode", term[2:])
    found = _LITERAL.fullmatch(term)
    assert found is not None
    text, language, datatype = found.groups()
    return Spelled("literal", _ESCAPE.sub(_unescaped, text), language, datatype)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(escape[3], escape[3])


def spelled(term: Node) -> str:
    """A term of rdflib as canonical N-Triples spells it."""
    import pyoxigraph
    from rdflib.term import BNode, Literal

    if isinstance(term, Literal):
        language = term.language
        datatype = None if term.datatype is None else pyoxigraph.NamedNode(str(term.datatype))
        if language is not None:
            return str(pyoxigraph.Literal(str(term), language=language))
        return str(pyoxigraph.Literal(str(term), datatype=datatype))
    return f"_:{term}" if isinstance(term, BNode) else f"<{term}>"


def probability_term(value: float) -> str:
    """A probability as a literal."""
    return f'"{value:.6g}"^^<{DOUBLE}>'


def count_term(value: int) -> str:
    """A number as a literal."""
    return f'"{value}"^^<{INTEGER}>'


def plainly(term: str, shown: Callable[[str], str]) -> str:
    """A term as people read it: entities as `shown` says, numbers as numbers, texts without quotes and language."""
    kind, text, _, _ = taken_apart(term)
    if kind == "literal":
        label = shown(term)
        return text if label == term else label
    return shown(term if kind == "bnode" else name_of_iri(text))


@final
class Terms:
    """The terms of one query: entities of the graph by their ids, others that the query brings by ids behind these."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        self._others: list[str] = []
        self._ids: dict[str, int] = {}
        self._nodes: dict[int, Node] = {}

    def find(self, term: Node) -> int | None:
        """The entity that a term of a query is, if the graph has it."""
        text = spelled(term)
        return self.graph.entities.find(name_of_iri(text[1:-1]) if text.startswith("<") else text)

    def number(self, term: Node) -> int:
        """The id of a term, of one that the graph lacks too."""
        found = self.find(term)
        return self.of_text(spelled(term)) if found is None else found

    def of_text(self, text: str) -> int:
        """The id of a term that is not an entity."""
        if text not in self._ids:
            self._ids[text] = self.graph.num_entities + len(self._others)
            self._others.append(text)
        return self._ids[text]

    def text(self, number: int) -> str:
        """The term of an id, as N-Triples spells it."""
        entities = self.graph.num_entities
        if number >= entities:
            return self._others[number - entities]
        return node_terms([self.graph.entities[number]], [True])[0]

    def node(self, number: int) -> Node:
        """The term of an id as rdflib computes with it."""
        if number not in self._nodes:
            self._nodes[number] = as_node(self.text(number))
        return self._nodes[number]


def as_node(text: str) -> Node:
    """A term as rdflib computes with it."""
    from rdflib.term import BNode, Literal, URIRef

    kind, value, language, datatype = taken_apart(text)
    if kind == "uri":
        return URIRef(value)
    if kind == "bnode":
        return BNode(value)
    return Literal(value, lang=language, datatype=None if datatype is None else URIRef(datatype))


def prefixes_of(graph: KnowledgeGraph) -> dict[str, str]:
    """The prefixes that a query may use undeclared: the graph's own, and : for names that are not IRIs."""
    return {"": PREFIX, **graph.entities.prefixes, **graph.relations.prefixes}
