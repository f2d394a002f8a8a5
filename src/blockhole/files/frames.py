"""Graphs as polars and pandas frames and as networkx graphs, in and out in one call each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blockhole.errors import DataError, MissingExtra
from blockhole.files.readers import Encoder
from blockhole.files.tables import COLUMNS, empty_name, name_facts
from blockhole.graph.knowledge_graph import KnowledgeGraph

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import polars as pl


def from_polars(
    frame: pl.DataFrame, source: str = "source", relation: str = "relation", target: str = "target"
) -> KnowledgeGraph:
    """The graph of the rows of a frame; the arguments name its columns, other columns are ignored."""
    _require_columns(frame.columns, (source, relation, target))
    columns = (frame[name] for name in (source, relation, target))
    return _graph(dict(zip(COLUMNS, columns, strict=True)))


def to_polars(graph: KnowledgeGraph) -> pl.DataFrame:
    """One row a fact, in order: columns source, relation, target."""
    return name_facts(graph.entities.names, graph.relations.names, graph.triples)


def from_pandas(
    frame: pd.DataFrame, source: str = "source", relation: str = "relation", target: str = "target"
) -> KnowledgeGraph:
    """The graph of the rows of a frame; the arguments name its columns, other columns are ignored."""
    import polars as pl

    _require_columns(frame.columns.tolist(), (source, relation, target))
    columns = {}
    for name, column in zip(COLUMNS, (source, relation, target), strict=True):
        values = frame[column].astype(object).where(frame[column].notna(), None)
        columns[name] = pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
    return _graph(columns)


def to_pandas(graph: KnowledgeGraph) -> pd.DataFrame:
    """One row a fact, in order: columns source, relation, target."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("a pandas frame", "frames") from None

    entities, relations = (np.array(names.names, dtype=object) for names in (graph.entities, graph.relations))
    source, relation, target = graph.triples.T
    return pd.DataFrame({"source": entities[source], "relation": relations[relation], "target": entities[target]})


def from_networkx(graph: nx.Graph[Any]) -> KnowledgeGraph:
    """The graph of a directed networkx graph: its nodes, in order, are the entities, its edges the facts.

    The relation of an edge is its attribute `relation`; where there is none, the key of the edge in a multigraph.
    """
    import polars as pl

    if not graph.is_directed():
        raise DataError("the networkx graph is undirected, but facts have a direction; use networkx.MultiDiGraph.")
    edges = [
        (str(source), _relation(source, target, key, attributes), str(target))
        for source, target, key, attributes in _edges(graph)
    ]
    nodes = [str(node) for node in graph]
    if len(set(nodes)) != len(nodes):
        raise DataError("two nodes of the networkx graph have the same name as text; rename one of them.")
    return _graph(dict(pl.DataFrame(edges, schema=dict.fromkeys(COLUMNS, pl.String), orient="row").to_dict()), nodes)


def to_networkx(graph: KnowledgeGraph) -> nx.MultiDiGraph[str]:
    """A multigraph with all entities as nodes and one edge a fact, its relation in the attribute `relation`."""
    try:
        import networkx as nx
    except ImportError:
        raise MissingExtra("a networkx graph", "frames") from None

    made: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    made.add_nodes_from(graph.entities)
    for source, relation, target in to_polars(graph).iter_rows():
        made.add_edge(source, target, relation=relation)
    return made


def _edges(graph: nx.Graph[Any]) -> Any:
    import networkx as nx

    if isinstance(graph, nx.MultiDiGraph):
        return graph.edges(keys=True, data=True)
    return ((source, target, None, attributes) for source, target, attributes in graph.edges(data=True))


def _relation(source: object, target: object, key: object, attributes: dict[str, object]) -> str:
    if "relation" in attributes:
        return str(attributes["relation"])
    if isinstance(key, str):
        return key
    raise DataError(f"the edge from {source!r} to {target!r} has no relation; set its attribute 'relation'.")


def _require_columns(present: list[str], wanted: tuple[str, str, str]) -> None:
    for name in wanted:
        if name not in present:
            raise DataError(
                f"the frame has no column {name!r}, only {', '.join(map(str, present))}; "
                "name the columns with source=, relation= and target=."
            )


def _graph(columns: dict[str, pl.Series], entities: list[str] | None = None) -> KnowledgeGraph:
    import polars as pl

    facts = pl.DataFrame({name: column.cast(pl.String) for name, column in columns.items()})
    if empty := empty_name(facts):
        row, column = empty
        raise DataError(
            f"the {column} of row {row} of the frame (counted from 0) is empty; give it a name or drop the row."
        )
    encoder = Encoder(entities or ())
    triples, _ = encoder.encode([facts])
    return KnowledgeGraph(*encoder.vocabularies(), triples)
