from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation import oracle
from tests.evaluation.worlds import World, make_world, worlds

from blockhole.errors import EvaluationError
from blockhole.evaluation.triples import best_threshold, evaluate_triples
from blockhole.graph.split import SplitGraph


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
@settings(max_examples=60, deadline=None)
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
        threshold = report.thresholds[f"r{r}"]
        assert sum((s >= threshold) == label for s, label in scored) == oracle.best_accuracies(scored)[0]
    judged = [(label, score(fact) >= report.thresholds[f"r{fact[1]}"]) for fact, label in test]
    assert report.total.accuracy == pytest.approx(oracle.accuracy(judged))
    assert report.total.accuracy_positive == pytest.approx(oracle.accuracy([pair for pair in judged if pair[0]]))
    assert report.total.accuracy_negative == pytest.approx(oracle.accuracy([pair for pair in judged if not pair[0]]))
    for r in {fact[1] for fact, _ in test}:
        part = [pair for pair, (fact, _) in zip(judged, test, strict=True) if fact[1] == r]
        assert report.by_relation[f"r{r}"].accuracy == pytest.approx(oracle.accuracy(part))


def test_facts_without_negative_lines() -> None:
    world = make_world(0, E=5, R=1, facts=10, queries=1)
    split = SplitGraph(
        world.split.entities, world.split.relations, world.split.train, world.split.valid, world.split.test
    )
    with pytest.raises(EvaluationError, match="the valid facts have no lines labelled -1, which triple classification"):
        evaluate_triples(world.model, split)
