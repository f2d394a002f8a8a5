"""Queries of the engine as SPARQL, and the other way round: what both can express is one question."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from blockhole.answering.sparql.single import as_query
from blockhole.answering.sparql.terms import Terms, prefixes_of
from blockhole.errors import QueryError
from blockhole.files.rdf import node_terms, relation_terms
from blockhole.queries.language import Anchor, Intersection, Negation, Node, Projection, Query, Union

if TYPE_CHECKING:
    from blockhole.answering.engine import Engine
    from blockhole.graph.knowledge_graph import KnowledgeGraph

_LOCAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ASKED, _SPECIAL = "answer", ("probability", "status")


def as_sparql(query: Query, graph: KnowledgeGraph) -> str:
    """A query as a SPARQL SELECT of ?answer with its ?probability and ?status, that any client may send to /sparql."""
    writer = _Writer(graph)
    lines = writer.lines(query.root, _ASKED)
    prefixes = [f"PREFIX {name}: <{iri}>" for name, iri in writer.used.items()]
    return "\n".join([*prefixes, "SELECT ?answer ?probability ?status WHERE {", *lines, "}"])


class _Writer:
    """Lines of one SPARQL query: each node of a query says something of a variable."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._known = sorted(prefixes_of(graph).items(), key=lambda each: -len(each[1]))
        self.used: dict[str, str] = {}
        self._fresh = 0

    def lines(self, node: Node, variable: str, depth: int = 1) -> list[str]:
        """What a node says of a variable."""
        indent = "  " * depth
        hops: list[str] = []
        while isinstance(node, Projection):
            relation = self._short(relation_terms([node.hop.relation])[0])
            hops.insert(0, "^" * node.hop.inverse + relation)
            node = node.of
        match node:
            case Anchor(entity):
                term = self._short(node_terms([entity], [True])[0])
                if hops:
                    return [f"{indent}{term} {'/'.join(hops)} ?{variable} ."]
                return [f"{indent}VALUES ?{variable} {{ {term} }}"]
            case _ if hops:
                self._fresh += 1
                start = f"via{self._fresh}"
                return [*self.lines(node, start, depth), f"{indent}?{start} {'/'.join(hops)} ?{variable} ."]
            case Intersection(parts):
                ordered = sorted(parts, key=lambda part: isinstance(part, Negation))
                return [line for part in ordered for line in self.lines(part, variable, depth)]
            case Union(parts):
                blocks = [[f"{indent}{{", *self.lines(part, variable, depth + 1), f"{indent}}}"] for part in parts]
                return [line for i, block in enumerate(blocks) for line in ([f"{indent}UNION"] if i else []) + block]
            case Negation(of):
                return [f"{indent}MINUS {{", *self.lines(of, variable, depth + 1), f"{indent}}}"]
        raise AssertionError(node)

    def _short(self, term: str) -> str:
        """A term with a prefix, where one fits."""
        if term.startswith("<"):
            for name, iri in self._known:
                local = term[1:-1].removeprefix(iri)
                if term[1:].startswith(iri) and _LOCAL.fullmatch(local):
                    self.used[name] = iri
                    return f"{name}:{local}"
        return term


def from_sparql(text: str, engine: Engine) -> Query:
    """The query that a SPARQL SELECT of one variable is; refuses what only SPARQL can say."""
    from blockhole.answering.sparql.translate import understand

    request = understand(text, Terms(engine.graph))
    asked = [name for name, _ in request.projected if name not in _SPECIAL]
    plain = request.kind == "select" and len(asked) == 1 and not (request.counts or request.final or request.order)
    query = as_query(engine, request.where, asked[0]) if plain else None
    if query is None:
        raise QueryError(
            "this says more than one query can: select one variable that paths lead to from entities, "
            "or send it to /sparql, which answers all of it."
        )
    return query.query
