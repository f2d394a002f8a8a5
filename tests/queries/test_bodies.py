"""What rule bodies say, against a search that walks every path."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.queries import bodies as module
from blockhole.queries.bodies import Bodies, Body, Counts
from tests.queries.graphs import graphs, make_graph

Pairs = set[tuple[int, int]]


def said(graph: KnowledgeGraph, body: Body) -> Pairs:
    """Every pair that a path of the body connects without meeting an entity twice."""
    found: Pairs = set()

    def walk(met: tuple[int, ...]) -> None:
        if len(met) > len(body):
            found.add((met[0], met[-1]))
            return
        for entity in graph.adjacency.neighbours(met[-1], body[len(met) - 1]).tolist():
            if entity not in met:
                walk((*met, entity))

    for entity in range(graph.num_entities):
        walk((entity,))
    return found


def facts(graph: KnowledgeGraph, relation: int) -> Pairs:
    return {(s, o) for s, r, o in graph.triples.tolist() if r == relation and s != o}


@pytest.mark.parametrize("compiled", [True, False])
@given(graph=graphs(max_entities=6, max_relations=2), seed=st.integers(0, 99))
def test_bodies_say_what_a_walk_over_distinct_entities_finds(compiled: bool, graph: KnowledgeGraph, seed: int) -> None:
    draw = np.random.default_rng(seed)
    known = set(map(tuple, graph.triples.tolist()))
    limits = graph.num_entities, graph.num_relations, graph.num_entities
    other = {tuple(int(draw.integers(limit)) for limit in limits) for _ in range(6)} - known
    valid = np.array(sorted(other | set(sorted(known)[::2])), dtype=np.int32).reshape(-1, 3)  # known ones ask nothing
    relations = range(2 * graph.num_relations)
    bodies = [body for length in (1, 2, 3) for body in product(relations, repeat=length)][:: 1 + seed % 3]
    held_out = make_graph(sorted(other), graph.num_entities, graph.num_relations)
    rows = [
        (counts, i)
        for counts in Bodies(graph, valid).counted(bodies, compiled=compiled)
        for i in range(len(counts.bodies))
    ]
    assert [counts.bodies[i] for counts, i in rows] == bodies
    for (counts, i), body in zip(rows, bodies, strict=True):
        pairs = said(graph, body)
        assert (counts.said[i], counts.share[i] if pairs else 1.0) == (len(pairs), 1.0)
        for head in range(graph.num_relations):
            _agree(counts, i, head, pairs, facts(graph, head), facts(held_out, head))


def _agree(counts: Counts, i: int, head: int, pairs: Pairs, known: Pairs, held_out: Pairs) -> None:
    subjects, asked = {s for s, _ in known}, {s for s, _ in held_out}
    assert counts.right[i, head] == len(pairs & known)
    assert counts.of_subjects[i, head] == sum(s in subjects for s, _ in pairs)
    assert counts.new_right[i, head] == len(pairs & held_out)
    assert counts.new[i, head] == sum(s in asked for s, _ in pairs - known)


@pytest.mark.parametrize("compiled", [True, False])
def test_of_a_body_with_many_edges_a_part_of_the_sources_is_looked_at(compiled: bool) -> None:
    entities = 400
    who = np.arange(entities)
    steps = [np.stack([who, np.full(entities, 0), (who + step) % entities], axis=1) for step in (1, 2, 3)]
    graph = make_graph(np.concatenate(steps), entities, 1)
    (whole,) = Bodies(graph).counted([(0, 0)], compiled=compiled)
    (part,) = Bodies(graph, most_work=1000).counted([(0, 0)], compiled=compiled)
    assert whole.share[0] == 1.0
    assert part.share[0] < 1.0
    assert part.said[0] / part.share[0] == pytest.approx(whole.said[0], rel=0.05)
    assert part.right[0, 0] / part.share[0] == pytest.approx(whole.right[0, 0], rel=0.05)


def test_bodies_may_come_as_an_array() -> None:
    bodies = Bodies(make_graph([(0, 0, 1), (1, 1, 2), (0, 1, 2)], 3, 2))
    (listed,), (array,) = bodies.counted([(0, 1), (1, 0)]), bodies.counted(np.array([(0, 1), (1, 0)], dtype=np.int32))
    assert listed.bodies == array.bodies
    assert listed.said.tolist() == array.said.tolist() == [1, 0]
    assert np.array_equal(listed.right, array.right)


@given(graph=graphs(max_entities=6, max_relations=2), together=st.integers(1, 5))
def test_bodies_with_ways_are_all_that_say_something(graph: KnowledgeGraph, together: int) -> None:
    """However few relations are looked at together."""
    bodies = Bodies(graph)
    for length in (1, 2, 3):
        with patch.object(module, "_TOGETHER", together):
            listed = {tuple(body) for some in bodies.with_ways(length, 1) for body in some.tolist()}
            assert len(listed) <= bodies.most_bodies(length) or length == 1
        for body in product(range(2 * graph.num_relations), repeat=length):
            assert body in listed or not said(graph, body)
