"""The exact index keeps the best, whatever float32 makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.answering.index import ExactIndex
from blockhole.errors import RunError


def _best(query: torch.Tensor, vectors: torch.Tensor, count: int, among: np.ndarray) -> set[int]:
    """Every entity that no `count` others of `among` beat, by float64 scores."""
    scores = (vectors.double() @ query).numpy()[among]
    kth = np.sort(scores)[::-1][min(count, len(scores)) - 1] if len(scores) else 0.0
    return set(among[scores >= kth].tolist())


@given(
    seed=st.integers(0, 2**31),
    entities=st.sampled_from([1, 7, 300, 3000]),
    count=st.integers(1, 12),
    share=st.sampled_from([None, 0.0, 0.05, 0.7, 1.0]),
    near_ties=st.booleans(),
)
def test_the_best_are_on_the_shortlist(
    seed: int, entities: int, count: int, share: float | None, near_ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(entities, 5)).astype(np.float32)
    if near_ties:  # rows that float32 products cannot tell apart
        vectors = vectors[rng.integers(3, size=entities) % entities] * np.float32(1 + 1e-7)
        vectors[rng.random(entities) < 0.5] *= np.float32(1 - 1.2e-7)
    query = torch.from_numpy(rng.normal(size=5))
    index = ExactIndex(torch.from_numpy(vectors))
    chosen = None if share is None else np.flatnonzero(rng.random(entities) < share).astype(np.int32)
    among = np.arange(entities) if chosen is None else chosen
    others = np.ones(entities, dtype=bool)
    others[among] = False
    row, shortlist = index.shortlists(query[None], count, None if chosen is None else others[None])
    assert not row.any()
    assert set(shortlist.tolist()) <= set(among.tolist())
    assert _best(query, index.vectors, count, among) <= set(shortlist.tolist())


@given(
    seed=st.integers(0, 2**31),
    entities=st.sampled_from([1, 63, 1500, 2500]),
    queries=st.sampled_from([1, 3, 600]),
    count=st.sampled_from([1, 10, 70]),
    distinct=st.sampled_from([3, 40, 10_000]),
    hidden_share=st.sampled_from([0.0, 0.01, 0.9]),
)
@settings(max_examples=60, deadline=None)
def test_the_best_of_many_queries_pass_every_tile(
    seed: int, entities: int, queries: int, count: int, distinct: int, hidden_share: float
) -> None:
    """600 queries see 2,500 columns in three tiles; few distinct vectors make more ties than a row has room for."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(distinct, 5)).astype(np.float32)[rng.integers(distinct, size=entities)]
    vectors[rng.random(entities) < 0.3] *= np.float32(1 - 1.2e-7)
    posed = torch.from_numpy(rng.normal(size=(queries, 5)))
    is_hidden = rng.random((queries, entities)) < hidden_share
    row, column = ExactIndex(torch.from_numpy(vectors)).shortlists(posed, count, is_hidden)
    listed = np.zeros((queries, entities), dtype=bool)
    listed[row, column] = True
    assert (np.diff(row) >= 0).all()
    assert listed.sum() == len(row)
    assert not (listed & is_hidden).any()
    scores = np.where(is_hidden, -np.inf, (torch.from_numpy(vectors).double() @ posed.T).T.numpy())
    kth = np.sort(scores, axis=1)[:, -min(count, entities)]
    assert (listed | is_hidden | (scores < kth[:, None])).all()


def test_equal_scores_are_all_listed() -> None:
    index = ExactIndex(torch.zeros(5000, 4))
    row, column = index.shortlists(torch.ones(3, 4, dtype=torch.float64), 10)
    assert np.array_equal(row, np.repeat(np.arange(3), 5000))
    assert np.array_equal(column, np.tile(np.arange(5000), 3))


@pytest.mark.parametrize("entities", [40, 4000])
def test_hidden_positions_are_never_on_a_shortlist(entities: int) -> None:
    rng = np.random.default_rng(1)
    index = ExactIndex(torch.from_numpy(rng.normal(size=(entities, 6)).astype(np.float32)))
    queries = torch.from_numpy(rng.normal(size=(4, 6)))
    hidden = rng.random((4, entities)) < 0.5
    row, column = index.shortlists(queries, 5, hidden)
    assert not hidden[row, column].any()
    for i in range(4):
        visible = np.flatnonzero(~hidden[i])
        assert _best(queries[i], index.vectors, 5, visible) <= set(column[row == i].tolist())


def test_a_shortlist_is_short() -> None:
    rng = np.random.default_rng(2)
    index = ExactIndex(torch.from_numpy(rng.normal(size=(50_000, 20)).astype(np.float32)))
    queries = torch.from_numpy(rng.normal(size=(30, 20)))
    assert len(index.shortlists(queries[:1], 10)[0]) < 40
    assert len(index.shortlists(queries, 10)[0]) < 30 * 12


@pytest.mark.parametrize(("candidates", "query"), [(-22, -22), (-43, 5), (5, -200), (19, 19), (37, 0), (0, 200)])
@pytest.mark.parametrize("chosen", [False, True])
def test_the_best_are_found_where_float32_ends(candidates: int, query: int, chosen: bool) -> None:
    """Vectors of such powers of ten: their products in float32 would be infinite, zero, or have few digits left."""
    rng = np.random.default_rng(5)
    vectors = torch.from_numpy((rng.normal(size=(3000, 6)) * 10.0**candidates).astype(np.float32))
    queries = torch.from_numpy(rng.normal(size=(5, 6)) * 10.0**query)
    entities = np.arange(0, 3000, 2, dtype=np.int32) if chosen else np.arange(3000, dtype=np.int32)
    index = ExactIndex(vectors)
    row, column = (index.subset(entities) if chosen else index).shortlists(queries, 10)
    for i in range(len(queries)):
        best = _best(queries[i] / queries[i].abs().max(), vectors, 10, entities)
        listed = set(entities[column[row == i]].tolist())
        assert best <= listed
        assert len(listed) < 20 or candidates < -40  # there the vectors themselves have few digits, so that many tie


def test_products_have_full_precision_whatever_is_allowed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some processors multiply with fewer digits where they may, so it is looked at what they may."""
    index, queries, product, allowed = ExactIndex(torch.ones(40, 3)), torch.ones(2, 3).double(), torch.mm, []

    def spy(*factors: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        allowed.append(torch.get_float32_matmul_precision())
        return product(*factors, out=out)

    monkeypatch.setattr(torch, "mm", spy)
    torch.set_float32_matmul_precision("medium")
    try:
        index.shortlists(queries, 3)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert allowed == ["highest"]


@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_refused(spoilt: float) -> None:
    vectors = torch.ones(40, 3)
    vectors[7, 1] = spoilt
    with pytest.raises(RunError, match=r"^the vectors of some entities are not finite: the run has diverged; train it"):
        ExactIndex(vectors).shortlists(torch.ones(1, 3, dtype=torch.float64), 3)


def test_each_query_has_a_number_of_its_own() -> None:
    rng = np.random.default_rng(3)
    index = ExactIndex(torch.from_numpy(rng.normal(size=(20_000, 8)).astype(np.float32)))
    queries = torch.from_numpy(rng.normal(size=(5, 8)))
    counts = np.array([1, 300, 7, 20_000, 90_000])
    row, column = index.shortlists(queries, counts)
    for i, count in enumerate(counts.tolist()):
        own = column[row == i]
        assert _best(queries[i], index.vectors, count, np.arange(20_000)) <= set(own.tolist())
        assert len(own) < 1.2 * count + 10


def test_nothing_is_found_where_nothing_is() -> None:
    for index in (ExactIndex(torch.zeros(0, 4)), ExactIndex(torch.zeros(5, 4))):
        row, column = index.shortlists(torch.zeros(0, 4, dtype=torch.float64), 3)
        assert len(row) == len(column) == 0
    row, _ = ExactIndex(torch.zeros(0, 4)).shortlists(torch.zeros(2, 4, dtype=torch.float64), 3)
    assert len(row) == 0
