"""Facts that came later: known at once, and enough to place an entity the model has never seen."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from blockhole.answering.engine import Engine
from blockhole.answering.new_facts import with_facts
from blockhole.errors import DataError, UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.answering.toys import make_engine


def _graph(*facts: tuple[str, str, str]) -> KnowledgeGraph:
    entities = Vocabulary(dict.fromkeys(name for s, _, o in facts for name in (s, o)))
    relations = Vocabulary(dict.fromkeys(r for _, r, _ in facts), "relation")
    triples = [(entities.id(s), relations.id(r), entities.id(o)) for s, r, o in facts]
    return KnowledgeGraph(entities, relations, np.array(triples, dtype=np.int32))


def test_new_facts_between_known_entities_are_known_at_once() -> None:
    engine, _ = make_engine()
    answer = engine.ask("e1/r0", only="predicted")[0]
    later = with_facts(engine, _graph(("e1", "r0", answer.entity)))
    assert later.check("e1/r0", answer.entity).status == "known"
    assert engine.check("e1/r0", answer.entity).status == "predicted"
    assert later.ask("e1/r0", top=30, candidates="all")[0].score == engine.ask("e1/r0", candidates="all")[0].score


def test_a_twin_of_a_known_entity_is_placed_beside_it(clockwork: Path) -> None:
    engine = Engine.open(clockwork)
    twin = _graph(
        ("number 6", "next", "twin of 7"), ("twin of 7", "next", "number 8"), ("twin of 7", "double", "number 14")
    )
    later = with_facts(engine, twin)
    assert later.graph.num_entities == engine.graph.num_entities + 1
    assert later.check('"twin of 7"/next', "number 8").status == "known"
    # Never told, but so of 7: what it leaves by mod6, and what the step after next is.
    assert "remainder/1" in [answer.entity for answer in later.ask('"twin of 7"/mod6', top=2)]
    assert "number 9" in [answer.entity for answer in later.ask('"twin of 7"/next/next', top=3)]
    assert "twin of 7" in [answer.entity for answer in later.ask('"number 5"/next/next', top=4)]


@pytest.mark.parametrize("name", ["rescal", "transe", "simple"])
def test_every_model_can_be_extended(name: str) -> None:
    engine, _ = make_engine(name, E=40, facts=120)
    later = with_facts(engine, _graph(("new", "r0", "e3"), ("e4", "r1", "new"), ("other", "r0", "e9")))
    assert later.ask("new/r0", only="known")[0].entity == "e3"
    # Each is placed so that its own fact is more likely than the other's.
    new, other = (_log_softmax(later, f"{source}/r0") for source in ("new", "other"))
    assert new["e3"] > other["e3"]
    assert other["e9"] > new["e9"]


def _log_softmax(engine: Engine, query: str) -> dict[str, float]:
    answers = engine.ask(query, top=engine.graph.num_entities, candidates="all")
    total = np.logaddexp.reduce([answer.score for answer in answers])
    return {answer.entity: answer.score - total for answer in answers}


def test_placing_is_reproducible() -> None:
    engine, _ = make_engine()
    facts = _graph(("new", "r0", "e3"))
    first, second = (with_facts(engine, facts).query_vector("new/r1") for _ in range(2))
    assert (first == second).all()


def test_an_entity_that_nothing_places_is_refused() -> None:
    engine, _ = make_engine()
    expected = "'newer' cannot be placed: none of its facts is about an entity that the run knows; add one that is."
    with pytest.raises(DataError, match=f"^{re.escape(expected)}$"):
        with_facts(engine, _graph(("new", "r0", "e3"), ("newer", "r1", "new")))


def test_relations_must_be_the_runs_own() -> None:
    for name, alike in (("likes", ""), ("r10", ", such as 'r0' or 'r1'")):
        expected = f"unknown relation '{name}' in the further facts, which may have known ones alone{alike}."
        with pytest.raises(UnknownName, match=f"^{re.escape(expected)}$"):
            with_facts(make_engine()[0], _graph(("e1", name, "e2")))
