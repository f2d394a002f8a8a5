"""Path queries as arrays."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from blockhole.queries.paths import PathQueries


def ids(*values: object) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def queries() -> PathQueries:
    return PathQueries(ids(0, 1, 2), ids([5, 6], [7, 0], [8, 9]), ids(2, 1, 2), ids(3, 4, 5))


def rows(made: PathQueries) -> list[tuple[int, list[int], int, int]]:
    columns = (made.source.tolist(), made.path.tolist(), made.length.tolist(), made.target.tolist())
    return list(zip(*columns, strict=True))


def test_facts_are_queries_of_length_1() -> None:
    made = PathQueries.from_triples(ids([3, 1, 4], [5, 0, 6]))
    assert rows(made) == [(3, [1], 1, 4), (5, [0], 1, 6)]
    assert {array.dtype for array in (made.source, made.path, made.length, made.target)} == {np.dtype(np.int32)}
    # Compiled loops are made for arrays without gaps.
    assert all(array.flags.c_contiguous for array in (made.source, made.path, made.target))


def test_paths_of_any_lengths_are_padded_to_the_longest() -> None:
    queries = PathQueries.of_paths([7, 8], [[3], [4, 0, 5]])
    assert queries.source.tolist() == [7, 8]
    assert queries.path.tolist() == [[3, 0, 0], [4, 0, 5]]
    assert queries.length.tolist() == [1, 3]
    assert PathQueries.of_paths([7], [[3]]).path.shape == (1, 1)
    assert PathQueries.of_paths([], []).path.shape == (0, 1)  # a path has a hop, also where there is none


def test_joined_queries_keep_their_order_and_are_padded_to_the_longest() -> None:
    facts = PathQueries.from_triples(ids([3, 1, 4]))
    joined = PathQueries.concatenate([facts, queries(), facts, queries().take(slice(0, 1))])
    assert rows(joined) == [
        (3, [1, 0], 1, 4),
        (0, [5, 6], 2, 3),
        (1, [7, 0], 1, 4),
        (2, [8, 9], 2, 5),
        (3, [1, 0], 1, 4),
        (0, [5, 6], 2, 3),
    ]
    assert joined.path.dtype == np.int32


def test_queries_are_taken_by_position_mask_and_slice() -> None:
    every = rows(queries())
    assert rows(queries().take(np.array([2, 0]))) == [every[2], every[0]]
    assert rows(queries().take(np.array([True, False, True]))) == [every[0], every[2]]
    assert rows(queries().take(slice(1, 3))) == every[1:]


def test_the_last_relation_is_that_of_the_last_hop_not_of_the_padding() -> None:
    assert queries().last_relation.tolist() == [6, 7, 9]


def test_queries_are_counted_by_length() -> None:
    assert queries().lengths() == {1: 1, 2: 2}
    assert len(queries()) == 3


def test_queries_cannot_be_changed() -> None:
    made = queries()
    for array in (made.source, made.path, made.length, made.target):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    with pytest.raises(AttributeError):
        made.source = ids(1, 1, 1)  # type: ignore[misc]


def test_queries_are_equal_to_themselves_only() -> None:
    """Arrays have no single answer to ==, so queries are compared by identity, and can be keys."""
    made = queries()
    assert made == made
    assert made != queries()
    assert {made: 1}[made] == 1


@pytest.mark.parametrize("which", range(4))
def test_arrays_of_different_lengths_are_refused(which: int) -> None:
    arrays = [ids(0, 1), ids([5], [6]), ids(1, 1), ids(3, 4)]
    arrays[which] = arrays[which][:1]
    with pytest.raises(ValueError, match="must have the same number of rows"):
        PathQueries(*arrays)


def test_paths_are_a_matrix() -> None:
    with pytest.raises(ValueError, match="must have the same number of rows"):
        PathQueries(ids(0, 1), ids(5, 6), ids(1, 1), ids(3, 4))
