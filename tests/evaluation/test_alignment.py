from __future__ import annotations

import numpy as np
import pytest

from blockhole.data.dataset import DataSet
from blockhole.errors import EvaluationError
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.truth import SPLITS, align, build_truth, evaluated_facts, queries_of
from blockhole.graph.knowledge_graph import SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.path_sets import PathSplits
from blockhole.queries.paths import PathQueries
from tests.evaluation.integer_model import IntegerModel
from tests.evaluation.worlds import make_world


def test_another_order_of_names_gives_the_same_ranks() -> None:
    world = make_world(9, E=20, R=3, facts=80, queries=50)
    expected = rank(world.model, world.queries, build_truth(world.split))

    generator = np.random.default_rng(0)
    new_entity, new_relation = generator.permutation(20), generator.permutation(3)
    entities = Vocabulary([f"e{i}" for i in new_entity], "entity")
    relations = Vocabulary([f"r{i}" for i in new_relation], "relation")
    model = IntegerModel(20, 3, 3, seed=0)
    model.entity.data = world.model.entity.data[new_entity.tolist()]
    model.answer.data = world.model.answer.data[new_entity.tolist()]
    model.relation.data = world.model.relation.data[[*new_relation, *(new_relation + 3)]]

    alignment = align(world.split, entities, relations)
    found = rank(model, alignment.queries(world.queries), build_truth(alignment.split(world.split)))
    assert np.array_equal(found.better, expected.better)
    assert np.array_equal(found.tied, expected.tied)
    assert np.array_equal(found.negatives, expected.negatives)


def test_names_the_model_does_not_know_are_counted() -> None:
    world = make_world(9, E=20, R=3, facts=80, queries=1)
    entities, relations = Vocabulary([f"e{i}" for i in range(5, 30)]), Vocabulary(["r0", "r1", "other"], "relation")
    with pytest.raises(EvaluationError) as refused:
        align(world.split, entities, relations, "wn11")
    assert str(refused.value) == (
        "the model was trained on other data than wn11: of its entities it knows 15 of 20, of its relations 2 of 3; "
        "evaluate it on the data it was trained on, or train a model on this."
    )


def queries(count: int) -> PathQueries:
    zeros = np.zeros(count, dtype=np.int32)
    return PathQueries(zeros, np.zeros((count, 1), dtype=np.int32), np.ones(count, dtype=np.int32), zeros.copy())


def test_splits_by_name() -> None:
    world = make_world(9, E=20, R=3, facts=80, queries=1)
    data = DataSet("mine", world.split, splits=PathSplits(*(queries(2**i) for i in range(5))))
    sizes = {split: len(queries_of(data, split)) for split in SPLITS}
    assert sizes == {
        "base": len(world.split.test),
        "valid": len(world.split.valid),
        "dev_deduction": 2,
        "dev_induction": 4,
        "dev": 6,
        "deduction": 8,
        "induction": 16,
        "all": 24,
        "paths": 31,
    }
    assert {split for split in SPLITS if evaluated_facts(split) == "valid"} == {
        "valid", "dev", "dev_deduction", "dev_induction",
    }  # fmt: skip
    assert evaluated_facts("dev_queries.tsv") == evaluated_facts("valid.tsv") == "test"


def test_an_empty_split_and_an_unknown_one() -> None:
    split = SplitGraph(Vocabulary(["a"]), Vocabulary(["r"], "relation"), np.array([[0, 0, 0]], dtype=np.int32))
    data = DataSet("mine", split)
    for name, lacking in (("base", "test facts"), ("valid", "validation facts")):
        with pytest.raises(EvaluationError, match=rf"^mine has no {lacking} to measure on; choose another split, or"):
            queries_of(data, name)
    with pytest.raises(EvaluationError, match=r"^there is no split 'tset'; the splits are base, deduction, "):
        queries_of(data, "tset")
