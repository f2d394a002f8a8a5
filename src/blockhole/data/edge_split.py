"""Dividing the facts of one graph into train, valid and test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import DataError
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.paths import PathQueries, query_codes


def split_edges(
    entities: Vocabulary,
    relations: Vocabulary,
    facts: NDArray[np.int32],
    rng: np.random.Generator,
    *,
    valid: float = 0.075,
    test: float = 0.075,
    held_out: NDArray[np.bool_] | None = None,
    kept: NDArray[np.bool_] | None = None,
) -> SplitGraph:
    """Draw `valid` and `test` shares of `facts` [T, 3] at random; the rest is train, all in the given order.

    Every entity and relation keeps one of its facts in train, so small or sparse graphs give up fewer facts than
    asked for. Facts marked in `held_out` [T] go to test, even the last of an entity; those in `kept` [T] to train.
    A fact that is there several times counts once, where it is first: else test could ask for what train knows.
    """
    check_shares(valid, test)
    once = _first_occurrences(facts)
    facts, count = facts[once], len(once)
    forced = np.zeros(count, dtype=bool) if held_out is None else held_out[once]
    order = rng.permutation(count)
    order = order[~forced[order]]

    free = ~forced
    free[_anchors(facts, order, len(entities), len(relations))] = False
    if kept is not None:
        free &= ~kept[once]
    drawn = order[free[order]]
    in_test = forced.copy()
    in_test[drawn[: max(0, round(test * count) - int(forced.sum()))]] = True
    drawn = drawn[~in_test[drawn]]
    in_valid = np.zeros(count, dtype=bool)
    in_valid[drawn[: round(valid * count)]] = True
    return SplitGraph(
        entities, relations, train=facts[~in_valid & ~in_test], valid=facts[in_valid], test=facts[in_test]
    )


def check_shares(valid: float, test: float) -> None:
    """Refuse shares that leave nothing to train on."""
    if not (0 <= valid < 1 and 0 <= test < 1 and valid + test < 1):
        raise DataError(
            f"shares of {valid:g} for valid and {test:g} for test cannot be taken; "
            "give two numbers of at least 0 with a sum below 1."
        )


def _first_occurrences(facts: NDArray[np.int32]) -> NDArray[np.intp]:
    """The rows that no earlier row equals, ascending."""
    _, first = np.unique(query_codes(PathQueries.from_triples(facts)), return_index=True)
    return np.sort(first)


def _anchors(
    facts: NDArray[np.int32], order: NDArray[np.int64], num_entities: int, num_relations: int
) -> NDArray[np.int64]:
    """The first fact, along `order`, of each entity (as source or target) and of each relation."""
    backwards = order[::-1]
    ends = facts[backwards][:, [0, 2]].ravel()
    return np.concatenate(
        [
            _last_written(ends, np.repeat(backwards, 2), num_entities),
            _last_written(facts[backwards, 1], backwards, num_relations),
        ]
    )


def _last_written(place: NDArray[np.int32], value: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The last of the values given for each place, places without a value left out."""
    kept, written = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=bool)
    kept[place] = value  # where a place is repeated, NumPy keeps the last value
    written[place] = True
    return kept[written]
