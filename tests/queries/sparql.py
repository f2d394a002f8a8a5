"""An independent oracle: path queries answered by the SPARQL engine of pyoxigraph."""

from __future__ import annotations

from collections.abc import Sequence

import pyoxigraph as ox

from blockhole.graph.knowledge_graph import KnowledgeGraph


class SparqlOracle:
    """A graph in an RDF store; entity e is <e:e>, relation r is <r:r>."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.num_relations = graph.num_relations
        self.store = ox.Store()
        self.store.bulk_extend(
            ox.Quad(ox.NamedNode(f"e:{s}"), ox.NamedNode(f"r:{r}"), ox.NamedNode(f"e:{t}"))
            for s, r, t in graph.triples.tolist()
        )

    def answers(self, source: int, path: Sequence[int]) -> list[int]:
        """The distinct answers of one query, ascending."""
        hops = "/".join(
            f"<r:{r}>" if r < self.num_relations else f"^<r:{r - self.num_relations}>" for r in map(int, path)
        )
        rows = self.store.query(f"SELECT DISTINCT ?t WHERE {{ <e:{source}> {hops} ?t }}")
        assert isinstance(rows, ox.QuerySolutions)
        return sorted(int(row["t"].value.removeprefix("e:")) for row in rows)
