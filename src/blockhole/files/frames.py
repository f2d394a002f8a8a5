"""Graphs in memory: frames, arrays, lists of triples, networkx and rdflib graphs, in and out in one call each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import ConfigError, DataError, MissingExtra, counted, quoted
from blockhole.files.columns import (
    COLUMNS,
    ColumnNames,
    Literals,
    Reading,
    check_values,
    choose,
    named_roles,
    refuse_disorder,
)
from blockhole.files.readers import Encoder, read_named_files, warn_of_negatives, warn_of_oddities
from blockhole.files.tables import (
    DECISION_REMEDY,
    LOOKED_AT,
    as_names,
    empty_name,
    first_rows,
    name_facts,
    with_positive,
    wrong_decision,
)
from blockhole.graph.knowledge_graph import KnowledgeGraph

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import polars as pl


FORMS = (
    "a frame of polars or pandas, an Arrow table, an array of three columns, a list of triples, or a graph of networkx "
    "or rdflib"
)


def is_table(data: object) -> bool:
    """Whether facts in memory have one of the forms that `to_graph` takes; text is the name of a file."""
    kind = _kind(data)
    return kind in _KINDS or (isinstance(data, Sequence) and not isinstance(data, str | bytes))


def to_graph(data: Any, *, columns: ColumnNames | None = None, literals: Literals | None = None) -> KnowledgeGraph:
    """The graph of facts in memory: a frame, a table of Arrow, an array, a list of triples, a networkx or rdflib graph.

    Columns of a frame are found by their names, as in a file, or told by `columns`; others are left out. Those of an
    array or a list are source, relation and target, or told by their numbers from 1. Names may be numbers. The relation
    of a networkx edge is its attribute `relation`, else `label` or `type`, else its key in a multigraph; nodes without
    edges are entities too. `literals` are those of an rdflib graph.
    """
    reading = Reading.of(columns, literals)
    match _kind(data):
        case "polars":
            return _from_frame(data, reading)
        case "arrow":
            return _from_arrow(data, reading)
        case "pandas":
            return _from_frame(_as_polars(data), reading)
        case "networkx":
            return _from_networkx(data)
        case "rdflib":
            return _from_rdflib(data, reading)
        case "numpy":
            return _from_array(data, reading)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _from_triples(data, reading)
    raise ConfigError(f"facts in memory must be {FORMS}, not {type(data).__name__}.")


_KINDS = ("polars", "pandas", "networkx", "rdflib", "numpy", "arrow")


def _kind(data: object) -> str | None:
    """The library that facts come from: nothing is imported to tell."""
    for each in type(data).__mro__:
        root = each.__module__.partition(".")[0]
        named = (root, each.__name__)
        if named in _CLASSES:
            return root
    return "arrow" if hasattr(data, "__arrow_c_stream__") else None


_CLASSES = {
    ("polars", "DataFrame"), ("polars", "LazyFrame"), ("pandas", "DataFrame"), ("networkx", "Graph"),
    ("rdflib", "Graph"), ("numpy", "ndarray"),
}  # fmt: skip


def _from_frame(frame: pl.DataFrame | pl.LazyFrame, reading: Reading, what: str = "the frame") -> KnowledgeGraph:
    import polars as pl

    frame = frame.lazy()
    schema = frame.collect_schema()
    names = schema.names()
    choice = choose(what, names, reading.columns)
    if reading.columns is None:
        check_values(what, choice, first_rows(frame))
    reading.note(what, choice.in_words(guessed=reading.columns is None))
    chosen = {role: names[place] for role, place in choice.roles().items() if role != "label"}
    try:
        table = frame.select(**{role: as_names(pl.col(name), schema[name]) for role, name in chosen.items()}).collect()
    except pl.exceptions.PolarsError:
        raise DataError(f"{what}: a column of names holds lists or the like; make them text.") from None
    if choice.label is not None:
        label = frame.select(pl.col(names[choice.label]).cast(pl.String)).collect().to_series()
        if not label.is_in(["1"]).all():
            raise DataError(
                f"{what} has labels other than 1 in {names[choice.label]}; keep only the rows that are facts."
            )
    if choice.decision is not None:
        if wrong := wrong_decision(table):
            row, text = wrong
            raise DataError(
                f"{what}: the decision {quoted(text)} of row {row} (counted from 0) is not known; {DECISION_REMEDY}."
            )
        decided = with_positive(table)
        table = decided.filter("positive").drop("positive")
        warn_of_negatives(what, len(decided) - len(table))
    return _graph(table, what)


def _from_arrow(table: Any, reading: Reading) -> KnowledgeGraph:
    """The graph of what hands over its rows as Arrow does, such as a table of pyarrow."""
    import polars as pl

    try:
        frame = pl.DataFrame(table)
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        raise ConfigError(f"facts in memory must be {FORMS}, not {type(table).__name__}.") from None
    return _from_frame(frame, reading, "the table")


def _as_polars(frame: pd.DataFrame) -> pl.DataFrame:
    """A pandas frame column by column, numbers as numbers and anything else as text; holes stay holes."""
    import polars as pl

    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise DataError(f"the frame has two columns of one name ({', '.join(names)}); rename one of them.")
    columns = {}
    for place, name in enumerate(names):
        column = frame.iloc[:, place]
        values = column.astype(object).where(column.notna(), None).tolist()
        # A column of lists stays one, so that it is refused as names.
        listed = any(map(_is_no_name, values))
        kind = pl.List(pl.String) if listed else pl.String
        columns[name] = pl.Series([[str(value)] if listed else _text(value) for value in values], dtype=kind)
    return pl.DataFrame(columns)


def _text(value: object) -> str | None:
    """A value as a name, or None for a hole; whole numbers that pandas stores as floats beside a hole stay whole."""
    if value is None or type(value).__name__ == "NAType" or value != value:
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_no_name(value: object) -> bool:
    """Whether a value is a list, bytes or the like."""
    return isinstance(value, Iterable) and not isinstance(value, str)


def _name(value: object, what: str) -> str | None:
    """A value that is the name of something, as text."""
    if _is_no_name(value):
        raise DataError(f"{what}: {value!r:.60} cannot be a name; make it text.")
    return _text(value)


def _from_array(array: NDArray[Any], reading: Reading) -> KnowledgeGraph:
    import polars as pl

    if array.dtype.names is not None:  # a record array has named columns
        return _from_frame(
            pl.DataFrame({name: array[name].tolist() for name in array.dtype.names}), reading, "the array"
        )
    if array.ndim != 2 or array.shape[1] != len(COLUMNS):
        raise DataError(
            f"the array has the shape {list(array.shape)}; give three columns: source, relation and target."
        )
    return _from_triples(array.tolist(), reading, "the array")


def _from_triples(rows: Sequence[Any], reading: Reading, what: str = "the list") -> KnowledgeGraph:
    import polars as pl

    places = choose(what, ("1", "2", "3"), reading.columns or ("1", "2", "3")).places
    names: list[tuple[str | None, ...]] = []
    for place, row in enumerate(rows):
        if isinstance(row, str | bytes | Mapping) or not isinstance(row, Iterable) or len(fields := list(row)) != 3:
            shown = counted(len(list(row)), "item") if isinstance(row, list | tuple) else repr(row)[:60]
            raise DataError(
                f"row {place} of {what} (counted from 0) is {shown}, not a source, a relation and a target."
            )
        names.append(tuple(_name(fields[place], what) for place in places))
    if reading.columns is None and names:
        _refuse_header(what, names[0])
        refuse_disorder(what, names[:LOOKED_AT])
    return _graph(pl.DataFrame(names, schema=dict.fromkeys(COLUMNS, pl.String), orient="row"), what)


def _refuse_header(what: str, first: Sequence[str | None]) -> None:
    if named_roles([name or "" for name in first]) == len(COLUMNS):
        shown = ", ".join(map(str, first))
        raise DataError(
            f"row 0 of {what} ({shown}) names columns; leave it out, or say columns=(1, 2, 3) if it is a fact."
        )


def _from_networkx(graph: nx.Graph[Any]) -> KnowledgeGraph:
    """The graph of a directed networkx graph: its nodes, in order, are the entities, its edges the facts."""
    import polars as pl

    if not graph.is_directed():
        raise DataError("the networkx graph is undirected, but facts have a direction; use networkx.MultiDiGraph.")
    edges = [
        (str(source), _relation(source, target, key, attributes), str(target))
        for source, target, key, attributes in _edges(graph)
    ]
    if any(_text(node) is None for node in graph):
        raise DataError("a node of the networkx graph has no name, such as NaN; give it one or remove it.")
    nodes = [str(node) for node in graph]
    if len(set(nodes)) != len(nodes):
        raise DataError("two nodes of the networkx graph have the same name as text; rename one of them.")
    facts = pl.DataFrame(edges, schema=dict.fromkeys(COLUMNS, pl.String), orient="row")
    return _graph(facts, "the networkx graph", nodes)


def _from_rdflib(graph: Any, reading: Reading) -> KnowledgeGraph:
    """The graph of an rdflib graph, by way of N-Triples: names are those that a file of it has."""
    from tempfile import TemporaryDirectory

    quads = hasattr(graph, "quads")  # all graphs of a data set, of which N-Triples would have one
    reading.prefixes.update((str(prefix), str(iri)) for prefix, iri in graph.namespaces())
    with TemporaryDirectory() as folder:
        path = Path(folder) / ("graph.nq" if quads else "graph.nt")
        graph.serialize(destination=str(path), format="nquads" if quads else "nt", encoding="utf-8")
        if path.stat().st_size < 2:  # at most the end of a line
            raise _no_facts("the rdflib graph")
        made = read_named_files({"train": path}, replace(reading, called="the rdflib graph")).graph("train")
    warn_of_oddities("the rdflib graph", made.entities, made.relations, made.triples)
    return made


def to_polars(graph: KnowledgeGraph) -> pl.DataFrame:
    """One row a fact, in order: columns source, relation, target."""
    return name_facts(graph.entities.names, graph.relations.names, graph.triples)


def to_pandas(graph: KnowledgeGraph) -> pd.DataFrame:
    """One row a fact, in order: columns source, relation, target."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("a pandas frame", "frames") from None

    entities, relations = (np.array(names.names, dtype=object) for names in (graph.entities, graph.relations))
    source, relation, target = graph.triples.T
    return pd.DataFrame({"source": entities[source], "relation": relations[relation], "target": entities[target]})


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
    for name in ("relation", "label", "type"):
        if (relation := _text(attributes.get(name))) is not None:
            return relation
    if isinstance(key, str):
        return key
    raise DataError(
        f"the edge from {quoted(source)} to {quoted(target)} has no relation; set its attribute 'relation'."
    )


def _no_facts(what: str) -> DataError:
    return DataError(f"{what} holds no facts; give it rows of source, relation and target.")


def _graph(facts: pl.DataFrame, what: str, entities: Sequence[str] = ()) -> KnowledgeGraph:
    if empty := empty_name(facts):
        row, column = empty
        raise DataError(
            f"the {column} of row {row} of {what} (counted from 0) is empty; give it a name or drop the row."
        )
    if not len(facts):
        raise _no_facts(what)
    encoder = Encoder(entities)
    triples, _ = encoder.encode([facts])
    graph = KnowledgeGraph(*encoder.vocabularies(), triples)
    warn_of_oddities(what, graph.entities, graph.relations, graph.triples)
    return graph
