from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.errors import EvaluationError
from blockhole.evaluation.completion import both_sides, evaluate_completion
from blockhole.evaluation.ranking import TieRule
from blockhole.evaluation.truth import build_truth
from blockhole.models.simple import SimplE
from tests.evaluation import oracle
from tests.evaluation.worlds import World, make_world, worlds
from tests.sweep import draws

METRICS = ("mr", "mrr", "hits_at_1", "hits_at_3", "hits_at_10")


@given(world=worlds, ties=st.sampled_from(["half", "paper", "pessimistic"]))
@settings(max_examples=draws(80), deadline=None)
@pytest.mark.slow
def test_completion_equals_the_definitions(world: World, ties: TieRule) -> None:
    report = evaluate_completion(world.model, world.split.test, build_truth(world.split), ties=ties).to_dict()
    triples = [(int(s), int(r), int(o)) for s, r, o in world.split.test]
    facts = world.facts(world.split.train, world.split.valid, world.split.test)
    expected = oracle.completion(triples, facts, world.E, world.R, world.score, ties)
    assert {name: report[name] for name in METRICS} == pytest.approx(expected)
    assert report["queries"] == 2 * len(triples)
    sides = report["sides"]
    assert {name: (sides["head"][name] + sides["tail"][name]) / 2 for name in METRICS} == pytest.approx(expected)


def test_both_sides_ask_tails_then_heads_through_the_inverse() -> None:
    queries = both_sides(np.array([[4, 1, 7], [5, 0, 5]], dtype=np.int32), num_relations=3)
    assert queries.source.tolist() == [4, 5, 7, 5]
    assert queries.path[:, 0].tolist() == [1, 0, 4, 3]
    assert queries.target.tolist() == [7, 5, 4, 5]


def test_simple_is_completed_through_its_inverse_relations() -> None:
    world = make_world(1, E=20, R=2, facts=40, queries=1)
    model = SimplE(20, 2, dim=4, seed=3)
    facts = world.facts(world.split.train, world.split.valid, world.split.test)

    def score(source: int, path: oracle.Path, target: int) -> Fraction:
        ids = (torch.tensor([source]), torch.tensor([path]), torch.tensor([1]), torch.tensor([target]))
        with torch.no_grad():
            return Fraction(float(model.double().score(*ids)))

    triples = [(int(s), int(r), int(o)) for s, r, o in world.split.test]
    report = evaluate_completion(model, world.split.test, build_truth(world.split)).to_dict()
    expected = oracle.completion(triples, facts, 20, 2, score, "half")
    assert {name: report[name] for name in METRICS} == pytest.approx(expected)


def test_fractions_are_shown_with_four_digits_and_ranks_with_one() -> None:
    world = make_world(1, E=20, R=2, facts=40, queries=1)
    (table,) = evaluate_completion(world.model, world.split.test, build_truth(world.split)).tables()
    assert table.header == ("side", "MR", "MRR", "Hits@1", "Hits@3", "Hits@10")
    decimals = [len(str(cell).partition(".")[2]) for cell in table.rows[0][1:]]
    assert decimals == [1, 4, 4, 4, 4]


def test_no_triples() -> None:
    world = make_world(1, E=20, R=2, facts=40, queries=1)
    with pytest.raises(EvaluationError, match="there are no queries to rank"):
        evaluate_completion(world.model, world.split.test[:0], build_truth(world.split))
