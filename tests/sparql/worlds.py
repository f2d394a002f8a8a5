"""Engines over random weights whose graphs have every kind of term, the same facts in pyoxigraph, random queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pyoxigraph as ox

from blockhole.answering.engine import Engine
from blockhole.answering.sparql.results import Solutions, Statements, Truth
from blockhole.answering.vectors import Vectors
from blockhole.files.rdf import PREFIX, node_terms, relation_terms
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.answering.toys import SIZES, calibration_by_hand, make_model

EXAMPLE = "http://example.org/"
NAMES = [
    *(f"{EXAMPLE}e{i}" for i in range(8)),
    "Ada Lovelace", "50% & more", "ünïcode",
    '"Ada"@en', '"Ada"', '"7"^^<http://www.w3.org/2001/XMLSchema#integer>', "_:b0",
]  # fmt: skip
RELATIONS = [f"{EXAMPLE}r0", f"{EXAMPLE}r1", "knows of", f"{EXAMPLE}r3"]
FIRST_LITERAL = NAMES.index('"Ada"@en')


def rdf_engine(seed: int = 0, facts: int = 80, *, chains: bool = False) -> Engine:
    """An engine whose entities are IRIs, plain names, literals, which are objects only, and a blank node."""
    rng = np.random.default_rng(seed)
    subjects = [*range(FIRST_LITERAL), len(NAMES) - 1]
    triples = np.column_stack(
        [rng.choice(subjects, facts), rng.integers(len(RELATIONS), size=facts), rng.integers(len(NAMES), size=facts)]
    ).astype(np.int32)
    prefixes = {"ex": EXAMPLE}
    graph = KnowledgeGraph(Vocabulary(NAMES, "entity", prefixes), Vocabulary(RELATIONS, "relation", prefixes), triples)
    model = make_model("blockhole", len(NAMES), len(RELATIONS), seed)
    vectors = Vectors.of_weights(SIZES["blockhole"], dict(model.state_dict()), len(RELATIONS))
    return Engine(vectors, graph, calibration_by_hand(intercept=3.0, chains=chains))


Rows = list[tuple[str | None, ...]]


class Oracle:
    """The facts of a graph in an RDF store."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        nodes = node_terms(graph.entities, [True] * graph.num_entities)
        lines = [
            f"{nodes[s]} {relation_terms([graph.relations[r]])[0]} {nodes[t]} ." for s, r, t in graph.triples.tolist()
        ]
        self.store = ox.Store()
        for quad in ox.parse("\n".join(lines), format=ox.RdfFormat.N_TRIPLES):
            self.store.add(quad)

    def rows(self, query: str) -> Rows | bool:
        """What pyoxigraph finds, terms as N-Triples spells them."""
        found = self.store.query(query, prefixes={"": PREFIX, "ex": EXAMPLE})
        if isinstance(found, ox.QueryBoolean):
            return bool(found)
        assert isinstance(found, ox.QuerySolutions)
        names = [each.value for each in found.variables]
        return [tuple(_spelled(row[name]) for name in names) for row in found]


def _spelled(term: object) -> str | None:
    return None if term is None else "_:b0" if isinstance(term, ox.BlankNode) else str(term)


def rows_of(result: Solutions | Truth | Statements) -> Rows | bool:
    """The same of our own results."""
    assert not isinstance(result, Statements)
    return result.holds if isinstance(result, Truth) else [row.terms for row in result]


def same_bag(left: Sequence[object], right: Sequence[object]) -> bool:
    return Counter(left) == Counter(right)


# Random queries


class Queries:
    """Random queries over the names of `rdf_engine`, of every kind that is supported."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def query(self) -> str:
        pick, group = self._random, self._group(3)
        kind = pick.random()
        if kind < 0.1:
            return f"ASK {{ {group} }}"
        if kind < 0.25:
            counted = pick.choice(["*", "?x", "DISTINCT ?x", "DISTINCT ?y", "?z"])
            if pick.random() < 0.5:
                return f"SELECT ?y (COUNT({counted}) AS ?n) {{ {group} }} GROUP BY ?y"
            return f"SELECT (COUNT({counted}) AS ?n) {{ {group} }}"
        chosen = pick.sample(["?x", "?y", "?z", "?w"], pick.randint(1, 3))
        shown = pick.choice(["", "", "DISTINCT "]) + " ".join(chosen)
        query = f"SELECT {shown} {{ {group} }}"
        if pick.random() < 0.2:
            query += " ORDER BY " + " ".join(pick.choice([each, f"DESC({each})"]) for each in chosen)
        if pick.random() < 0.2:
            query += f" LIMIT {pick.randint(0, 8)}" + pick.choice(["", f" OFFSET {pick.randint(0, 3)}"])
        return query

    def _group(self, depth: int) -> str:
        pick = self._random
        parts = [self._triples()]
        if depth:
            parts += [self._clause(depth - 1) for _ in range(pick.choice([0, 0, 1, 1, 2]))]
        if pick.random() < 0.15:
            pick.shuffle(parts)
        return " ".join(parts)

    def _clause(self, depth: int) -> str:
        pick = self._random
        inner = self._group(depth)
        match pick.randrange(8):
            case 0:
                return f"{{ {self._group(depth)} }} UNION {{ {inner} }}"
            case 1:
                return f"MINUS {{ {inner} }}"
            case 2:
                return f"FILTER {pick.choice(['NOT EXISTS', 'EXISTS'])} {{ {self._triples()} }}"
            case 3:
                return f"OPTIONAL {{ {self._triples()} }}"
            case 4:
                third = pick.choice(["UNDEF", self._node()])
                return f"VALUES {self._variable()} {{ {self._node()} {self._node()} {third} }}"
            case 5 | 6:
                return f"FILTER({self._condition()})"
            case _:
                return f"{{ {inner} }}"

    def _condition(self) -> str:
        pick = self._random
        one, other = self._variable(), self._variable()
        return pick.choice([
            f"{one} = {self._node()}", f"{one} != {self._node()}", f"{one} = {other}", f"{one} != {other}",
            f"BOUND({one})", f"!BOUND({one})", f"isIRI({one})", f"{one} IN ({self._node()}, {self._node()})",
            f"{one} = {self._node()} || {other} = {self._node()}",
            f"{one} != {self._node()} && {other} != {self._node()}",
            f"sameTerm({one}, {other})", f"isLiteral({one})", f"REGEX(STR({one}), '[02]')", f"{one} > 3",
        ])  # fmt: skip

    def _triples(self) -> str:
        pick = self._random
        return " ".join(
            f"{self._end(0.7)} {self._path()} {self._end(0.75)} ." for _ in range(pick.choice([1, 1, 2, 2, 3]))
        )

    def _path(self, depth: int = 2) -> str:
        pick = self._random
        relation = pick.choice(["ex:r0", "ex:r1", ":knows%20of", "ex:r3"])
        if not depth or pick.random() < 0.65:
            return relation
        inner, other = self._path(depth - 1), self._path(depth - 1)
        while other == inner:  # of two equal alternatives pyoxigraph drops one, which the standard does not
            other = self._path(depth - 1)
        return pick.choice([
            f"^({inner})", f"({inner}/{other})", f"({inner}|{other})", f"({inner})?", f"({inner})+", f"({inner})*",
        ])  # fmt: skip

    def _end(self, variable: float) -> str:
        pick = self._random
        if pick.random() < variable:
            return self._variable()
        return "[]" if pick.random() < 0.1 else self._node(literals=False)

    def _variable(self) -> str:
        return self._random.choice(["?x", "?y", "?z", "?x", "?y", "?w"])

    def _node(self, literals: bool = True) -> str:
        pick = self._random
        if literals and pick.random() < 0.2:
            return pick.choice(['"Ada"@en', '"Ada"', "7"])
        if pick.random() < 0.2:
            return pick.choice([":Ada%20Lovelace", f"<{PREFIX}50%25%20%26%20more>"])
        return f"ex:e{pick.randrange(8)}"
