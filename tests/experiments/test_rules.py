"""Rules as predictions, against rules applied one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blockhole.answering.engine import Engine
from blockhole.answering.mining import Mined
from blockhole.answering.sweep import rank_hops
from blockhole.answering.vectors import Vectors
from blockhole.evaluation.completion import both_sides, evaluate_completion
from blockhole.evaluation.truth import truth_of
from blockhole.models.catalogue import ModelSettings, build_model
from experiments.rules import ALONE, SETTINGS, UNSEEN, Ranked, RuleScores, choose, rank_by_rules, ranks_chosen
from tests.queries.graphs import make_graph
from tests.queries.test_bodies import said


def _graph_and_rules() -> tuple[RuleScores, Mined]:
    draw = np.random.default_rng(3)
    facts = np.unique(draw.integers(0, (15, 2, 15), (60, 3)), axis=0)
    graph = make_graph(facts, 15, 2)
    bodies = ((1,), (2,), (1, 2), (3, 0, 1))
    count = len(bodies)
    pairs = np.array([len(said(graph, body)) for body in bodies], dtype=np.float64)
    ones = np.ones(count)
    support = np.array([5.0, 3.0, 9.0, 4.0])
    mined = Mined(np.zeros(count, dtype=np.int64), bodies, ones, support, pairs, pairs, ones, ones, ones)
    return RuleScores(mined, graph), mined


def test_rules_say_what_their_bodies_reach_on_either_side() -> None:
    scores, mined = _graph_and_rules()
    graph = scores.graph
    confidence = mined.support / (mined.said + UNSEEN)
    forward = scores.of(0, np.arange(15))
    backward = scores.of(2, np.arange(15))
    expected, fired = np.zeros((15, 15)), np.zeros((15, 15))
    for body, own in zip(mined.body, confidence, strict=True):
        for x, y in said(graph, body):
            fired[x, y] = max(fired[x, y], own)
            expected[x, y] = 1 - (1 - expected[x, y]) * (1 - own)
    np.testing.assert_allclose(forward["noisy_or"], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(backward["noisy_or"], expected.T, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(forward["maximum"], fired, rtol=5e-3)
    assert (forward["non_redundant"] <= forward["noisy_or"] + 1e-6).all()
    assert (forward["non_redundant"] >= fired - 1e-6).all()


def test_the_model_alone_has_the_ranks_of_completion() -> None:
    scores, _ = _graph_and_rules()
    model = build_model(ModelSettings(name="blockhole", blocks=2, block_size=3), 15, 2, seed=0)
    truth = truth_of(scores.graph)
    facts = scores.graph.triples[::3]
    engine, device = Engine(Vectors.of_model(model), make_graph(facts[1::2], 15, 2)), torch.device("cpu")
    by_score, by_probability = rank_by_rules(scores, engine, model, facts, truth, device)
    report = evaluate_completion(model, facts, truth)
    assert (1 / by_score.rank[:, len(ALONE)]).mean() == pytest.approx(report.metrics["mrr"].mean())
    expected = rank_hops(engine, both_sides(facts, 2), truth, device, memory=10**10).rank()
    assert by_probability.rank[:, len(ALONE)].tolist() == expected.tolist()
    assert (by_score.rank[:, : len(ALONE)] == by_probability.rank[:, : len(ALONE)]).all()


def test_a_relation_with_many_queries_has_a_setting_of_its_own() -> None:
    first, last = len(ALONE), len(SETTINGS) - 1
    rank = np.full((100, len(SETTINGS)), 10.0)
    rank[:60, first] = 1.0
    rank[60:, last] = 1.0
    relation = np.repeat([0, 1], [60, 40])
    ranked = Ranked(relation, rank)
    assert choose(ranked, 1.0) == {-1: first, 0: first, 1: last}
    assert choose(ranked, 1e9) == {-1: first, 0: first, 1: first}
    assert ranks_chosen(ranked, choose(ranked, 1.0)).tolist() == [1.0] * 100
