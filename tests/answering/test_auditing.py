"""An audit asks of each fact what would be said of it without it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from blockhole.answering import auditing
from blockhole.answering.auditing import audit
from blockhole.answering.engine import Engine
from blockhole.data.reviews import ListedFact
from blockhole.graph.knowledge_graph import KnowledgeGraph
from tests.answering.toys import make_engine, of_both_directions


def probability_without(engine: Engine, fact: tuple[int, int, int]) -> float:
    """By an engine over the same graph without the fact; the normalisers are those that the whole graph has."""
    graph = engine.graph
    s, relation, o = fact
    kept = graph.triples[(graph.triples != np.array(fact)).any(axis=1)]
    less = Engine(engine.vectors, KnowledgeGraph(graph.entities, graph.relations, kept), engine.calibrated)
    less, inverse = of_both_directions(less), graph.inverse(relation)
    found = []
    for source, hop, target in ((s, relation, o), (o, inverse, s)):
        columns = less.hops.columns(hop, np.array([target]))
        found.append(float(less.hops.values(np.array([source]), columns)[0, 0]))
    return min(found)  # the more doubtful of the two readings


@pytest.mark.parametrize("name", ["blockhole", "rescal", "transe"])
@pytest.mark.parametrize("facts", [40, 90])
def test_the_fact_itself_does_not_count(name: str, facts: int) -> None:
    engine, _ = make_engine(name, E=25, R=3, facts=facts, seed=3)
    graph = engine.graph
    listed = audit(engine, top=1000)
    assert len(listed) == len(np.unique(graph.triples, axis=0))
    compared = 0
    for fact in listed:
        ids = graph.entities.id(fact.source), graph.relations.id(fact.relation), graph.entities.id(fact.target)
        source, relation, target = ids
        inverse = graph.inverse(relation)
        alone = len(graph.adjacency.neighbours(source, relation)) == 1
        alone &= len(graph.adjacency.neighbours(target, inverse)) == 1
        if alone and (relation in graph.adjacency.relations(target) or inverse in graph.adjacency.relations(source)):
            continue  # their kinds are compared with those of all others, of which one is the source or the target
        assert fact.probability == pytest.approx(probability_without(engine, ids), rel=1e-4)
        compared += 1
    assert compared > len(listed) / 2


def test_a_child_whose_only_father_is_audited_has_one_at_most() -> None:
    engine, _ = make_engine(E=60, facts=0)
    triples = np.array([[child // 5, 0, 10 + child] for child in range(50)], dtype=np.int32)
    graph = KnowledgeGraph(engine.graph.entities, engine.graph.relations, triples)
    assert engine.calibrated is not None
    calibration = engine.calibrated.calibration
    curve = calibration.hop.model_copy(update={"intercept": calibration.hop.intercept + 30})  # sure of everything
    sure = replace(engine.calibrated, calibration=calibration.model_copy(update={"hop": curve}))
    engine = Engine(engine.vectors, graph, sure)
    listed = audit(engine, top=50)
    for fact in listed:
        ids = graph.entities.id(fact.source), 0, graph.entities.id(fact.target)
        assert fact.probability == pytest.approx(probability_without(engine, ids), rel=1e-3)
    assert max(fact.probability or 0 for fact in listed) < 0.5  # sixty entities share in it


def test_facts_that_stand_out_of_their_relation_come_first() -> None:
    engine, _ = make_engine(E=80, facts=300, calibrated=False)
    listed = audit(engine, top=1000, relation="r0")
    assert {fact.relation for fact in listed} == {"r0"}
    sources, targets = (Counter(getattr(fact, end) for fact in listed) for end in ("source", "target"))
    unsupported = [
        fact.score  # x, as neither end is new to the relation
        for fact in listed
        if fact.reason.endswith("; no short path of other facts leads there")
        and min(sources[fact.source], targets[fact.target]) > 1
    ]
    assert len(unsupported) > 20
    assert unsupported == sorted(unsupported)
    names = engine.graph.entities
    deviation: dict[tuple[str, str, str], float] = {}
    for relation, name in enumerate(engine.graph.relations):
        found = auditing._audited(engine, relation)
        assert abs(found.deviation.mean()) < 1e-6
        deviation |= {
            (names[s], name, names[o]): float(z)
            for s, o, z in zip(found.source, found.target, found.deviation, strict=True)
        }

    def place(fact: ListedFact) -> float:
        path = re.search(r"which is right in (\d+)% of known cases", fact.reason)
        right = 0.0 if path is None else int(path[1]) / 100
        return deviation[fact.source, fact.relation, fact.target] + 0.4 * float(np.log1p(100 * right))

    places = [place(fact) for fact in audit(engine, top=1000)]
    assert np.diff(places).min() > -0.2  # what is printed of a share is rounded


def test_a_wrong_fact_is_found(clockwork: Path) -> None:
    """A number whose remainder is another number: nothing like it is in the graph."""
    engine = Engine.open(clockwork)
    graph = engine.graph
    wrong = graph.entities.id("number 7"), graph.relations.id("mod6"), graph.entities.id("number 20")
    with_wrong = KnowledgeGraph(graph.entities, graph.relations, np.concatenate([graph.triples, [wrong]]))
    listed = audit(Engine(engine.vectors, with_wrong, engine.calibrated), top=5)
    assert ("number 7", "mod6", "number 20") in [(fact.source, fact.relation, fact.target) for fact in listed]
    found = next(fact for fact in listed if fact.target == "number 20")
    assert "the target is an object of this relation nowhere else" in found.reason


def test_decided_facts_are_not_listed_again(tmp_path: Path) -> None:
    engine, _ = make_engine()
    first = audit(engine, top=5)
    first.write(tmp_path / "list.jsonl")
    text = (tmp_path / "list.jsonl").read_text().replace('"decision":""', '"decision":"Accept"', 2)
    (tmp_path / "list.jsonl").write_text(text)
    assert audit(engine, top=3, reviewed=[tmp_path / "list.jsonl"]).facts == first.facts[2:]


def test_shares_without_a_calibration() -> None:
    engine, _ = make_engine(calibrated=False)
    listed = audit(engine, top=4)
    assert [fact.probability for fact in listed] == [None] * 4
    assert replace(listed[0], reason="").score > 0
