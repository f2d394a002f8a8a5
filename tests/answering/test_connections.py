"""Relation paths between two entities against asking every path there is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from blockhole.answering import connections as module
from blockhole.answering.connections import paths
from blockhole.answering.search import Deadline
from blockhole.answering.vectors import norms
from blockhole.errors import ConfigError, OutOfTime, UnknownName
from tests.answering.toys import make_engine


def test_paths_are_those_that_checking_each_gives() -> None:
    engine, _ = make_engine(E=12, R=2, facts=20, seed=4)
    hops = ["r0", "r1", "^r0", "^r1"]
    expected = {}
    for length in (1, 2, 3):
        for path in itertools.product(hops, repeat=length):
            verdict = engine.check("/".join(["e1", *path]), "e2")
            expected["/".join(path)] = (verdict.status, verdict.probability)
    found = paths(engine, "e1", "e2", max_length=3, top=len(expected))
    assert len(found) == len(expected)
    for each in found:
        status, probability = expected[each.path]
        assert each.status == status
        assert each.length == each.path.count("/") + 1
        assert each.probability == pytest.approx(probability)
    order = [(each.status != "known", -each.probability) for each in found]
    assert order == sorted(order)
    few = paths(engine, "e1", "e2", max_length=3, top=5)
    assert {each.path for each in few} <= set(expected)
    assert [each.status for each in few] == [each.status for each in found[:5]]


def test_among_many_relations_known_paths_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=12, R=2, facts=20, seed=4)
    every = paths(engine, "e1", "e2", max_length=3, top=200)
    monkeypatch.setattr(module, "_PREFIXES", 3)
    monkeypatch.setattr(module, "_CHUNK", 2)
    few = paths(engine, "e1", "e2", max_length=2, top=200)
    known = {each.path for each in every if each.status == "known" and each.length <= 2}
    assert known
    assert {each.path for each in few if each.status == "known"} <= known


@pytest.mark.parametrize("length", [0, 5])
def test_lengths_out_of_range(length: int) -> None:
    with pytest.raises(ConfigError, match=f"^the longest path may have 1 to 4 hops, not {length}.$"):
        paths(make_engine()[0], "e1", "e2", max_length=length)


def test_unknown_ends() -> None:
    with pytest.raises(UnknownName, match="unknown entity 'x'"):
        paths(make_engine()[0], "x", "e2")


def test_a_search_ends_at_its_deadline() -> None:
    with pytest.raises(
        OutOfTime, match=r"^the search did not end within 0 s; ask for shorter paths or fewer answers, or try again"
    ):
        paths(make_engine()[0], "e1", "e2", deadline=Deadline(0))


def test_a_vector_of_zeros_is_divided_by_one() -> None:
    np.testing.assert_array_equal(norms(np.array([[3.0, 4.0], [0.0, 0.0]])), [5.0, 1.0])
