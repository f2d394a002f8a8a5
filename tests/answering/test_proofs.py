"""Proofs against every way there is to fill a query's variables."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.answering.engine import Engine
from blockhole.answering.proofs import (
    Exclusion,
    Explanation,
    Proof,
    ProofNode,
    explain,
    in_words,
    rules_behind,
    to_dot,
)
from blockhole.answering.rules import RuleReason
from blockhole.answering.search import PLAUSIBLE, Deadline
from blockhole.errors import ConfigError, OutOfTime, RunError, UnknownName
from blockhole.queries.language import Anchor, Intersection, Negation, Node, Projection, Query, Union, parse
from tests.answering.oracle import Oracle
from tests.answering.toys import make_engine
from tests.queries.trees import trees
from tests.sweep import draws

ENTITIES, RELATIONS = 6, 2


def _every_proof(oracle: Oracle, node: Node, entity: int) -> list[float]:
    """The probability of each proof that a node holds at an entity."""
    match node:
        case Anchor(name):
            return [1.0] if oracle.graph.entities.id(name) == entity else []
        case Projection(of, hop):
            relation = oracle.graph.relation_id(hop.relation, hop.inverse)
            led = oracle.leaving(relation, of) * oracle.hop(relation)[:, entity]
            found = [part * led[h] for h in range(ENTITIES) for part in _every_proof(oracle, of, h) if part > 0]
            return [each for each in found if each >= PLAUSIBLE]
        case Union(parts):
            return [each for part in parts for each in _every_proof(oracle, part, entity)]
        case Intersection(parts):
            left = np.prod([1 - oracle.value(part.of)[entity] for part in parts if isinstance(part, Negation)])
            kept = [_every_proof(oracle, part, entity) for part in parts if not isinstance(part, Negation)]
            found = [float(np.prod(each) * left) for each in itertools.product(*kept)]
            return [each for each in found if each >= PLAUSIBLE]
        case Negation():
            raise AssertionError("a bounded query starts with no negation")


def _has_unions_of_negations(node: Node) -> bool:
    """Whether a union has a negated part, which the plan turns round by De Morgan's law."""
    match node:
        case Union(parts):
            return any(isinstance(part, Negation) or _has_unions_of_negations(part) for part in parts)
        case Intersection(parts):
            return any(_has_unions_of_negations(part) for part in parts)
        case Projection(of) | Negation(of):
            return _has_unions_of_negations(of)
        case Anchor():
            return False


@settings(max_examples=draws(50))
@given(seed=st.integers(0, 20), query=trees(ENTITIES, RELATIONS), entity=st.integers(0, 5), top=st.integers(1, 6))
def test_the_best_proofs_of_any_query_are_exact(seed: int, query: Query, entity: int, top: int) -> None:
    engine, model = make_engine(E=ENTITIES, R=RELATIONS, facts=8, seed=seed)
    found = explain(engine, query, f"e{entity}", top=top)
    probabilities = [proof.probability for proof in found.proofs]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all(probability <= found.probability for probability in probabilities)
    if not _has_unions_of_negations(query.normal):
        every = sorted(_every_proof(Oracle(engine, model, "all"), query.normal, entity), reverse=True)
        # A proof just at what counts as plausible may be rounded to either side of it.
        every = [each for each in every if each > 1.01 * PLAUSIBLE]
        assert probabilities[: len(every)] == pytest.approx(every[:top], rel=2e-3)


@pytest.mark.parametrize("excluded", ["e{}/r1", "e{}/r1/^r0", "(e{}/r0 | e0/r1)/r1"])
def test_what_may_be_excluded_takes_its_share_of_every_proof(excluded: str) -> None:
    """Few trees that are drawn at random exclude something plausible: here all do, in one hop and in more."""
    engine, model = make_engine(E=ENTITIES, R=RELATIONS, facts=8, seed=1)
    oracle = Oracle(engine, model, "all")
    partly = 0
    for start, other, entity in itertools.product(range(3), range(ENTITIES), range(ENTITIES)):
        query = parse(f"e{start}/r0/r1 & !{excluded.format(other)}")
        every = sorted(_every_proof(oracle, query.normal, entity), reverse=True)
        every = [each for each in every if each > 1.01 * PLAUSIBLE]
        found = [proof.probability for proof in explain(engine, query, f"e{entity}", top=3).proofs]
        assert found[: len(every)] == pytest.approx(every[:3], rel=2e-3)
        partly += bool(every) and 0.05 < oracle.value(parse(excluded.format(other)).normal)[entity] < 0.95
    assert partly > 10


@settings(max_examples=draws(30))
@given(seed=st.integers(0, 20), query=trees(ENTITIES, RELATIONS), entity=st.integers(0, 5))
def test_a_proof_is_the_product_of_what_it_shows(seed: int, query: Query, entity: int) -> None:
    engine, _ = make_engine(E=ENTITIES, R=RELATIONS, facts=8, seed=seed, chains=True)
    found = explain(engine, query, f"e{entity}", top=4)
    for proof in found.proofs:
        assert proof.tree.entity == found.entity
        assert proof.probability == pytest.approx(_product(engine, proof.tree), rel=1e-4)
        assert proof.probability <= found.probability


def _product(engine: Engine, node: ProofNode) -> float:
    """The product over a tree, in which every fact that is called known is one."""
    value = np.prod([_product(engine, part) for part in node.parts] + [1 - each.probability for each in node.excluded])
    if node.relation is None:
        return float(value)
    verdict = engine.check(f"{node.parts[0].entity}/{node.relation}", node.entity)
    assert verdict.status == node.status
    relation = engine.encode(f"{node.parts[0].entity}/{node.relation}").plan.ids[-1]
    leaving = engine.hops.leaving(relation)[engine.graph.entities.id(node.parts[0].entity)]  # as a witness, not by name
    said = verdict.probability
    assert node.probability in (pytest.approx(said, rel=1e-4), pytest.approx(said * leaving, rel=1e-4))
    return float(value * node.probability)


def test_a_known_answer_is_proved_by_facts_first() -> None:
    engine, _ = make_engine()
    query, answer = next((q, a[0]) for q in (f"e{i}/r0/^r1" for i in range(30)) if (a := engine.ask(q, only="known")))
    explanation = explain(engine, query, answer.entity, top=3)
    assert (explanation.probability, explanation.status) == (1.0, "known")
    best = explanation.proofs[0]
    assert best.probability == 1.0
    assert [best.tree.relation, best.tree.parts[0].relation] == ["^r1", "r0"]
    assert [best.tree.status, best.tree.parts[0].status] == ["known", "known"]


@pytest.mark.parametrize("status", ["known", "predicted"])
def test_a_proof_of_just_the_least_probability_is_given(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts where only what is certain counts, and a predicted hop where one that is any less probable does not."""
    engine, _ = make_engine()
    paths = (f"e{i}/r0/^r1" if status == "known" else f"e{i}/r0" for i in range(30))
    query, answer = next((q, a[0]) for q in paths if (a := [each for each in engine.ask(q) if each.status == status]))
    (proof, *_) = explain(engine, query, answer.entity).proofs
    for least, given_ in ((proof.tree.probability, True), (np.nextafter(proof.tree.probability, 2), False)):
        monkeypatch.setattr("blockhole.answering.proofs.PLAUSIBLE", least)
        assert (proof in explain(engine, query, answer.entity).proofs) == given_


def test_a_counterproof_says_why_an_answer_may_be_excluded() -> None:
    engine, _ = make_engine()
    answer = engine.ask("e1/r0 & !e2/r0", only="predicted", candidates="all")[0]
    tree = explain(engine, "e1/r0 & !e2/r0", answer.entity).proofs[0].tree
    (excluded,) = tree.excluded
    assert excluded.probability == pytest.approx(engine.check("e2/r0", answer.entity).probability)
    assert excluded.counterproof is not None
    assert excluded.counterproof.parts[0].entity == "e2"


def _hop(relation: str, probability: float) -> ProofNode:
    start = ProofNode("a", None, "known", 1.0, (), ())
    return ProofNode('"b"', relation, "known" if probability == 1 else "predicted", probability, (start,), ())


def test_the_rules_behind_a_proof_come_in_the_order_of_its_hops() -> None:
    first, last = (RuleReason(f"{each} ⇒ t", 0.5, 0.5, 2, ((each, each, each),)) for each in ("r", "s"))
    way = _hop("u", 1.0)
    for relation, rule in (("r", first), ("v", None), ("s", last)):
        way = ProofNode("c", relation, "predicted", 0.5, (way,), (), rule)
    assert list(rules_behind(way)) == [first, last]


def test_a_proof_in_words_and_as_a_drawing() -> None:
    excluded = (Exclusion(0.125, _hop("t", 0.125)), Exclusion(0.0, None))
    both = ProofNode('"b"', None, "known", 1.0, (_hop("r", 0.25), _hop("^s", 1.0)), excluded)
    assert in_words(both) == (
        '(a → r (0.250) → "b") & (a → ^s → "b") & (not (0.125: a → t (0.125) → "b")) & (not (0.000))'
    )
    proofs = (Proof(0.21875, both), Proof(0.5, _hop("u", 0.5)))
    assert to_dot(Explanation("q", '"b"', 0.6, "predicted", proofs)).splitlines() == [
        "digraph proofs {",
        "  rankdir=LR;",
        "  node [shape=box, style=rounded];",
        '  subgraph cluster_1 { label="0.219";',
        '  n0 [label="\\"b\\""];',
        '  n1 [label="\\"b\\""];',
        '  n2 [label="a"];',
        '  n2 -> n1 [label="r 0.250", style=dashed];',
        '  n1 -> n0 [label="and", style=solid];',
        '  n3 [label="\\"b\\""];',
        '  n4 [label="a"];',
        '  n4 -> n3 [label="^s", style=solid];',
        '  n3 -> n0 [label="and", style=solid];',
        '  n5 [label="\\"b\\""];',
        '  n6 [label="a"];',
        '  n6 -> n5 [label="t 0.125", style=dashed];',
        '  n5 -> n0 [label="not: 0.125", style=dotted];',
        "  }",
        '  subgraph cluster_2 { label="0.500";',
        '  n7 [label="\\"b\\""];',
        '  n8 [label="a"];',
        '  n8 -> n7 [label="u 0.500", style=dashed];',
        "  }",
        "}",
    ]


def test_graphviz_reads_the_drawing() -> None:
    engine, _ = make_engine()
    answer = engine.ask("(e1/r0 | e3/^r1)/r1 & !e2/r0", only="predicted", candidates="all")[0]
    drawing = to_dot(explain(engine, "(e1/r0 | e3/^r1)/r1 & !e2/r0", answer.entity))
    assert drawing.startswith("digraph proofs {")
    assert drawing.count("{") == drawing.count("}")
    assert f'"{answer.entity}"' in drawing
    if shutil.which("dot") is not None:
        drawn = subprocess.run(["dot", "-Tsvg"], input=drawing, capture_output=True, text=True, check=True)
        assert "</svg>" in drawn.stdout


def test_where_no_proof_is_plausible_none_is_given() -> None:
    engine, _ = make_engine(facts=0)
    assert explain(engine, "e1/r0 & e2", "e3").proofs == ()


def test_bad_questions_are_explained() -> None:
    engine, _ = make_engine()
    with pytest.raises(UnknownName, match="unknown entity 'nobody'"):
        explain(engine, "e1/r0", "nobody")
    with pytest.raises(ConfigError, match="top must be a whole number of at least 1, not 0"):
        explain(engine, "e1/r0", "e2", top=0)
    with pytest.raises(OutOfTime):
        explain(engine, "e1/r0", "e2", deadline=Deadline(0))
    uncalibrated, _ = make_engine(calibrated=False)
    answer = uncalibrated.ask("e1/r0", only="predicted")[0]
    with pytest.raises(RunError, match="blockhole calibrate RUN"):
        explain(uncalibrated, "e1/r0", answer.entity)
