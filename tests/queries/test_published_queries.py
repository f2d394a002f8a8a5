"""The fourteen types of published queries have as many hard answers as their authors counted."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.plans import Follow, Start
from blockhole.queries.query_sets import QUERY_TYPES, easy_and_hard, slots_of_type, steps_of_type
from tests.sweep import WHOLE

HARD = {
    ("fb15k-237", "query2box-test"): {
        "1p": 40_876, "2p": 98_551, "3p": 159_699, "2i": 48_917, "3i": 37_745, "ip": 347_713, "pi": 202_531,
        "2u": 17_294, "up": 56_430,
    },
    ("nell", "query2box-test"): {
        "1p": 28_534, "2p": 36_357, "3p": 62_323, "2i": 29_880, "3i": 23_054, "ip": 209_554, "pi": 133_736,
        "2u": 8_311, "up": 34_597,
    },
    ("nell", "betae-test"): {
        "1p": 27_041, "2p": 59_457, "3p": 70_060, "2i": 22_857, "3i": 24_034, "ip": 69_624, "pi": 47_413,
        "2u": 59_416, "up": 76_197, "2in": 51_474, "3in": 44_512, "inp": 51_585, "pin": 63_893, "pni": 51_813,
    },
}  # fmt: skip
"""Sums over the queries of a set: answers over all facts that are none over those of train and valid."""

EACH_OPERATOR = {"2p", "3i", "up", "inp", "pni"}
CASES = [
    (*which, name)
    for which, sums in HARD.items()
    for name in sums
    if WHOLE or (which == ("nell", "betae-test") and name in EACH_OPERATOR)
]


@cache
def graph(folder: Path, *splits: str) -> KnowledgeGraph:
    facts = pl.read_parquet(folder / "facts.parquet").filter(pl.col("split").cast(pl.String).is_in(splits))
    entities, relations = (
        Vocabulary((folder / f"{kind}.txt").read_text(encoding="utf-8").splitlines(), kind)
        for kind in ("entities", "relations")
    )
    return KnowledgeGraph(entities, relations, facts.select("subject", "relation", "object").to_numpy())


@pytest.mark.parametrize(("data", "published", "name"), CASES)
def test_hard_answers_of_published_queries(data_root: Path, data: str, published: str, name: str) -> None:
    folder = data_root / "queries" / data
    if not folder.is_dir():
        pytest.skip("the published queries are not here")
    queries = pl.read_parquet(folder / f"{published}.parquet").filter(pl.col("type") == name)
    ids = np.array(queries["ids"].to_list(), dtype=np.int32)
    known, truth = graph(folder, "train", "valid"), graph(folder, "train", "valid", "test")
    hard = sum(len(hard.entities) for _, hard in easy_and_hard(known, truth, name, ids))
    assert hard == HARD[data, published][name]


def test_the_letters_of_a_type_are_its_slots() -> None:
    for name, text in QUERY_TYPES.items():
        letters = [letter for letter in text if letter.isalpha()]
        slots = [step.slot for step in steps_of_type(name) if isinstance(step, Start | Follow)]
        assert sorted(letters) == sorted(set(letters))
        assert slots == list(range(len(letters)))
        assert slots_of_type(name) == "".join("e" if letter in "abc" else "r" for letter in letters)
