"""Dividing facts: shares, coverage, and what is forced one way or the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.data.edge_split import split_edges
from blockhole.errors import DataError
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary

ENTITIES = Vocabulary(f"e{i}" for i in range(12))
RELATIONS = Vocabulary((f"r{i}" for i in range(3)), kind="relation")
facts_strategy = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 2), st.integers(0, 11)), min_size=1, max_size=60, unique=True
).map(lambda rows: np.array(rows, dtype=np.int32))


def split(facts: NDArray[np.int32], seed: int, valid: float, test: float) -> SplitGraph:
    return split_edges(ENTITIES, RELATIONS, facts, np.random.default_rng(seed), valid=valid, test=test)


def rows(facts: NDArray[np.int32]) -> list[tuple[int, ...]]:
    return [tuple(row) for row in facts.tolist()]


@settings(deadline=None)
@given(facts_strategy, st.integers(0, 99), st.floats(0, 0.45), st.floats(0, 0.45))
def test_splits_divide_the_facts_and_train_covers_them(
    facts: NDArray[np.int32], seed: int, valid: float, test: float
) -> None:
    parts = split(facts, seed, valid, test)
    assert sorted(rows(parts.train) + rows(parts.valid) + rows(parts.test)) == sorted(rows(facts))
    assert len(parts.valid) <= round(valid * len(facts))
    assert len(parts.test) <= round(test * len(facts))
    assert set(parts.train[:, [0, 2]].ravel().tolist()) == set(facts[:, [0, 2]].ravel().tolist())
    assert set(parts.train[:, 1].tolist()) == set(facts[:, 1].tolist())


@given(facts_strategy, st.integers(0, 99), st.data())
def test_facts_that_are_there_several_times_are_in_one_part_once(
    facts: NDArray[np.int32], seed: int, data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.integers(0, len(facts) - 1), max_size=60))
    parts, repeated = split(facts, seed, 0.3, 0.3), split(np.concatenate([facts, facts[again]]), seed, 0.3, 0.3)
    found = rows(repeated.train) + rows(repeated.valid) + rows(repeated.test)
    assert len(found) == len(set(found))
    for name in ("train", "valid", "test"):
        assert rows(getattr(repeated, name)) == rows(getattr(parts, name))


@given(facts_strategy, st.integers(0, 99))
def test_each_part_keeps_the_order_of_the_facts(facts: NDArray[np.int32], seed: int) -> None:
    position = {row: i for i, row in enumerate(rows(facts))}
    parts = split(facts, seed, 0.3, 0.3)
    for part in (parts.train, parts.valid, parts.test):
        places = [position[row] for row in rows(part)]
        assert places == sorted(places)


@given(facts_strategy, st.integers(0, 99), st.data())
def test_forced_facts_go_where_they_are_sent(facts: NDArray[np.int32], seed: int, data: st.DataObject) -> None:
    where = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(facts), max_size=len(facts))))
    held_out, kept = where == 0, where == 1
    parts = split_edges(
        ENTITIES, RELATIONS, facts, np.random.default_rng(seed), valid=0.3, test=0.3, held_out=held_out, kept=kept
    )
    assert set(rows(facts[held_out])) <= set(rows(parts.test))
    assert set(rows(facts[kept])) <= set(rows(parts.train))
    assert len(parts.test) <= max(round(0.3 * len(facts)), held_out.sum())


def test_dense_facts_give_exactly_the_shares() -> None:
    grid = np.stack(np.meshgrid(np.arange(12), np.arange(3), np.arange(12), indexing="ij"), axis=-1)
    parts = split(grid.reshape(-1, 3).astype(np.int32), 0, 0.1, 0.25)
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (281, 43, 108)


def test_shares_that_leave_no_train_are_refused() -> None:
    text = (
        r"^shares of 0\.5 for valid and 0\.5 for test cannot be taken; "
        r"give two numbers of at least 0 with a sum below 1\.$"
    )
    with pytest.raises(DataError, match=text):
        split(np.array([[0, 0, 1]], dtype=np.int32), 0, 0.5, 0.5)
