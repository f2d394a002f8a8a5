"""Random queries: paths of any names, texts that are perhaps none, and trees over the names of `make_graph`."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries.language import Anchor, Hop, Intersection, Node, Projection, Query, Union
from blockhole.queries.tree import MAX_BRANCHES, named_nodes, negated
from tests.queries.graphs import graphs

names = st.text(min_size=1)
queries = st.builds(Query, names, st.lists(st.builds(Hop, names, st.booleans()), min_size=1, max_size=4).map(tuple))

_parts = st.sampled_from([*'ar/^"\\<> \n*()&|!語', "**", "^-1", "\\u00", "and", "not"])
texts = st.text() | st.lists(_parts).map("".join)


@st.composite
def nodes(draw: st.DrawFn, num_entities: int = 4, num_relations: int = 3, depth: int = 3, bounded: bool = True) -> Node:
    """Any tree of so many levels at most; one that is `bounded` is more than all but something."""

    def inner(bounded: bool) -> Node:
        return draw(nodes(num_entities, num_relations, depth - 1, bounded))

    kinds = ["entity", "hop", "hop", "and", "or"] if bounded else ["entity", "hop", "and", "or", "not", "not"]
    kind = draw(st.sampled_from(kinds)) if depth else "entity"
    if kind == "hop":
        hop = Hop(f"r{draw(st.integers(0, num_relations - 1))}", draw(st.booleans()))
        return Projection(inner(bounded=True), hop)
    if kind == "not":
        return negated(inner(bounded=False))
    if kind == "or":
        return Union(tuple(inner(bounded) for _ in range(draw(st.integers(2, 3)))))
    if kind == "and":
        others = [inner(bounded=False) for _ in range(draw(st.integers(1, 2)))]
        return Intersection(tuple(draw(st.permutations([inner(bounded), *others]))))
    return Anchor(f"e{draw(st.integers(0, num_entities - 1))}")


@st.composite
def trees(draw: st.DrawFn, num_entities: int = 4, num_relations: int = 3) -> Query:
    """Any query."""
    root = draw(nodes(num_entities, num_relations))
    try:
        return Query(root)
    except ValueError:  # it has no hop
        return Query(root, [Hop("r0", draw(st.booleans()))])


def join(kind: type[Intersection | Union], *roots: Node) -> Query:
    """Trees joined to one query, where it has no more branches than a query may have."""
    assume(sum(isinstance(node, Anchor) for root in roots for node in named_nodes(root)) <= MAX_BRANCHES)
    return Query(kind(roots))


@st.composite
def graphs_with_trees(draw: st.DrawFn) -> tuple[KnowledgeGraph, Query]:
    graph = draw(graphs())
    return graph, draw(trees(graph.num_entities, graph.num_relations))
