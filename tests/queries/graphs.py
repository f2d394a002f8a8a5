"""Random small graphs and queries over them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.paths import PathQueries


def make_graph(triples: object, num_entities: int, num_relations: int) -> KnowledgeGraph:
    return KnowledgeGraph(
        Vocabulary([f"e{i}" for i in range(num_entities)], "entity"),
        Vocabulary([f"r{i}" for i in range(num_relations)], "relation"),
        np.array(triples, dtype=np.int32).reshape(-1, 3),
    )


@st.composite
def graphs(draw: st.DrawFn, max_entities: int = 7, max_relations: int = 3) -> KnowledgeGraph:
    """Any graph: self loops, duplicate lines, entities and relations without edges."""
    num_entities = draw(st.integers(1, max_entities))
    num_relations = draw(st.integers(1, max_relations))
    entity, relation = st.integers(0, num_entities - 1), st.integers(0, num_relations - 1)
    triples = draw(st.lists(st.tuples(entity, relation, entity), max_size=20))
    return make_graph(triples, num_entities, num_relations)


@st.composite
def graphs_with_queries(draw: st.DrawFn, max_hops: int = 5) -> tuple[KnowledgeGraph, PathQueries]:
    graph = draw(graphs())
    seed = draw(st.integers(0, 2**32 - 1))
    count = draw(st.integers(0, 12))
    return graph, random_queries(graph, count, max_hops, seed)


def random_queries(graph: KnowledgeGraph, count: int, max_hops: int, seed: int) -> PathQueries:
    """Queries of any length up to `max_hops`; what stands behind the length is junk that must be ignored."""
    draw = np.random.default_rng(seed)

    def ids(limit: int, *shape: int) -> NDArray[np.int32]:
        return draw.integers(0, limit, shape).astype(np.int32)

    return PathQueries(
        source=ids(graph.num_entities, count),
        path=ids(2 * graph.num_relations, count, max_hops),
        length=ids(max_hops, count) + np.int32(1),
        target=ids(graph.num_entities, count),
    )
