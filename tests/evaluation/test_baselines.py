"""Chance and counting, against definitions that look at one query after the other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.evaluation.baselines import CHANCE, counting_ranks
from blockhole.evaluation.completion import both_sides, evaluate_completion
from blockhole.evaluation.path_ranking import evaluate_ranking
from blockhole.evaluation.ranking import COMPLETION_METRICS, PATH_METRICS, CandidateKind, Ranks, rank, values_of
from blockhole.evaluation.truth import build_truth
from blockhole.queries.exact import answers
from tests.evaluation.worlds import World, make_world, worlds
from tests.sweep import draws


@given(world=worlds, candidates=st.sampled_from(["typed", "all"]))
@settings(max_examples=draws(40), deadline=None)
def test_counting_equals_its_definition(world: World, candidates: CandidateKind) -> None:
    truth, train = build_truth(world.split), world.split.graph("train")
    counts = Counter((int(r), int(o)) for _, r, o in world.split.train)
    counts += Counter((int(r) + world.R, int(s)) for s, r, _ in world.split.train)
    queries = world.queries if candidates == "typed" else both_sides(world.split.test, world.R)
    found = counting_ranks(queries, truth, train, candidates)
    for i, length in enumerate(queries.length.tolist()):
        path, target = queries.path[i, :length].tolist(), int(queries.target[i])
        rivals = set(range(world.E)) if candidates == "all" else set(truth.candidates(path[-1]).tolist())
        rivals -= {target, *answers(truth.graph, int(queries.source[i]), path).tolist()}
        own = counts[path[-1], target]
        better = sum(counts[path[-1], rival] > own for rival in rivals)
        tied = sum(counts[path[-1], rival] == own for rival in rivals)
        assert (found.better[i], found.tied[i], found.negatives[i]) == (better, tied, len(rivals))
    assert np.array_equal(found.negatives, rank(world.model, queries, truth, candidates=candidates).negatives)


@pytest.mark.parametrize("negatives", [1, 2, 9, 10, 37])
def test_chance_is_the_mean_over_all_ranks(negatives: int) -> None:
    better = np.arange(negatives + 1)
    ranks = Ranks(better, np.zeros_like(better), np.full_like(better, negatives))
    for metric in (*PATH_METRICS, *COMPLETION_METRICS):
        expected = values_of([metric], ranks, "half")[metric.name].mean()
        assert CHANCE[metric.name](np.array([negatives + 1]))[0] == pytest.approx(expected)


def test_reports_have_them_where_train_is_given() -> None:
    world = make_world(1, E=20, R=2, facts=40, queries=30)
    truth, train = build_truth(world.split), world.split.graph("train")
    completed = evaluate_completion(world.model, world.split.test, truth, train=train)
    ranked = evaluate_ranking(world.model, world.queries, truth, train=train)
    for report, metrics in ((completed, COMPLETION_METRICS), (ranked, PATH_METRICS)):
        assert report.baselines is not None
        assert set(report.to_dict()["baselines"]["counting"]) == {metric.name for metric in metrics}
        assert [row[0] for row in report.tables()[0].rows][-2:] == ["counting", "chance"]
    bare = evaluate_completion(world.model, world.split.test, truth)
    assert (bare.baselines, bare.remark, bare.to_dict()["baselines"]) == (None, None, None)
    assert completed.to_dict()["mrr"] == bare.to_dict()["mrr"]


def test_a_model_that_does_not_beat_them_is_said_to() -> None:
    world = make_world(1, E=20, R=2, facts=40, queries=30)
    truth, train = build_truth(world.split), world.split.graph("train")
    report = evaluate_completion(world.model, world.split.test, truth, train=train)
    beside, mrr = report.baselines, report.to_dict()["mrr"]
    assert beside is not None
    (metric,) = (metric for metric in COMPLETION_METRICS if metric.name == "mrr")
    assert beside.remark(metric, 1.1) is None
    assert beside.remark(metric, None) is None
    said = beside.remark(metric, 0.0)
    assert said is not None
    assert said.startswith(
        "the model does not beat counting, which is how often a relation has an object in train: MRR 0.0"
    )
    assert (report.remark is None) == (mrr > max(beside.counting["mrr"], beside.chance["mrr"]))
