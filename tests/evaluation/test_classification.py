from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.errors import EvaluationError
from blockhole.evaluation.classification import (
    Accuracy,
    ValidationAccuracy,
    evaluate_classification,
    evaluate_order,
    reverse_paths,
    swap_adjacent,
)
from blockhole.evaluation.path_ranking import subset, validation_ranking
from blockhole.evaluation.truth import build_truth
from blockhole.models.complex import ComplEx
from blockhole.queries.paths import PathQueries
from tests.evaluation import oracle
from tests.evaluation.worlds import World, make_world, worlds
from tests.sweep import draws


def agree(ours: Accuracy, judgements: list[tuple[bool, bool]]) -> None:
    positives = [pair for pair in judgements if pair[0]]
    negatives = [pair for pair in judgements if not pair[0]]
    assert (ours.positives, ours.negatives) == (len(positives), len(negatives))
    assert ours.accuracy == pytest.approx(oracle.accuracy(judgements))
    assert ours.accuracy_positive == pytest.approx(oracle.accuracy(positives))
    assert ours.accuracy_negative == pytest.approx(oracle.accuracy(negatives))


@given(world=worlds, reading=st.sampled_from(["all", "split"]))
@settings(max_examples=draws(80), deadline=None)
def test_path_classification_equals_the_definitions(world: World, reading: str) -> None:
    parts = [world.split.train, world.split.test] + ([world.split.valid] if reading == "all" else [])
    facts, queries = world.facts(*parts), world.plain_queries()
    truth = build_truth(world.split, "all" if reading == "all" else "split")
    judgements = oracle.path_classification(queries, facts, world.R, world.score)
    if not judgements:
        with pytest.raises(EvaluationError, match="the split all has no path of two or more relations; choose"):
            evaluate_classification(world.model, world.queries, truth)
        return
    report = evaluate_classification(world.model, world.queries, truth)
    agree(report.total, judgements)
    for length, part in report.by_length.items():
        chosen = [query for query in queries if len(query[1]) == length]
        agree(part, oracle.path_classification(chosen, facts, world.R, world.score))


@given(world=worlds, pair=st.tuples(st.integers(0, 5), st.integers(0, 5)))
@settings(max_examples=draws(80), deadline=None)
def test_order_analysis_equals_the_definitions(world: World, pair: tuple[int, int]) -> None:
    first, second = (relation % (2 * world.R) for relation in pair)
    facts = world.facts(world.split.train, world.split.valid, world.split.test)
    judgements = oracle.order_classification(world.plain_queries(), facts, world.R, world.score, first, second)
    truth = build_truth(world.split)
    if judgements:
        agree(evaluate_order(world.model, world.queries, truth, first, second).total, judgements)
    else:
        with pytest.raises(EvaluationError, match=r"no query of the split all has .* in its path; choose another pair"):
            evaluate_order(world.model, world.queries, truth, first, second)


def queries_of(*paths: tuple[int, ...]) -> PathQueries:
    width = max(map(len, paths))
    path = np.array([[*each, *[0] * (width - len(each))] for each in paths], dtype=np.int32)
    zeros = np.zeros(len(paths), dtype=np.int32)
    return PathQueries(zeros, path, np.array([len(each) for each in paths], dtype=np.int32), zeros.copy())


def test_reversed_paths_keep_their_padding() -> None:
    queries = queries_of((1, 2, 3), (4,), (5, 6))
    assert reverse_paths(queries).path.tolist() == [[3, 2, 1], [4, 0, 0], [6, 5, 0]]


def test_the_first_adjacent_pair_is_swapped_and_padding_is_no_relation() -> None:
    queries = queries_of((1, 0), (1,), (2, 1, 0, 1, 0), (0, 1))
    found, swapped = swap_adjacent(queries, 1, 0)
    assert found.path.tolist() == [[1, 0, 0, 0, 0], [2, 1, 0, 1, 0]]
    assert swapped.path.tolist() == [[0, 1, 0, 0, 0], [2, 0, 1, 1, 0]]


def test_a_commutative_model_cannot_be_right_on_both_sides() -> None:
    world = make_world(4, E=40, R=3, facts=120, queries=300)
    report = evaluate_classification(ComplEx(40, 3, dim=6, seed=1), world.queries, build_truth(world.split))
    positive, negative = report.score[report.label], report.score[~report.label]
    assert len(negative) > 50
    assert set(np.round(negative, 12)) <= set(np.round(positive, 12))


def test_scores_that_are_not_finite_name_the_first_query() -> None:
    world = make_world(2, E=12, R=2, facts=40, queries=30)
    with torch.no_grad():
        world.model.answer[:] = float("nan")
    with pytest.raises(EvaluationError, match=r"the model's scores for query 1, e\d+/.*/.* → e\d+, are not finite"):
        evaluate_classification(world.model, world.queries, build_truth(world.split))


def test_validation_figures_equal_the_full_ones_on_the_same_queries() -> None:
    world = make_world(6, E=30, R=2, facts=80, queries=100)
    truth = build_truth(world.split)
    facts = world.facts(world.split.train, world.split.valid, world.split.test)
    judgements = oracle.path_classification(world.plain_queries(), facts, world.R, world.score)
    outcomes = [oracle.rank_typed(facts, world.R, query, world.score, "half") for query in world.plain_queries()]
    assert ValidationAccuracy(world.queries, truth)(world.model) == pytest.approx(oracle.accuracy(judgements))
    means = oracle.summarise(outcomes)
    assert validation_ranking(world.model, world.queries, truth) == pytest.approx(
        {"mq": means.mq, "p_at_10": means.p_at_10}
    )


def test_a_subset_is_drawn_from_its_seed_in_order() -> None:
    queries = queries_of(*[(i,) for i in range(50)])
    drawn = subset(queries, 10, seed=1).path[:, 0].tolist()
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 10
    assert drawn == subset(queries, 10, seed=1).path[:, 0].tolist()
    assert drawn != subset(queries, 10, seed=2).path[:, 0].tolist()
    assert subset(queries, 50) is queries
