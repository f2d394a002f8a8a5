from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.errors import EvaluationError
from blockhole.evaluation.scorer import Scorer
from blockhole.evaluation.triples import FOLDS, Evidence, best_threshold, evaluate_triples, measure_evidence
from blockhole.graph.knowledge_graph import SplitGraph
from tests.evaluation import oracle
from tests.evaluation.worlds import World, make_world, worlds
from tests.sweep import draws


@given(st.lists(st.tuples(st.integers(-3, 3).map(float), st.booleans()), min_size=1, max_size=12))
def test_the_threshold_is_best_on_what_it_was_chosen_on(scored: list[tuple[float, bool]]) -> None:
    score, label = np.array([s for s, _ in scored]), np.array([y for _, y in scored])
    most, cuts = oracle.best_accuracies(scored)
    threshold = best_threshold(score, label)
    assert np.isfinite(threshold)
    assert int(((score >= threshold) == label).sum()) == most
    # It cuts the scores in one of the best ways, whatever the order of the lines.
    assert any(np.array_equal(score >= threshold, score >= cut) for cut in cuts)
    order = np.random.default_rng(0).permutation(len(score))
    assert best_threshold(score[order], label[order]) == threshold


def test_the_threshold_lies_in_the_widest_gap() -> None:
    score = np.array([0.0, 1.0, 2.0, 10.0, 11.0])
    assert best_threshold(score, np.array([False, True, False, True, True])) == 6.0
    assert best_threshold(score, np.array([True] * 5)) == 0.0
    assert best_threshold(score, np.array([False] * 5)) > 11.0


@given(world=worlds)
@settings(max_examples=draws(60), deadline=None)
def test_triple_classification_equals_the_definitions(world: World) -> None:
    split = world.split
    report = evaluate_triples(world.model, split)

    def lines(positives: np.ndarray, negatives: np.ndarray) -> list[tuple[oracle.Fact, bool]]:
        return [
            ((int(s), int(r), int(o)), label)
            for part, label in ((positives, True), (negatives, False))
            for s, r, o in part
        ]

    def score(fact: oracle.Fact) -> float:
        return float(world.score(fact[0], (fact[1],), fact[2]))

    dev, test = lines(split.valid, split.valid_negatives), lines(split.test, split.test_negatives)
    for r in range(world.R):
        own = [(score(fact), label) for fact, label in dev if fact[1] == r]
        scored = own or [(score(fact), label) for fact, label in dev]
        threshold = report.rules[f"r{r}"].threshold
        assert sum((s >= threshold) == label for s, label in scored) == oracle.best_accuracies(scored)[0]
    judged = [(label, score(fact) >= report.rules[f"r{fact[1]}"].threshold) for fact, label in test]
    assert report.total.accuracy == pytest.approx(oracle.accuracy(judged))
    assert report.total.accuracy_positive == pytest.approx(oracle.accuracy([pair for pair in judged if pair[0]]))
    assert report.total.accuracy_negative == pytest.approx(oracle.accuracy([pair for pair in judged if not pair[0]]))
    for r in {fact[1] for fact, _ in test}:
        part = [pair for pair, (fact, _) in zip(judged, test, strict=True) if fact[1] == r]
        assert report.by_relation[f"r{r}"].accuracy == pytest.approx(oracle.accuracy(part))


@given(world=worlds)
@settings(max_examples=draws(30), deadline=None)
def test_shares_equal_their_definitions(world: World) -> None:
    split, R = world.split, world.R
    lines = np.concatenate([split.test, split.test_negatives])
    measured = measure_evidence(Scorer(world.model, split.graph()), split.train, R, lines, get_args(Evidence))

    def log_share(source: int, relation: int, target: int, rivals: set[int]) -> float:
        scores = [float(world.score(source, (relation,), rival)) for rival in rivals]
        highest = max(scores)
        total = highest + math.log(sum(math.exp(score - highest) for score in scores))
        return float(world.score(source, (relation,), target)) - total

    for place, (s, r, o) in enumerate(lines.tolist()):
        objects = {fact[2] for fact in world.facts(split.train) if fact[1] == r}
        subjects = {fact[0] for fact in world.facts(split.train) if fact[1] == r}
        assert measured["score"][place] == float(world.score(s, (r,), o))
        objects = objects or set(lines[lines[:, 1] == r, 2].tolist())
        subjects = subjects or set(lines[lines[:, 1] == r, 0].tolist())
        assert measured["share_of_objects"][place] == pytest.approx(log_share(s, r, o, objects))
        assert measured["share_of_subjects"][place] == pytest.approx(log_share(o, r + R, s, subjects))


@given(world=worlds)
@settings(max_examples=draws(30), deadline=None)
def test_each_relation_takes_the_evidence_that_is_right_most_often_on_dev(world: World) -> None:
    split, kinds = world.split, get_args(Evidence)
    lines = np.concatenate([split.valid, split.valid_negatives])
    label = np.arange(len(lines)) < len(split.valid)
    measured = measure_evidence(Scorer(world.model, split.graph()), split.train, world.R, lines, kinds)
    rules = evaluate_triples(world.model, split, evidence=kinds).rules
    for r in np.unique(lines[:, 1]):
        part = lines[:, 1] == r
        most = [oracle.best_accuracies(list(zip(measured[kind][part], label[part], strict=True)))[0] for kind in kinds]
        rule = rules[f"r{r}"]
        assert rule.evidence == kinds[most.index(max(most))]
        assert int(((measured[rule.evidence][part] >= rule.threshold) == label[part]).sum()) == max(most)


def test_dev_lines_are_judged_by_the_other_folds() -> None:
    world = make_world(3, E=12, R=2, facts=400, queries=1)
    dev = evaluate_triples(world.model, world.split, on="dev")
    assert dev.split == "dev"
    assert len(dev.judged) == len(world.split.valid) + len(world.split.valid_negatives)
    assert dev.rules == evaluate_triples(world.model, world.split).rules
    # Labels at random: thresholds that had seen their own lines would be right more often than not.
    lucky = evaluate_triples(
        world.model,
        SplitGraph(
            world.split.entities,
            world.split.relations,
            world.split.train,
            valid=world.split.valid,
            test=world.split.valid,
            valid_negatives=world.split.valid_negatives,
            test_negatives=world.split.valid_negatives,
        ),
    )
    assert dev.total.accuracy is not None
    assert lucky.total.accuracy is not None
    assert dev.total.accuracy < lucky.total.accuracy


def test_a_dev_of_one_fold_cannot_judge_itself() -> None:
    world = make_world(0, E=5, R=1, facts=10, queries=1)
    one = world.split.valid[:1]
    split = SplitGraph(
        world.split.entities,
        world.split.relations,
        world.split.train,
        valid=one,
        test=one,
        valid_negatives=one,
        test_negatives=one,
    )
    assert FOLDS > 1
    with pytest.raises(EvaluationError, match="dev has too few labelled lines to be judged by each other"):
        evaluate_triples(world.model, split, on="dev")


def test_facts_without_negative_lines() -> None:
    world = make_world(0, E=5, R=1, facts=10, queries=1)
    split = SplitGraph(
        world.split.entities, world.split.relations, world.split.train, world.split.valid, world.split.test
    )
    with pytest.raises(EvaluationError, match="the valid facts have no lines labelled -1, which triple classification"):
        evaluate_triples(world.model, split)
