"""What the easiest proof of an answer lacks, against plain recursion over all proofs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.answer_masks import EdgesOnDevice
from blockhole.queries.missing import NO_PROOF, MissingFacts
from blockhole.queries.plans import Plan
from blockhole.queries.query_sets import QUERY_TYPES, slots_of_type, steps_of_type
from tests.evaluation.oracle import lacking, tree_of_type

E, R = 7, 2


@pytest.mark.parametrize("name", QUERY_TYPES)
def test_the_least_number_of_missing_facts(name: str) -> None:
    rng = np.random.default_rng(list(QUERY_TYPES).index(name))
    facts = np.column_stack([rng.integers(high, size=30) for high in (E, R, E)]).astype(np.int32)
    names = Vocabulary([f"e{i}" for i in range(E)]), Vocabulary([f"r{i}" for i in range(R)], "relation")
    known, truth = KnowledgeGraph(*names, facts[:12]), KnowledgeGraph(*names, facts)
    own, every = ({(s, r, o) for s, r, o in graph.triples.tolist()} for graph in (known, truth))
    missing, on_device = MissingFacts(known, truth), EdgesOnDevice(truth, "cpu", known)
    seen = set()
    for _ in range(60):
        ids = [int(rng.integers({"e": E, "r": 2 * R}[slot])) for slot in slots_of_type(name)]
        found = missing.least(Plan(steps_of_type(name), tuple(ids)))
        at_once = on_device.least(steps_of_type(name), np.array([ids], dtype=np.int32))[-1]
        np.testing.assert_array_equal(at_once[0].numpy(), found)
        tree = tree_of_type(name, ids)
        expected = [lacking(tree, entity, every, own, R) for entity in range(E)]
        assert [math.inf if each == NO_PROOF else each for each in found.tolist()] == expected
        seen |= set(expected)
    assert {1, math.inf} < seen


def test_a_long_proof_may_lack_all_of_its_facts() -> None:
    """Forty-five hops over a row of forty-six entities, of which the first five are known."""
    facts = np.array([[each, 0, each + 1] for each in range(45)], dtype=np.int32)
    names = Vocabulary([f"e{i}" for i in range(46)]), Vocabulary(["r"], "relation")
    missing = MissingFacts(KnowledgeGraph(*names, facts[:5]), KnowledgeGraph(*names, facts))
    for hops in (3, 5, 6, 45):
        found = missing.least(Plan.of_chain(0, [0] * hops))
        assert found[hops] == max(0, hops - 5)
        assert np.flatnonzero(found < NO_PROOF).tolist() == [hops]
