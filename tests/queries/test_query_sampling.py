"""Sampled queries keep BetaE's rules, come as often as its procedure gives them, and depend on the seed alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from blockhole.data.dataset import load, sample_queries
from blockhole.errors import BlockholeWarning, DataError
from blockhole.graph.knowledge_graph import KnowledgeGraph, SplitGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.query_sampling import _grounded, sample_from_split
from blockhole.queries.query_sets import QUERY_TYPES, QuerySet, graphs_of_split
from tests.queries.graphs import make_graph

Hops = dict[tuple[int, int], set[int]]


@cache
def family() -> SplitGraph:
    return load("family").split


@cache
def sampled() -> QuerySet:
    return sample_queries("family", count=30, seed=5, max_answers=6)


def hops_of(graph: KnowledgeGraph) -> Hops:
    found: Hops = defaultdict(set)
    for s, r, t in graph.triples.tolist():
        found[s, r].add(t)
        found[t, r + graph.num_relations].add(s)
    return found


def answers(hops: Hops, type_: str, ids: list[int]) -> set[int]:
    """The answers of a query by dictionaries and sets, from the definition of its type."""

    def chain(start: set[int], *relations: int) -> set[int]:
        for relation in relations:
            start = set().union(*(hops.get((entity, relation), set()) for entity in start))
        return start

    match type_, ids:
        case (("1p" | "2p" | "3p"), [a, *path]):
            return chain({a}, *path)
        case (("2i" | "2in" | "ip" | "inp" | "2u" | "up"), [a, r, b, s, *rest]):
            one, other = chain({a}, r), chain({b}, s)
            joined = one | other if "u" in type_ else one - other if "n" in type_ else one & other
            return chain(joined, *rest)
        case (("3i" | "3in"), [a, r, b, s, c, t]):
            both, last = chain({a}, r) & chain({b}, s), chain({c}, t)
            return both - last if "n" in type_ else both & last
        case (("pi" | "pin" | "pni"), [a, r, s, b, t]):
            far, near = chain({a}, r, s), chain({b}, t)
            return far & near if type_ == "pi" else far - near if type_ == "pin" else near - far
    raise AssertionError(type_)


@pytest.mark.parametrize("type_", QUERY_TYPES)
def test_every_query_keeps_the_rules(type_: str) -> None:
    known, truth = map(hops_of, graphs_of_split(family(), "test"))
    count = len(family().relations)
    rows = sampled().ids[type_].tolist()
    assert len(rows) == len(set(map(tuple, rows))) == 30
    for ids in rows:
        before, after = answers(known, type_, ids), answers(truth, type_, ids)
        assert 1 <= len(after - before) <= 6
        if "n" in type_:
            assert 1 <= len(before - after) <= 6
        if type_ in ("2p", "3p", "pi", "pin", "pni"):
            chain = ids[1:] if type_[1] == "p" else ids[1:3]
            assert all(abs(one - other) != count for one, other in pairwise(chain))
        if type_ in ("2i", "ip", "2u", "up"):
            assert ids[:2] != ids[2:4]
        if type_ == "3i":
            assert len({tuple(ids[:2]), tuple(ids[2:4]), tuple(ids[4:])}) == 3
        if type_ == "3in":
            assert ids[:2] != ids[2:4]


def test_a_type_s_queries_depend_on_the_seed_alone_and_more_begin_with_the_same() -> None:
    for type_ in ("1p", "pni"):
        more = sample_queries("family", types=[type_], count=60, seed=5, max_answers=6).ids[type_]
        assert np.array_equal(more[:30], sampled().ids[type_])
        other = sample_queries("family", types=[type_], count=30, seed=6, max_answers=6).ids[type_]
        assert not np.array_equal(other, sampled().ids[type_])


def test_single_hops_are_those_of_the_split_s_facts() -> None:
    with pytest.warns(
        BlockholeWarning, match=r"the data set gives fewer than 10,000 valid queries of some types: \d+ of 1p"
    ):
        queries = sample_from_split(family(), "valid", ["1p"], 10_000)
    facts = family().valid.tolist()
    own = {(s, r) for s, r, _ in facts} | {(t, r + len(family().relations)) for _, r, t in facts}
    known, truth = map(hops_of, graphs_of_split(family(), "valid"))
    hard = {hop for hop in own if truth[hop] - known[hop]}
    assert queries.name == "sampled-valid"
    assert set(map(tuple, queries.ids["1p"].tolist())) == hard


def test_a_grounding_is_as_frequent_as_the_procedure_makes_it() -> None:
    """2p over four entities: every step of the procedure is uniform, so the shares can be written down."""
    graph = make_graph([(0, 0, 1), (1, 0, 2), (1, 1, 2), (3, 1, 2), (3, 1, 1)], 4, 2)
    into: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (source, relation), targets in hops_of(graph).items():
        for target in targets:
            into[target][relation].append(source)
    expected: Counter[tuple[int, ...]] = Counter()
    for answer in range(4):
        for last, middles in into[answer].items():
            for middle in middles:
                allowed = [first for first in into[middle] if abs(first - last) != 2]
                for first in allowed:
                    for source in into[middle][first]:
                        share = 1 / 4 / len(into[answer]) / len(middles) / len(allowed) / len(into[middle][first])
                        expected[source, first, last] += share  # type: ignore[assignment]
    batches = _grounded(graph, "2p", np.random.default_rng(0))
    rows = np.concatenate([next(batches) for _ in range(20)])
    found = Counter(map(tuple, rows.tolist()))
    assert found.keys() == expected.keys()
    whole = sum(expected.values())
    for query, share in expected.items():
        assert found[query] / len(rows) == pytest.approx(share / whole, abs=0.006)


def test_what_cannot_be_sampled_is_one_sentence() -> None:
    with pytest.raises(DataError, match=r"^there is no query type '4p'; the types are 1p, 2p"):
        sample_queries("family", types=["4p"])
    facts = np.array([[0, 0, 1], [1, 0, 2]], dtype=np.int32)
    split = SplitGraph(Vocabulary("abc"), Vocabulary(["r"], "relation"), facts, facts[:0], facts[:1])
    with pytest.raises(
        DataError, match=r"^the data set has no validation facts, so that its valid queries have no hard"
    ):
        sample_from_split(split, "valid")
    with pytest.raises(
        DataError, match=r"^mine has no test queries of the types asked for that have hard answers, at most 100"
    ):
        sample_from_split(split, "test", ["2i"], 3, name="mine")
