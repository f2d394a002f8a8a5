"""The eight generated graphs: what shape they have, and that they are functions of their seed."""

import numpy as np
import pytest

from experiments.graphs import GRAPHS, TUNING, generate

SHAPES = {
    # entities, relations, train facts
    "dense": (14, 55, 1147),
    "sparse": (701, 4, 1236),
    "bipartite": (500, 3, 4741),
    "thousands-of-relations": (400, 2000, 6500),
    "hierarchical": (659, 4, 2052),
    "one-relation": (400, 1, 2924),
    "noisy": (300, 5, 1565),
    "scale-free": (800, 10, 2544),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_a_function_of_its_seed(name: str) -> None:
    once, again, other = generate(name).split, generate(name).split, generate(name, seed=1).split
    assert (len(once.entities), len(once.relations), len(once.train)) == SHAPES[name]
    assert all(np.array_equal(getattr(once, part), getattr(again, part)) for part in ("train", "valid", "test"))
    assert not np.array_equal(once.test, other.test)


@pytest.mark.parametrize("name", GRAPHS)
def test_test_asks_for_nothing_that_train_knows_or_never_meets(name: str) -> None:
    split = generate(name).split
    known, held_out = ({tuple(fact) for fact in part.tolist()} for part in (split.train, split.test))
    assert not known & held_out
    assert set(np.unique(split.test[:, [0, 2]])) <= set(np.unique(split.train[:, [0, 2]]))
    assert 0.05 < len(split.valid) / len(split.train) < 0.2


def test_half_of_the_graphs_are_for_confirmation_only() -> None:
    assert set(GRAPHS) - set(TUNING) == {"hierarchical", "one-relation", "noisy", "scale-free"}
