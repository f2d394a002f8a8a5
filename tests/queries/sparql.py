"""An independent oracle: queries answered by the SPARQL engine of pyoxigraph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pyoxigraph as ox

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.language import Anchor, Hop, Intersection, Negation, Node, Projection, Union


class SparqlOracle:
    """A graph in an RDF store; entity e is <e:e>, relation r is <r:r>, and every entity is an <e:thing>."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        self.store = ox.Store()
        self.store.bulk_extend(
            ox.Quad(ox.NamedNode(f"e:{s}"), ox.NamedNode(f"r:{r}"), ox.NamedNode(f"e:{t}"))
            for s, r, t in graph.triples.tolist()
        )
        self.store.bulk_extend(
            ox.Quad(ox.NamedNode(f"e:{e}"), ox.NamedNode("e:a"), ox.NamedNode("e:thing"))
            for e in range(graph.num_entities)
        )

    def answers(self, source: int, path: Sequence[int]) -> list[int]:
        """The distinct answers of one path, ascending."""
        hops = "/".join(self._relation(relation) for relation in map(int, path))
        return self.select(f"<e:{source}> {hops} ?t")

    def tree_answers(self, root: Node) -> list[int]:
        """The distinct answers of a tree, ascending."""
        return self.select(self._pattern(root, "?t", count()))

    def select(self, pattern: str) -> list[int]:
        """What ?t may be in a pattern, ascending."""
        rows = self.store.query(f"SELECT DISTINCT ?t WHERE {{ {pattern} }}")
        assert isinstance(rows, ox.QuerySolutions)
        return sorted(int(row["t"].value.removeprefix("e:")) for row in rows)

    def _pattern(self, node: Node, variable: str, fresh: count[int]) -> str:
        match node:
            case Anchor(entity):
                return f"VALUES {variable} {{ <e:{self.graph.entities.id(entity)}> }}"
            case Projection(of, hop):
                start = f"?v{next(fresh)}"
                return f"{{ {self._pattern(of, start, fresh)} }} {start} {self._hop(hop)} {variable} ."
            case Intersection(parts):
                return " ".join(f"{{ {self._pattern(part, variable, fresh)} }}" for part in parts)
            case Union(parts):
                return " UNION ".join(f"{{ {self._pattern(part, variable, fresh)} }}" for part in parts)
            case Negation(of):
                return f"{variable} <e:a> <e:thing> MINUS {{ {self._pattern(of, variable, fresh)} }}"

    def _hop(self, hop: Hop) -> str:
        return self._relation(self.graph.relation_id(hop.relation, hop.inverse))

    def _relation(self, relation: int) -> str:
        inverse, named = divmod(relation, self.graph.num_relations)
        return f"{'^' * inverse}<r:{named}>"
