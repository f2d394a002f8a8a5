"""polars, pandas and networkx, in and out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import networkx as nx
import pandas as pd
import polars as pl
import pytest
from hypothesis import given

from blockhole.errors import DataError, MissingExtra
from blockhole.files.frames import from_networkx, from_pandas, from_polars, to_networkx, to_pandas, to_polars
from blockhole.graph.knowledge_graph import KnowledgeGraph
from tests.files.facts import Fact, any_name, fact_lists, facts_of, graph_of


@given(facts=fact_lists(any_name))
def test_frames_round_trip(facts: list[Fact]) -> None:
    graph = graph_of(facts)
    assert to_polars(graph).rows() == facts
    assert from_polars(to_polars(graph)) == graph
    assert from_pandas(to_pandas(graph)) == graph


@given(facts=fact_lists(any_name))
def test_networkx_round_trip_keeps_nodes_in_order_and_every_fact(facts: list[Fact]) -> None:
    graph = graph_of(facts)
    again = from_networkx(to_networkx(graph))
    assert again.entities == graph.entities
    assert Counter(facts_of(again)) == Counter(facts)


def test_columns_can_be_named_and_may_hold_numbers() -> None:
    table = {"n": [7, 8], "h": [1, 2], "r": ["r", "r"], "t": [2, 3]}
    expected = graph_of([("1", "r", "2"), ("2", "r", "3")])
    assert from_polars(pl.DataFrame(table), "h", "r", "t") == expected
    assert from_pandas(pd.DataFrame(table, index=[5, 5]), "h", "r", "t") == expected


def test_networkx_relations_are_attributes_or_keys() -> None:
    keyed: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    keyed.add_node("alone")
    keyed.add_edge("a", "b", key="r")
    keyed.add_edge("a", "b", relation="s")
    assert list(from_networkx(keyed).entities) == ["alone", "a", "b"]
    assert facts_of(from_networkx(keyed)) == [("a", "r", "b"), ("a", "s", "b")]
    plain: nx.DiGraph[int] = nx.DiGraph()
    plain.add_edge(1, 2, relation="r")
    assert facts_of(from_networkx(plain)) == [("1", "r", "2")]


def test_networkx_graphs_that_are_no_knowledge_graphs() -> None:
    with pytest.raises(DataError, match=r"the networkx graph is undirected, .*; use networkx\.MultiDiGraph\."):
        from_networkx(nx.Graph([("a", "b")]))
    with pytest.raises(DataError, match="the edge from 'a' to 'b' has no relation; set its attribute 'relation'"):
        from_networkx(nx.MultiDiGraph([("a", "b")]))
    same: nx.DiGraph[object] = nx.DiGraph()
    same.add_edge(1, "1", relation="r")
    with pytest.raises(
        DataError, match="two nodes of the networkx graph have the same name as text; rename one of them"
    ):
        from_networkx(same)


@pytest.mark.parametrize(
    "read", [lambda table: from_polars(pl.DataFrame(table)), lambda table: from_pandas(pd.DataFrame(table))]
)
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            {"source": ["a", "b"], "relation": ["r", "r"], "target": ["b", None]},
            "the target of row 1 of the frame (counted from 0) is empty; give it a name or drop the row.",
        ),
        (
            {"a": [], "b": []},
            "the frame has no column 'source', only a, b; name the columns with source=, relation= and target=.",
        ),
    ],
)
def test_frames_with_holes_or_without_the_columns(
    read: Callable[[object], object], table: dict[str, list[str | None]], expected: str
) -> None:
    with pytest.raises(DataError) as failure:
        read(table)
    assert str(failure.value) == expected


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
