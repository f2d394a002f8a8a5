from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.errors import EvaluationError
from blockhole.evaluation.path_ranking import RankingFigures, evaluate_ranking, ranking_figures
from blockhole.evaluation.ranking import Ranks, TieRule, TiesCountAsWins, rank
from blockhole.evaluation.truth import Reading, build_truth
from blockhole.graph.knowledge_graph import SplitName
from blockhole.models.catalogue import ModelSettings, build_model
from blockhole.queries.exact import answer_sets
from blockhole.queries.paths import PathQueries
from tests.evaluation import oracle
from tests.evaluation.integer_model import IntegerModel, constant_model
from tests.evaluation.worlds import World, make_world, worlds
from tests.sweep import WHOLE, draws

TIES: tuple[TieRule, ...] = ("half", "paper", "pessimistic")


def known_facts(world: World, reading: Reading, evaluated: SplitName) -> set[oracle.Fact]:
    if reading == "all":
        return world.facts(world.split.train, world.split.valid, world.split.test)
    return world.facts(world.split.train, getattr(world.split, evaluated))


def agree(ours: RankingFigures, theirs: oracle.Means) -> None:
    assert (ours.queries, ours.excluded) == (theirs.queries, theirs.excluded)
    for name in ("tied", "mq", "p_at_10", "p_at_10_with_excluded"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-9)


@given(
    world=worlds,
    reading=st.sampled_from(["all", "split"]),
    evaluated=st.sampled_from(["valid", "test"]),
    ties=st.sampled_from(TIES),
)
@settings(max_examples=150 if WHOLE else 50, deadline=None)
@pytest.mark.filterwarnings("ignore::blockhole.evaluation.ranking.TiesCountAsWins")
@pytest.mark.slow
def test_ranking_equals_the_definitions(world: World, reading: Reading, evaluated: SplitName, ties: TieRule) -> None:
    truth = build_truth(world.split, reading, evaluated)
    report = evaluate_ranking(world.model, world.queries, truth, ties=ties)
    facts, queries = known_facts(world, reading, evaluated), world.plain_queries()
    outcomes = [oracle.rank_typed(facts, world.R, query, world.score, ties) for query in queries]

    agree(report.total, oracle.summarise(outcomes))
    lengths = {len(path) for _, path, _ in queries}
    assert set(report.by_length) == lengths
    for length in lengths:
        part = [each for each, (_, path, _) in zip(outcomes, queries, strict=True) if len(path) == length]
        agree(report.by_length[length], oracle.summarise(part))
    relations = {path[-1] for _, path, _ in queries}
    assert set(report.by_relation) == {f"r{r}" if r < world.R else f"^r{r - world.R}" for r in relations}
    for r in relations:
        part = [each for each, (_, path, _) in zip(outcomes, queries, strict=True) if path[-1] == r]
        agree(report.by_relation[f"r{r}" if r < world.R else f"^r{r - world.R}"], oracle.summarise(part))


def random_ranks(model_seed: int = 0) -> tuple[World, Ranks]:
    world = make_world(7, E=60, R=3, facts=300, queries=200)
    model = build_model(ModelSettings(name="blockhole", blocks=3, block_size=4), 60, 3, model_seed)
    # Every third entity is a double of the one before it, so that exact ties abound.
    with torch.no_grad():
        model.entity[2::3] = model.entity[1::3]
    return World(world.split, world.queries, model), rank(model, world.queries, build_truth(world.split))  # type: ignore[arg-type]


def same(a: Ranks, b: Ranks) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("better", "tied", "negatives"))


def test_ranks_do_not_depend_on_batch_memory_or_threads() -> None:
    world, ranks = random_ranks()
    truth = build_truth(world.split)
    assert (ranks.tied > 0).mean() > 0.3
    for batch in (1, 7, 64, 200):
        assert same(ranks, rank(world.model, world.queries, truth, batch=batch))
    assert same(ranks, rank(world.model, world.queries, truth, memory=10**11))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        assert same(ranks, rank(world.model, world.queries, truth))
    finally:
        torch.set_num_threads(threads)


def test_ranks_do_not_depend_on_the_order_of_the_queries() -> None:
    world, ranks = random_ranks()
    order = np.random.default_rng(0).permutation(len(world.queries))
    shuffled = rank(world.model, world.queries.take(order), build_truth(world.split))
    assert same(ranks.take(order), shuffled)


def test_ranks_do_not_depend_on_reduced_precision_asked_for_elsewhere() -> None:
    world, ranks = random_ranks()
    torch.set_float32_matmul_precision("medium")
    try:
        assert same(ranks, rank(world.model, world.queries, build_truth(world.split)))
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_ranks_equal_a_dense_float64_evaluation() -> None:
    world, ranks = random_ranks()
    truth = build_truth(world.split)
    q = world.queries
    model = world.model.double()
    with torch.no_grad():
        vector = model.embed_query(*(torch.from_numpy(ids.astype(np.int64)) for ids in (q.source, q.path, q.length)))
        scores = (vector @ model.candidates().T).numpy()
    for i, sets in enumerate(answer_sets(truth.graph, q, batch_size=1)):
        negatives = np.setdiff1d(truth.candidates(int(q.last_relation[i])), [*sets.entities, q.target[i]])
        lead = scores[i, negatives] - scores[i, q.target[i]]
        tied = np.abs(lead) <= 1e-12
        counts = (len(negatives), int(tied.sum()), int(((lead > 0) & ~tied).sum()))
        assert counts == (ranks.negatives[i], ranks.tied[i], ranks.better[i])


@pytest.mark.parametrize(("ties", "mq"), [("half", 50.0), ("paper", 100.0), ("pessimistic", 0.0)])
def test_a_constant_scorer_wins_under_the_papers_rule_only(ties: TieRule, mq: float) -> None:
    world = make_world(3, E=40, R=2, facts=120, queries=60)
    model = constant_model(40, 2)

    def report() -> RankingFigures:
        return evaluate_ranking(model, world.queries, build_truth(world.split), ties=ties).total

    if ties == "paper":
        with pytest.warns(TiesCountAsWins, match="counts ties as wins, and 100.0 % of the queries have some: MQ 100.0"):
            figures = report()
    else:
        figures = report()
    assert figures.mq == pytest.approx(mq)
    assert figures.tied == 100.0
    assert figures.intervals["mq"] == pytest.approx((mq, mq))


def separating_model(world: World, sign: float) -> IntegerModel:
    """Scores 1 for one target per source and relation path start, 0 for all else; one-hot over entities."""
    model = IntegerModel(world.E, world.R, world.E, seed=0)
    with torch.no_grad():
        model.entity.copy_(torch.eye(world.E))
        model.answer.copy_(sign * torch.eye(world.E))
        model.relation.zero_()
        adjacency = model.relation.view(2 * world.R, world.E, world.E)
        graph = build_truth(world.split).graph
        for s, r, o in graph.triples:
            adjacency[r, s, o] = 1.0
            adjacency[r + world.R, o, s] = 1.0
    return model


def true_queries(world: World) -> PathQueries:
    """The queries, each with one of its answers as target; those without an answer left out."""
    graph = build_truth(world.split).graph
    rows, targets = [], []
    for i, sets in enumerate(answer_sets(graph, world.queries, batch_size=1)):
        if len(sets.entities):
            rows.append(i)
            targets.append(sets.entities[-1])
    found = world.queries.take(np.array(rows, dtype=np.intp))
    return PathQueries(found.source, found.path, found.length, np.array(targets, dtype=np.int32))


def test_a_perfect_scorer_gets_100_and_the_reversed_one_its_mirror_image() -> None:
    world = make_world(11, E=30, R=2, facts=60, queries=80)
    queries, truth = true_queries(world), build_truth(world.split)
    perfect = evaluate_ranking(separating_model(world, 1.0), queries, truth).total
    reversed_ = evaluate_ranking(separating_model(world, -1.0), queries, truth).total
    assert perfect.queries > 40
    assert (perfect.mq, perfect.p_at_10, perfect.tied) == (100.0, 100.0, 0.0)
    assert (reversed_.mq, reversed_.tied) == (0.0, 0.0)


@given(world=worlds)
@settings(max_examples=draws(30), deadline=None)
def test_the_reversed_scorer_is_the_mirror_image(world: World) -> None:
    truth = build_truth(world.split)
    ranks = rank(world.model, world.queries, truth)
    with torch.no_grad():
        world.model.answer.neg_()
    mirrored = rank(world.model, world.queries, truth)
    both = ranks.quantile("half") + mirrored.quantile("half")
    np.testing.assert_allclose(both[ranks.evaluated], 1.0)
    assert np.array_equal(ranks.tied, mirrored.tied)


def test_many_near_ties_are_decided_by_a_whole_product() -> None:
    # Rivals differ from the true answer by 1e-7 of its score: too near for float32, far apart for float64.
    world = make_world(5, E=50, R=1, facts=400, queries=40, longest=2)
    model = IntegerModel(50, 1, 4, seed=1)
    with torch.no_grad():
        model.entity.fill_(1.0)
        model.relation.fill_(1.0)
        model.answer.fill_(1.0)
        model.answer[:, 0] += 1e-7 * torch.arange(50)
    truth = build_truth(world.split)
    ranks = rank(model, world.queries, truth)
    values = model.answer[:, 0].tolist()

    def score(source: int, path: oracle.Path, target: int) -> Fraction:
        return Fraction(values[target])

    facts = known_facts(world, "all", "test")
    outcomes = [oracle.rank_typed(facts, 1, query, score, "half") for query in world.plain_queries()]
    assert ranks.rank().tolist() == [float(each.rank) for each in outcomes]


def test_p_at_10_counts_half_of_the_ties() -> None:
    ranks = Ranks(
        better=np.array([9, 10, 0, 0, 0]), tied=np.array([0, 0, 18, 19, 0]), negatives=np.array([30] * 4 + [0])
    )
    assert ranks.hit(10).tolist() == [True, False, True, False, True]
    assert ranks.hit(10, "paper").tolist() == [True, False, True, True, True]
    assert ranks.hit(10, "pessimistic").tolist() == [True, False, False, False, True]
    figures = ranking_figures(ranks)
    assert (figures.queries, figures.excluded, figures.p_at_10, figures.p_at_10_with_excluded) == (4, 1, 50.0, 60.0)


def test_figures_of_queries_without_negatives_are_absent() -> None:
    figures = ranking_figures(Ranks(*(np.zeros(2, dtype=np.int64) for _ in range(3))))
    assert (figures.queries, figures.excluded, figures.mq, figures.p_at_10, figures.tied) == (0, 2, None, None, None)
    assert figures.intervals == {}


def test_no_queries() -> None:
    world = make_world(0, E=5, R=1, facts=10, queries=3)
    with pytest.raises(EvaluationError, match=r"there are no queries to rank; choose a split that has some\."):
        rank(world.model, world.queries.take(slice(0, 0)), build_truth(world.split))


def test_a_memory_cap_too_small_for_one_query() -> None:
    world = make_world(0, E=5, R=1, facts=10, queries=3)
    with pytest.raises(EvaluationError, match=r"a memory cap of 1 MB is too small for one query: the process needs "):
        rank(world.model, world.queries, build_truth(world.split), memory=10**6)


def test_a_model_of_another_size() -> None:
    world = make_world(0, E=5, R=1, facts=10, queries=3)
    with pytest.raises(EvaluationError, match="the model has 6 entities and 2 relations, the data 5 and 1; "):
        rank(IntegerModel(6, 2, 2, seed=0), world.queries, build_truth(world.split))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_name_the_first_query(value: float) -> None:
    world = make_world(2, E=12, R=2, facts=40, queries=30)
    bad = int(world.queries.source[17])
    first = int(np.argmax(world.queries.source == bad))
    with torch.no_grad():
        world.model.entity[bad] = value
    with pytest.raises(EvaluationError, match=rf"scores for query {first + 1}, e{bad}/.* are not finite: the run has "):
        rank(world.model, world.queries, build_truth(world.split))


def test_candidates_that_are_not_finite_name_the_first_query() -> None:
    world = make_world(2, E=12, R=2, facts=40, queries=30)
    truth = build_truth(world.split)
    bad = 5
    with torch.no_grad():
        world.model.answer[bad] = float("nan")
    q = world.queries
    asked = [bad in truth.candidates(int(r)) or t == bad for r, t in zip(q.last_relation, q.target, strict=True)]
    with pytest.raises(EvaluationError, match=rf"scores for query {asked.index(True) + 1}, e"):
        rank(world.model, world.queries, truth)
