"""Negatives against brute force: who is drawn, who is left out, how a sample is weighted."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.queries.exact import answers, typed_candidates
from blockhole.training.batches import Batch
from blockhole.training.draws import KeyedDraws, Purpose
from blockhole.training.negatives import Exclusion, Negatives, NegativeSampler, corrupt_paths

from .worlds import config, random_queries, random_split

SPLIT = random_split()
GRAPH = SPLIT.graph("train")


def batch_of(hops: int, count: int = 6, epoch: int = 0, index: int = 0, split: SplitGraph = SPLIT) -> Batch:
    queries = random_queries(split, count, hops, seed=hops)
    source, path, target = (
        torch.from_numpy(ids.astype(np.int64)) for ids in (queries.source, queries.path, queries.target)
    )
    return Batch(source, path, target, epoch=epoch, index=index)


def draw(batch: Batch, seed: int = 0, **loss: Any) -> Negatives:
    settings = config(**{f"loss__{name}": value for name, value in loss.items()})
    return NegativeSampler(settings.loss, GRAPH, seed).draw(batch)


def cells_of(drawn: Negatives) -> tuple[Tensor, Tensor]:
    cells = drawn.excluded.pairs()
    return cells.row, cells.column


def known(graph: KnowledgeGraph, batch: Batch, row: int) -> set[int]:
    return set(answers(graph, int(batch.source[row]), batch.path[row].tolist()).tolist()) | {int(batch.target[row])}


@pytest.mark.parametrize("kind", ["logistic", "sampled_softmax"])
def test_draws_depend_on_seed_epoch_and_batch_alone(kind: str) -> None:
    def objects(seed: int = 0, epoch: int = 0, index: int = 0) -> list[int]:
        drawn = draw(batch_of(2, epoch=epoch, index=index), seed=seed, kind=kind, negatives=8).objects
        assert drawn is not None
        return drawn.flatten().tolist()

    assert objects() == objects()
    assert len({tuple(objects(*place)) for place in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]}) == 4


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_masks_exclude_what_sets_do(hops: int) -> None:
    """The way of a GPU, on the CPU: all entities, objects that a batch shares, objects of each positive."""
    batch, exclusion = batch_of(hops), Exclusion(GRAPH, known=True)
    E = GRAPH.num_entities
    for objects in (None, torch.tensor([7, 0, 11, 4]), torch.arange(6 * 5).view(6, 5) % E):
        by_sets, by_masks = exclusion.cells(batch, objects).pairs(), exclusion.masked_pairs(batch, objects)
        expected = {
            (row, column)
            for row in range(len(batch.source))
            for column, entity in enumerate(
                range(E) if objects is None else objects.tolist() if objects.dim() == 1 else objects[row].tolist()
            )
            if entity in known(GRAPH, batch, row)
        }
        for found in (by_sets, by_masks):
            cells = list(zip(found.row.tolist(), found.column.tolist(), strict=True))
            assert set(cells) == expected
            assert len(cells) == len(expected)
            assert found.row.tolist() == sorted(found.row.tolist())


@pytest.mark.parametrize("hops", [1, 3])
def test_logistic_negatives_leave_known_answers_out_when_masked(hops: int) -> None:
    batch = batch_of(hops)
    drawn = draw(batch, kind="logistic", negatives=30, mask_known_answers=True)
    assert drawn.objects is not None
    excluded = set(zip(*(ids.tolist() for ids in cells_of(drawn)), strict=True))
    for row in range(len(batch.source)):
        for column, entity in enumerate(drawn.objects[row].tolist()):
            assert ((row, column) in excluded) == (entity in known(GRAPH, batch, row))


@pytest.mark.parametrize("kind", ["softmax", "sampled_softmax"])
@pytest.mark.parametrize("masked", [False, True])
def test_softmax_rivals_leave_the_answer_out_and_all_known_ones_when_masked(kind: str, masked: bool) -> None:
    batch = batch_of(2)
    drawn = draw(batch, kind=kind, negatives=9, mask_known_answers=masked, corrupted_paths=1)
    columns = range(GRAPH.num_entities) if drawn.objects is None else drawn.objects.tolist()
    cells = list(zip(*(ids.tolist() for ids in cells_of(drawn)), strict=True))
    assert [row for row, _ in cells] == sorted(row for row, _ in cells)
    expected = {
        (row, column)
        for row in range(len(batch.source))
        for column, entity in enumerate(columns)
        if entity in (known(GRAPH, batch, row) if masked else {int(batch.target[row])})
    }
    assert set(cells) == expected


def test_relation_objects() -> None:
    objects = typed_candidates(GRAPH)
    for relation in range(2 * GRAPH.num_relations):
        expected = {
            int(t if relation < GRAPH.num_relations else s)
            for s, r, t in GRAPH.triples
            if r == relation % GRAPH.num_relations
        }
        assert objects[relation].tolist() == sorted(expected)


def test_typed_logistic_negatives_are_objects_of_the_last_relation() -> None:
    batch = batch_of(2)
    drawn = draw(batch, kind="logistic", negatives=50, typed_share=1.0).objects
    assert drawn is not None
    for row, relation in enumerate(batch.path[:, -1].tolist()):
        assert set(drawn[row].tolist()) == set(typed_candidates(GRAPH)[relation].tolist())


def test_typed_draws_from_a_relation_without_objects_are_uniform() -> None:
    lonely = KnowledgeGraph(SPLIT.entities, SPLIT.relations, np.array([[0, 0, 1]], dtype=np.int32))
    batch = Batch(torch.tensor([0]), torch.tensor([[2]]), torch.tensor([1]), 0, 0)
    drawn = NegativeSampler(config(loss__negatives=200, loss__typed_share=1.0).loss, lonely, 0).draw(batch).objects
    assert drawn is not None
    assert len(set(drawn.flatten().tolist())) == GRAPH.num_entities


def sum_estimates(exp_scores: np.ndarray[Any, np.dtype[np.float64]], drawn: Negatives) -> float:
    assert drawn.objects is not None
    assert drawn.log_weight is not None
    return float((exp_scores[drawn.objects.numpy()] * drawn.log_weight.double().exp().numpy()).sum())


@pytest.mark.parametrize("typed_share", [0.0, 0.5])
@pytest.mark.slow
def test_the_weighted_sample_estimates_the_sum_without_bias(typed_share: float) -> None:
    """The mean over many batches of Σ w_e exp φ_e comes near the sum over all entities, and no nearer to any other."""
    exp_scores = np.exp(np.random.default_rng(1).normal(size=GRAPH.num_entities))
    settings = config(loss__kind="sampled_softmax", loss__negatives=4, loss__typed_share=typed_share)
    sampler = NegativeSampler(settings.loss, GRAPH, 0)
    estimates = [sum_estimates(exp_scores, sampler.draw(batch_of(1, count=1, index=index))) for index in range(4000)]
    error = float(np.std(estimates)) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - exp_scores.sum()) < 4 * error
    assert error < 0.05 * exp_scores.sum()


def test_the_uniform_weight_makes_every_subset_count_alike() -> None:
    """Exactly: the mean of the weighted sums over all subsets of a size is the sum over all entities."""
    exp_scores = np.exp(np.random.default_rng(2).normal(size=GRAPH.num_entities))
    weight = draw(batch_of(1), kind="sampled_softmax", negatives=3).log_weight
    assert weight is not None
    sums = [exp_scores[list(subset)].sum() for subset in combinations(range(GRAPH.num_entities), 3)]
    assert np.mean(sums) * weight[0].exp().item() == pytest.approx(exp_scores.sum(), rel=1e-6)


def test_a_sample_of_everything_has_weight_one() -> None:
    drawn = draw(batch_of(1), kind="sampled_softmax", negatives=10_000)
    assert drawn.objects is not None
    assert drawn.log_weight is not None
    assert sorted(drawn.objects.tolist()) == list(range(GRAPH.num_entities))
    assert drawn.log_weight.abs().max().item() == 0


@pytest.mark.parametrize("kind", ["reversed", "shuffled", "swapped", "replaced"])
def test_corruptions(kind: str) -> None:
    path = torch.from_numpy(np.random.default_rng(0).integers(6, size=(200, 4)))
    draws = KeyedDraws(1, Purpose.CORRUPTION)
    draws.begin(path.device)
    corrupted = corrupt_paths(draws, path, (kind,), 6)  # type: ignore[arg-type]
    if kind == "reversed":
        assert (corrupted == path.flip(1)).all()
    elif kind == "shuffled":
        assert (corrupted.sort(dim=1).values == path.sort(dim=1).values).all()
        assert (corrupted != path).any()
    elif kind == "swapped":
        places = set()
        for before, after in zip(path.tolist(), corrupted.tolist(), strict=True):
            at = [i for i in range(3) if [*before[:i], before[i + 1], before[i], *before[i + 2 :]] == after]
            assert at
            places.add(at[0])
        assert places == {0, 1, 2}
    else:
        assert ((corrupted != path).sum(dim=1) == 1).all()
    assert corrupted.min() >= 0
    assert corrupted.max() < 6


@given(hops=st.integers(1, 4), seed=st.integers(0, 1000))
def test_corrupted_paths_that_count_are_false(hops: int, seed: int) -> None:
    batch = batch_of(hops, epoch=seed)
    drawn = draw(batch, corrupted_paths=3)
    assert drawn.paths is not None
    assert drawn.false is not None
    for row in range(len(batch.source)):
        for path, false in zip(drawn.paths[row], drawn.false[row], strict=True):
            true = int(batch.target[row]) in answers(GRAPH, int(batch.source[row]), path.tolist())
            assert bool(false) == (not true and path.tolist() != batch.path[row].tolist())
