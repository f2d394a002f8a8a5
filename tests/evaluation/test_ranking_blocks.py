"""How ranking divides its work, and where a tie ends."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blockhole.errors import EvaluationError
from blockhole.evaluation import ranking
from blockhole.evaluation.ranking import rank, takes_whole_product
from blockhole.evaluation.truth import build_truth
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.queries.paths import PathQueries
from tests.evaluation.integer_model import IntegerModel
from tests.evaluation.worlds import World, make_world, names

STEP = 2.0**-33
"""Half of how far apart scores of unit vectors may be and still tie."""


def tie_world(far: int) -> tuple[World, PathQueries]:
    """Entities 0 … 6 score -3 … 3 steps of half the tolerance, all others far below; the target scores 0."""
    score = torch.tensor([step * STEP for step in range(-3, 4)] + [-1.0] * far)
    entities = len(score)
    # Entity 7 is the source: it leads nowhere, so that no rival is an answer.
    split = SplitGraph(
        names("e", entities, "entity"), names("r", 1, "relation"), train=np.array([(0, 0, 7)], dtype=np.int32)
    )
    model = IntegerModel(entities, 1, 2, seed=0)
    with torch.no_grad():
        model.entity.copy_(torch.tensor([0.0, 1.0]))
        model.relation.copy_(torch.eye(2).reshape(1, 4))
        # Norms of 1 whatever the score, as near as float32 can tell: scores are then compared as they are.
        model.answer.copy_(torch.stack([(1 - score.square()).clamp_min(0).sqrt(), score], dim=1))
    queries = PathQueries.from_triples(np.array([(7, 0, 3)], dtype=np.int32))
    return World(split, queries, model), queries


@pytest.mark.parametrize("far", [1, 300])
def test_scores_tie_up_to_the_tolerance_and_no_further(far: int) -> None:
    """Few rivals: most are near, and a whole product decides them. Many: the six near ones are scored one by one."""
    world, queries = tie_world(far)
    ranks = rank(world.model, queries, build_truth(world.split), candidates="all")
    assert (ranks.better.tolist(), ranks.tied.tolist(), ranks.negatives.tolist()) == ([1], [4], [6 + far])


def test_a_whole_product_is_taken_where_it_is_the_cheaper_way() -> None:
    assert takes_whole_product(10, 5, 199)
    assert not takes_whole_product(10, 5, 200)


def test_progress_hears_of_every_block() -> None:
    world = make_world(7, E=60, R=3, facts=300, queries=200)
    truth, heard = build_truth(world.split), list[int]()
    rank(world.model, world.queries, truth, candidates="all", batch=7, progress=heard.append)
    assert heard == [7] * 28 + [4]
    heard.clear()
    rank(world.model, world.queries, truth, progress=heard.append)
    # Typed queries share their candidates with those of the same last relation, and are few enough for one block each.
    assert sorted(heard) == sorted(np.unique(world.queries.last_relation, return_counts=True)[1].tolist())


def test_blocks_hold_so_many_scores_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(7, E=60, R=3, facts=300, queries=200)
    truth = build_truth(world.split)

    def largest() -> int:
        heard: list[int] = []
        rank(world.model, world.queries, truth, candidates="all", progress=heard.append)
        return max(heard)

    monkeypatch.setattr(ranking, "_CPU_SCORES", 60 * 50 + 59)
    assert largest() == 50
    monkeypatch.setattr(ranking, "_MOST_QUERIES", 30)
    assert largest() == 30
    monkeypatch.setattr(ranking, "_CPU_SCORES", 59)  # a query is not divided
    assert largest() == 1


def test_a_block_grows_with_the_memory_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process held before and the candidates' vectors count once, and each query in a block alike."""
    held = 10**6
    monkeypatch.setattr(ranking, "resident_bytes", lambda: held)
    world = make_world(7, E=60, R=3, facts=300, queries=200)
    truth = build_truth(world.split)

    def largest(memory: int) -> int:
        heard: list[int] = []
        rank(world.model, world.queries, truth, candidates="all", memory=memory, progress=heard.append)
        assert sum(heard) == 200
        return max(heard)

    vectors = 60 * world.model.dim * (8 + 8 + 4)
    row = 60 * ranking._BYTES_PER_SCORE + 48 * world.model.dim
    assert [largest(held + vectors + count * row) for count in (1, 10, 100, 1000)] == [1, 10, 100, 200]
    assert largest(held + vectors + 10 * row - 1) == 9
    with pytest.raises(EvaluationError, match="is too small for one query"):
        largest(held + vectors + row - 1)


def test_what_answers_need_is_in_memory_before_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(ranking, "holds", lambda graph, queries: heard.append(f"{len(queries)} answered"))

    def measured() -> int:
        heard.append("measured")
        return 0

    monkeypatch.setattr(ranking, "resident_bytes", measured)
    world = make_world(7, E=60, R=3, facts=300, queries=20)
    rank(world.model, world.queries, build_truth(world.split), memory=10**9)
    assert heard == ["1 answered", "measured"]
    heard.clear()
    rank(world.model, world.queries, build_truth(world.split))
    assert heard == ["measured"]


def test_a_cap_too_small_for_the_largest_group_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "resident_bytes", lambda: 0)
    # Relation 0 leads to two entities, relation 1 to forty.
    facts = [(i % 40, 0, i % 2) for i in range(40)] + [(0, 1, i) for i in range(40)]
    split = SplitGraph(names("e", 40, "entity"), names("r", 2, "relation"), train=np.array(facts, dtype=np.int32))
    queries = PathQueries.from_triples(np.array([(0, 0, 1), (1, 1, 1)], dtype=np.int32))
    model, heard = IntegerModel(40, 2, 3, seed=0), list[int]()
    small = 2 * 60 + 2 * ranking._BYTES_PER_SCORE + 48 * 3
    with pytest.raises(EvaluationError, match="is too small for one query"):
        rank(model, queries, build_truth(split), memory=2 * small, progress=heard.append)
    assert heard == []
    rank(model, queries.take(slice(0, 1)), build_truth(split), memory=2 * small, progress=heard.append)
    assert heard == [1]
