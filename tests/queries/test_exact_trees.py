"""Exact answers to queries with & | and ! against a SPARQL engine, on each of the ways to compute them; their laws."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries import exact
from blockhole.queries.answer_masks import EdgesOnDevice
from blockhole.queries.exact import plan_answer_sets, plan_answers
from blockhole.queries.language import (
    Intersection,
    Negation,
    Node,
    Projection,
    Query,
    Union,
    encode_tree,
    normal_form,
    parse,
)
from blockhole.queries.missing import NO_PROOF
from blockhole.queries.plans import Both, Either, Follow, Plan, Start, Step, plan_of
from blockhole.queries.tree import negated
from tests.queries.graphs import graphs, make_graph
from tests.queries.sparql import SparqlOracle
from tests.queries.trees import graphs_with_trees, nodes


def answers(graph: KnowledgeGraph, query: Query | str) -> list[int]:
    found: list[int] = plan_answers(graph, encode_tree(query, graph)).tolist()
    return found


def as_written(graph: KnowledgeGraph, root: Node) -> Plan:
    """The plan of a tree that is not in normal form."""
    return plan_of(
        root,
        lambda node: graph.entities.id(node.entity),
        lambda node: graph.relation_id(node.hop.relation, node.hop.inverse),
    )


@given(graphs_with_trees())
def test_any_query_is_answered_as_by_sparql(case: tuple[KnowledgeGraph, Query]) -> None:
    graph, query = case
    expected = SparqlOracle(graph).tree_answers(query.root)
    assert answers(graph, query) == expected
    assert answers(graph, str(query)) == expected
    assert plan_answers(graph, as_written(graph, query.root)).tolist() == expected


def other_ids(graph: KnowledgeGraph, plan: Plan, count: int, seed: int) -> NDArray[np.int32]:
    """Queries of the same shape, of which the first is the plan itself."""
    draw = np.random.default_rng(seed)
    limits = np.full(len(plan.ids), 2 * graph.num_relations)
    limits[[step.slot for step in plan.steps if isinstance(step, Start)]] = graph.num_entities
    rows = draw.integers(0, limits, (count, len(limits)))
    return np.concatenate([[plan.ids], rows]).astype(np.int32)


@given(graphs_with_trees(), st.integers(0, 2**32 - 1))
def test_queries_of_one_shape_are_answered_together(case: tuple[KnowledgeGraph, Query], seed: int) -> None:
    graph, query = case
    plan = encode_tree(query, graph)
    ids = other_ids(graph, plan, 6, seed)
    expected = [plan_answers(graph, Plan(plan.steps, tuple(row))).tolist() for row in ids.tolist()]

    def rows() -> Iterator[list[int]]:
        for sets in plan_answer_sets(graph, plan.steps, ids, batch_size=4):
            for row in range(len(sets)):
                yield sets[row].tolist()

    assert list(rows()) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "numba_installed", lambda: False)
        assert list(rows()) == expected
    mask = EdgesOnDevice(graph, "cpu").least(plan.steps, ids)[-1] < NO_PROOF
    assert [row.nonzero()[:, 0].tolist() for row in mask] == expected


ways = st.recursive(
    st.sampled_from(["r0", "r1", "r2"]),
    lambda inner: (
        st.builds("({}|{})".format, inner, inner)
        | st.builds("({}/{})".format, inner, inner)
        | st.builds("^({})".format, inner)
        | st.builds("^{}".format, st.sampled_from(["r0", "r1", "r2"]))
    ),
    max_leaves=5,
)


@given(graphs(max_entities=5).filter(lambda graph: graph.num_relations == 3), ways)
def test_alternatives_are_those_of_sparql(graph: KnowledgeGraph, way: str) -> None:
    """The same text is a property path of both languages."""
    path = way
    for relation in range(3):
        path = path.replace(f"r{relation}", f"<r:{relation}>")
    oracle = SparqlOracle(graph)
    assert answers(graph, f"e0/{way}") == oracle.select(f"<e:0> {path} ?t")
    assert answers(graph, f"e0/{way}/^r1") == oracle.select(f"<e:0> ({path})/^<r:1> ?t")


def test_a_query_of_each_operator_by_hand() -> None:
    graph = make_graph([(0, 0, 1), (0, 0, 2), (0, 1, 2), (0, 1, 3), (2, 0, 4), (3, 0, 5)], 6, 2)
    by_hand = {
        "e0/r0 & e0/r1": [2],
        "e0/r0 | e0/r1": [1, 2, 3],
        "e0/(r0|r1)": [1, 2, 3],
        "e0/r0 & !e0/r1": [1],
        "e0/r0 & !e2": [1],
        "e0/r0 & e2": [2],
        "(e0/r0 & e0/r1)/r0": [4],
        "(e0/r0 | e0/r1)/r0": [4, 5],
        "(e2 | e3)/r0": [4, 5],
        "e0/r0 & !(e0/r1 & !e2)": [1, 2],
        "e0/r0 & (e0/r1 | !e1)": [2],
        "e0/r0 & !e0/r0": [],
        "e4/^(r1/r0)": [0],
    }
    assert {text: answers(graph, text) for text in by_hand} == by_hand


# Laws


@given(graphs_with_trees())
def test_a_normal_form_has_the_same_answers_and_is_its_own(case: tuple[KnowledgeGraph, Query]) -> None:
    graph, query = case
    assert normal_form(query.normal) == query.normal
    assert answers(graph, Query(query.normal)) == answers(graph, query)


@given(nodes(bounded=False), nodes(bounded=False))
def test_equal_branches_are_one_and_negations_go_inward(one: Node, other: Node) -> None:
    def same(left: Node, right: Node) -> bool:
        return normal_form(left) == normal_form(right)

    assert same(Intersection((one, one)), one)
    assert same(Union((one, one)), one)
    assert same(negated(negated(one)), one)
    assert same(negated(Intersection((one, other))), Union((negated(one), negated(other))))
    assert same(negated(Union((one, other))), Intersection((negated(one), negated(other))))
    assert same(Intersection((one, Intersection((other, one)))), Intersection((one, other)))


@given(nodes(), st.randoms(use_true_random=False))
def test_order_does_not_matter(root: Node, random: Random) -> None:
    def shuffled(node: Node) -> Node:
        if isinstance(node, Intersection | Union):
            parts = [shuffled(part) for part in node.parts]
            random.shuffle(parts)
            return type(node)(tuple(parts))
        if isinstance(node, Projection):
            return Projection(shuffled(node.of), node.hop)
        return negated(shuffled(node.of)) if isinstance(node, Negation) else node

    assert normal_form(shuffled(root)) == normal_form(root)


# Plans


def test_equal_subqueries_are_one_step() -> None:
    graph = make_graph([(0, 0, 1)], 2, 2)
    plan = encode_tree("e0/r0/r1 & !e0/r0 | e0/r0/r1 & e1/r0", graph)
    hop, far, other = Follow(0, 1), Follow(1, 2), Follow(4, 4)
    assert plan.steps == (Start(0), hop, far, Both((2,), (1,)), Start(3), other, Both((2, 5), ()), Either((3, 6)))
    assert plan.ids == (0, 0, 1, 1, 0)
    assert encode_tree("e0/r0 & e0/r0", graph) == encode_tree("e0/r0", graph) == Plan.of_chain(0, [0])


@pytest.mark.parametrize("ids", [[[2, 0]], [[-1, 0]], [[0, 4]], [[0, -1]]])
def test_ids_outside_the_graph_are_refused(ids: list[list[int]]) -> None:
    graph = make_graph([(0, 0, 1)], 2, 2)
    steps = encode_tree("e0/r0", graph).steps
    with pytest.raises(ValueError, match="outside the graph's vocabularies"):
        plan_answer_sets(graph, steps, np.array(ids, dtype=np.int32))


def test_no_queries_have_no_answers() -> None:
    graph = make_graph([(0, 0, 1)], 2, 1)
    steps = encode_tree("e0/r0 & !e1", graph).steps
    assert list(plan_answer_sets(graph, steps, np.zeros((0, 3), dtype=np.int32))) == []
    assert EdgesOnDevice(graph, "cpu").least(steps, np.zeros((0, 3), dtype=np.int32))[-1].shape == (0, 2)


@pytest.mark.parametrize("text", ["!e0/r0", "e0/r0 | !e1"])
def test_what_is_all_but_something_has_no_plan(text: str) -> None:
    """Trees that `Query` refuses, to whoever makes a plan without one."""
    graph = make_graph([(0, 0, 1)], 2, 1)
    negative = negated(parse("e0/r0").root)
    root = negative if text.startswith("!") else Union((parse("e0/r0").root, negative))
    with pytest.raises(ValueError, match="has no plan"):
        as_written(graph, root)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a/r & a/r", (Start(0), Follow(0, 1))),
        ("a/r | a/r", (Start(0), Follow(0, 1))),
        ("a/r/s | b", (Start(0), Follow(0, 1), Follow(1, 2), Start(3), Either((2, 3)))),
        ("a/r & !(b | b)", (Start(0), Follow(0, 1), Start(2), Both((1,), (2,)))),
        ("a/r & !(b | c)", (Start(0), Follow(0, 1), Start(2), Start(3), Either((2, 3)), Both((1,), (4,)))),
        ("a/r & !b & !c", (Start(0), Follow(0, 1), Start(2), Start(3), Both((1,), (2, 3)))),
    ],
)
def test_equal_subqueries_are_one_step_and_nothing_is_joined_to_itself(text: str, steps: tuple[Step, ...]) -> None:
    ids: dict[str, int] = {}
    planned = plan_of(
        parse(text).root,
        lambda node: ids.setdefault(node.entity, len(ids)),
        lambda node: ids.setdefault(str(node.hop), len(ids)),
    )
    assert planned == Plan(steps, tuple(range(len(planned.ids))))
