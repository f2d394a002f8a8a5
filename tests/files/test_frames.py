"""Facts in memory: frames, arrays, lists, networkx and rdflib graphs, in and out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given

from blockhole.errors import NOTES, ConfigError, DataError, MissingExtra
from blockhole.files.frames import to_graph, to_networkx, to_pandas, to_polars
from blockhole.files.readers import NegativesLeftOut, Unconnected
from blockhole.files.tables import OddNames
from blockhole.graph.knowledge_graph import KnowledgeGraph
from tests.files.facts import Fact, any_name, fact_lists, facts_of, graph_of, odd_names

pytestmark = odd_names


@given(facts=fact_lists(any_name))
def test_frames_round_trip(facts: list[Fact]) -> None:
    graph = graph_of(facts)
    assert to_polars(graph).rows() == facts
    assert to_graph(to_polars(graph)) == to_graph(to_polars(graph).lazy()) == graph
    assert to_graph(to_pandas(graph)) == graph
    for rows in (facts, [list(fact) for fact in facts], np.array(facts, dtype=object)):
        assert to_graph(rows, columns=(1, 2, 3)) == graph


@given(facts=fact_lists(any_name))
def test_networkx_round_trip_keeps_nodes_in_order_and_every_fact(facts: list[Fact]) -> None:
    graph = graph_of(facts)
    again = to_graph(to_networkx(graph))
    assert again.entities == graph.entities
    assert Counter(facts_of(again)) == Counter(facts)


def test_columns_are_found_or_told_and_may_hold_numbers() -> None:
    table = {"n": [7, 8], "t": [2, 3], "h": [1, 2], "r": ["r", "r"]}
    expected = graph_of([("1", "r", "2"), ("2", "r", "3")])
    for columns in (None, ("h", "r", "t"), "h,r,t", (3, 4, 2)):
        assert to_graph(pl.DataFrame(table), columns=columns) == expected
        assert to_graph(pd.DataFrame(table, index=[5, 5]), columns=columns) == expected
    unnamed = pd.DataFrame([[1, "r", 2], [2, "r", 3]])
    assert to_graph(unnamed) == to_graph(unnamed, columns=(0, 1, 2)) == expected
    assert to_graph(np.array([[1, 0, 2], [2, 0, 3]])) == graph_of([("1", "0", "2"), ("2", "0", "3")])
    record = np.array([("r", 1, 2), ("r", 2, 3)], dtype=[("rel", "U9"), ("src", "i4"), ("dst", "i4")])
    assert to_graph(record) == expected


def test_columns_of_floats_name_by_whole_numbers() -> None:
    table = {"h": [1.0, 2.0], "r": ["r", "r"], "t": [2.0, 3.0]}
    expected = graph_of([("1", "r", "2"), ("2", "r", "3")])
    assert to_graph(pl.DataFrame(table)) == to_graph(pd.DataFrame(table)) == expected


def test_tables_that_hand_over_their_rows_as_arrow_does() -> None:
    class Table:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            frame: Any = pl.DataFrame({"o": ["b"], "s": ["a"], "p": ["r"]})
            return frame.__arrow_c_stream__(requested_schema)

    assert to_graph(Table()) == graph_of([("a", "r", "b")])
    with pytest.raises(DataError, match="the table: 1 column"):
        to_graph(pl.Series(["a"]))


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_facts_of_a_review_are_those_accepted(frame: Callable[[object], object]) -> None:
    table = {"source": ["a", "b", "c"], "relation": ["r"] * 3, "target": ["b", "c", "a"]}
    with pytest.warns(NegativesLeftOut, match="the frame: 1 line labelled -1 or rejected left out"):
        assert to_graph(frame(table | {"decision": ["accept", "reject", None]})) == graph_of([("a", "r", "b")])
    with pytest.raises(
        DataError, match=r"the decision 'perhaps' of row 2 \(counted from 0\) is not known; write accept"
    ):
        to_graph(frame(table | {"decision": ["accept", "reject", "perhaps"]}))


def test_rows_that_are_no_facts_in_order() -> None:
    facts = [("Anna", "Bram", "knows"), ("Bram", "Carl", "likes"), ("Carl", "Anna", "knows"), ("Anna", "Carl", "likes")]
    with pytest.raises(DataError, match=r"row 0 of the list \(source, relation, target\) names columns; leave it out"):
        to_graph([("source", "relation", "target"), *facts])
    with pytest.raises(DataError, match="the array: column 3 looks like the relation"):
        to_graph(np.array(facts))
    assert to_graph(facts, columns=(1, 3, 2)) == graph_of([(s, r, o) for s, o, r in facts])
    assert to_graph(facts, columns=(1, 2, 3)) == graph_of(facts)


def test_arrays_and_lists_are_told_by_numbers() -> None:
    facts = [("a", "b", "r"), ("b", "c", "r")]
    expected = graph_of([("a", "r", "b"), ("b", "r", "c")])
    assert to_graph(facts, columns=(1, 3, 2)) == to_graph(np.array(facts), columns="1,3,2") == expected
    with pytest.raises(DataError, match="the list: no column is called 'a'; there are 1, 2, 3; name these"):
        to_graph(facts, columns="a,b,c")


def test_facts_in_memory_are_warned_about_like_files() -> None:
    with pytest.warns(Unconnected, match="^the list: every entity occurs in one fact only"):
        to_graph([(f"a{i}", "r", f"b{i}") for i in range(6)])
    with pytest.warns(OddNames, match="^the array: 'nan' is a name here"):
        to_graph(np.array([["a", "r", float("nan")]]))


def test_whole_numbers_beside_holes_stay_whole() -> None:
    """pandas makes floats of a column of ids with a hole: 2.0 in one column is 2 in the other."""
    ids = {"s": [1, 2, 3], "p": ["r", "r", "r"], "o": [2, 3, None]}
    expected = graph_of([("1", "r", "2"), ("2", "r", "3")])
    assert to_graph(pd.DataFrame(ids).dropna()) == expected
    assert to_graph(pl.DataFrame(ids).with_columns(pl.col("o").cast(pl.Float64)).drop_nulls()) == expected
    assert to_graph([(1.0, "r", 2), (2, "r", 3.0)]) == expected


def test_an_rdflib_graph_is_what_it_writes(caplog: pytest.LogCaptureFixture) -> None:
    """rdflib itself is not needed here: what has its class and writes N-Triples is read."""

    class Graph:
        __module__ = "rdflib.graph"

        def namespaces(self) -> list[tuple[str, str]]:
            return [("x", "x:")]

        def serialize(self, destination: str, format: str, encoding: str) -> None:
            assert format == "nt"
            Path(destination).write_text('<x:a> <x:r> <x:b> .\n<x:b> <x:name> "B" .\n', encoding=encoding)

    graph = to_graph(Graph())
    assert facts_of(graph) == [("x:a", "x:r", "x:b"), ("x:b", "x:name", '"B"')]
    assert graph.entities.prefixes == {"x": "x:"}
    caplog.set_level("INFO", logger=NOTES)
    assert facts_of(to_graph(Graph(), literals="drop")) == [("x:a", "x:r", "x:b")]
    assert [record.getMessage() for record in caplog.records] == ["the rdflib graph: 1 triple with literals left out."]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib")
def test_all_graphs_of_an_rdflib_data_set_are_read() -> None:
    rdflib = pytest.importorskip("rdflib")
    data = rdflib.Dataset()
    a, r, b = (rdflib.URIRef(f"http://example.org/{name}") for name in "arb")
    data.graph(rdflib.URIRef("http://example.org/g")).add((a, r, b))
    data.default_graph.add((b, r, a))
    assert sorted(facts_of(to_graph(data))) == [tuple(map(str, (a, r, b))), tuple(map(str, (b, r, a)))]


def test_networkx_relations_are_attributes_or_keys() -> None:
    keyed: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    keyed.add_node("alone")
    keyed.add_edge("a", "b", key="r")
    keyed.add_edge("a", "b", relation="s")
    assert list(to_graph(keyed).entities) == ["alone", "a", "b"]
    assert facts_of(to_graph(keyed)) == [("a", "r", "b"), ("a", "s", "b")]
    plain: nx.DiGraph[int] = nx.DiGraph()
    plain.add_edge(1, 2, relation="r")
    assert facts_of(to_graph(plain)) == [("1", "r", "2")]


def test_networkx_graphs_that_are_no_knowledge_graphs() -> None:
    with pytest.raises(DataError, match=r"the networkx graph is undirected, .*; use networkx\.MultiDiGraph\."):
        to_graph(nx.Graph([("a", "b")]))
    with pytest.raises(DataError, match="the edge from 'a' to 'b' has no relation; set its attribute 'relation'"):
        to_graph(nx.MultiDiGraph([("a", "b")]))
    nameless: nx.DiGraph[object] = nx.DiGraph()
    nameless.add_edge("a", "b", relation=float("nan"))
    with pytest.raises(DataError, match="the edge from 'a' to 'b' has no relation"):
        to_graph(nameless)
    nameless = nx.DiGraph([("a", float("nan"), {"relation": "r"})])
    with pytest.raises(DataError, match="a node of the networkx graph has no name, such as NaN; give it one or remove"):
        to_graph(nameless)
    same: nx.DiGraph[object] = nx.DiGraph()
    same.add_edge(1, "1", relation="r")
    with pytest.raises(
        DataError, match="two nodes of the networkx graph have the same name as text; rename one of them"
    ):
        to_graph(same)


WHICH = "say which are source, relation and target with --columns {} (columns= in Python) or the like."


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            {"source": ["a", "b"], "relation": ["r", "r"], "target": ["b", None]},
            "the target of row 1 of the frame (counted from 0) is empty; give it a name or drop the row.",
        ),
        (
            {"source": [1.0, float("nan")], "relation": ["r", "r"], "target": ["b", "c"]},
            "the source of row 1 of the frame (counted from 0) is empty; give it a name or drop the row.",
        ),
        (
            {"a": ["x"], "b": ["y"]},
            "the frame: 2 columns (a, b) instead of 3; write columns source, relation and target.",
        ),
        ({}, "the frame: 0 columns instead of 3; write columns source, relation and target."),
        ({"s": [], "p": [], "o": []}, "the frame holds no facts; give it rows of source, relation and target."),
        (
            {"a": ["x"], "b": ["r"], "c": ["y"]},
            "the frame: no column is named like a source, relation or target, only a, b, c; " + WHICH.format("a,b,c"),
        ),
        (
            {"head": ["x"], "subject": ["y"], "rel": ["r"], "tail": ["z"]},
            "the frame: both 'head' and 'subject' could be the source; " + WHICH.format("head,rel,tail"),
        ),
        (
            {"s": ["a"], "r": ["r"], "o": ["b"], "label": [-1]},
            "the frame has labels other than 1 in label; keep only the rows that are facts.",
        ),
    ],
)  # fmt: skip
def test_frames_that_are_no_graphs(
    frame: Callable[[object], object], table: dict[str, list[object]], expected: str
) -> None:
    with pytest.raises(DataError) as failure:
        to_graph(frame(table))
    assert str(failure.value) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            [("a", "r", pd.NA)],
            "the target of row 0 of the list (counted from 0) is empty; give it a name or drop the row.",
        ),
        ([("a", "r", ["b"])], "the list: ['b'] cannot be a name; make it text."),
        ([("a", b"r", "b")], "the list: b'r' cannot be a name; make it text."),
        (
            pd.DataFrame({"s": [["a"]], "p": ["r"], "o": ["b"]}),
            "the frame: a column of names holds lists or the like; make them text.",
        ),
        ([("a", "r")], "row 0 of the list (counted from 0) is 2 items, not a source, a relation and a target."),
        (
            [("a", "r", "b"), "arb"],
            "row 1 of the list (counted from 0) is 'arb', not a source, a relation and a target.",
        ),
        (
            [("a", "r", None)],
            "the target of row 0 of the list (counted from 0) is empty; give it a name or drop the row.",
        ),
        ([], "the list holds no facts; give it rows of source, relation and target."),
        (np.zeros((4, 2)), "the array has the shape [4, 2]; give three columns: source, relation and target."),
        (np.zeros(3), "the array has the shape [3]; give three columns: source, relation and target."),
        (
            np.array([[1, 1, np.nan]]),
            "the target of row 0 of the array (counted from 0) is empty; give it a name or drop the row.",
        ),
        (
            pd.DataFrame([["a", "r", "b"]], columns=["s", "s", "o"]),
            "the frame has two columns of one name (s, s, o); rename one of them.",
        ),
        (
            pl.DataFrame({"s": [[1]], "p": ["r"], "o": ["b"]}),
            "the frame: a column of names holds lists or the like; make them text.",
        ),
    ],
)  # fmt: skip
def test_other_facts_that_are_no_graphs(data: object, expected: str) -> None:
    with pytest.raises(DataError) as failure:
        to_graph(data)
    assert str(failure.value) == expected


def test_what_is_no_table() -> None:
    with pytest.raises(ConfigError, match=r"^facts in memory must be a frame of polars or pandas, .*, not dict\.$"):
        to_graph({"a": "b"})


@pytest.mark.parametrize(("module", "call", "feature"), [
    ("pandas", to_pandas, "a pandas frame"),
    ("networkx", to_networkx, "a networkx graph"),
])  # fmt: skip
def test_missing_packages_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, call: Callable[[KnowledgeGraph], object], feature: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra) as failure:
        call(graph_of([("a", "r", "b")]))
    assert (
        str(failure.value)
        == f"{feature} needs an optional dependency; install it with: pip install 'blockhole[frames]'"
    )
