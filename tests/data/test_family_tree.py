"""Synthetic family trees: consistent, reproducible, and learnable from train alone."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.data.family_tree import RELATIONS, generate_family
from blockhole.errors import DataError
from blockhole.graph.knowledge_graph import SplitGraph
from tests.sweep import draws

Pairs = set[tuple[str, str]]
trees = st.builds(generate_family, people=st.integers(7, 300), seed=st.integers(0, 2**32))


def pairs_by_relation(split: SplitGraph) -> dict[str, Pairs]:
    pairs: dict[str, Pairs] = {relation: set() for relation in RELATIONS}
    for source, relation, target in split.graph("train", "valid", "test").triples.tolist():
        pairs[split.relations[relation]].add((split.entities[source], split.entities[target]))
    return pairs


def parents_of(pairs: dict[str, Pairs]) -> dict[str, set[str]]:
    parents: dict[str, set[str]] = defaultdict(set)
    for parent, child in pairs["fatherOf"] | pairs["motherOf"]:
        parents[child].add(parent)
    return parents


@settings(deadline=None, max_examples=draws(60))
@given(trees)
def test_each_child_has_one_father_and_one_mother_who_are_married(split: SplitGraph) -> None:
    pairs = pairs_by_relation(split)
    fathers, mothers = ({child: parent for parent, child in pairs[r]} for r in ("fatherOf", "motherOf"))
    assert len(fathers) == len(pairs["fatherOf"])
    assert len(mothers) == len(pairs["motherOf"])
    assert fathers.keys() == mothers.keys()
    assert {(fathers[child], mothers[child]) for child in fathers} <= pairs["spouseOf"]


@settings(deadline=None, max_examples=draws(60))
@given(trees)
def test_men_are_fathers_and_brothers_and_women_mothers_and_sisters(split: SplitGraph) -> None:
    pairs = pairs_by_relation(split)
    men = {source for source, _ in pairs["fatherOf"] | pairs["brotherOf"]}
    women = {source for source, _ in pairs["motherOf"] | pairs["sisterOf"]}
    assert not men & women


@settings(deadline=None, max_examples=draws(40))
@given(trees)
def test_siblings_are_those_who_share_a_parent(split: SplitGraph) -> None:
    pairs = pairs_by_relation(split)
    parents = parents_of(pairs)
    share = {(one, other) for one, other in permutations(parents, 2) if parents[one] & parents[other]}
    assert pairs["brotherOf"] | pairs["sisterOf"] == share
    assert not pairs["spouseOf"] & share


@settings(deadline=None, max_examples=draws(60))
@given(trees)
def test_marriages_hold_both_ways(split: SplitGraph) -> None:
    spouses = pairs_by_relation(split)["spouseOf"]
    assert spouses == {(other, one) for one, other in spouses}
    assert all(one != other for one, other in spouses)


@settings(deadline=None, max_examples=draws(60))
@given(trees)
def test_parents_come_before_children_so_nobody_is_their_own_ancestor(split: SplitGraph) -> None:
    pairs = pairs_by_relation(split)
    generation: dict[str, int] = defaultdict(int)
    for parent, child in sorted(pairs["fatherOf"] | pairs["motherOf"], key=lambda pair: split.entities.id(pair[1])):
        generation[child] = max(generation[child], generation[parent] + 1)
        assert split.entities.id(parent) < split.entities.id(child)
    assert max(generation.values()) >= 2


@settings(deadline=None, max_examples=draws(60))
@given(st.integers(7, 300), st.integers(0, 2**32))
def test_everybody_is_born_in_one_place_of_one_country(people: int, seed: int) -> None:
    split = generate_family(people, seed)
    pairs = pairs_by_relation(split)
    assert sorted(person for person, _ in pairs["bornIn"]) == sorted(split.entities.names[:people])
    places = [place for place, _ in pairs["locatedIn"]]
    assert len(places) == len(set(places))
    assert {place for _, place in pairs["bornIn"]} <= set(places)


@settings(deadline=None, max_examples=draws(60))
@given(trees)
def test_train_knows_every_entity_and_no_fact_is_repeated(split: SplitGraph) -> None:
    assert set(split.train[:, [0, 2]].ravel().tolist()) == set(range(len(split.entities)))
    held_out = np.concatenate([split.valid, split.test])
    assert set(held_out[:, 1].tolist()) <= set(split.train[:, 1].tolist())
    facts = split.graph("train", "valid", "test").triples
    assert len(np.unique(facts, axis=0)) == len(facts)


@settings(deadline=None, max_examples=draws(30))
@given(st.integers(7, 300), st.integers(0, 2**32))
def test_one_seed_gives_one_tree(people: int, seed: int) -> None:
    once, again = generate_family(people, seed), generate_family(people, seed)
    assert once.entities == again.entities
    assert all(np.array_equal(getattr(once, part), getattr(again, part)) for part in ("train", "valid", "test"))


def test_seeds_give_different_trees() -> None:
    one, other = (generate_family(50, seed).graph("train", "valid", "test") for seed in (0, 1))
    assert one != other


def test_a_large_tree_has_the_shares_and_the_shape_it_should() -> None:
    people = 20_000
    split = generate_family(people, 3, valid=0.05, test=0.1)
    total = len(split.train) + len(split.valid) + len(split.test)
    assert len(split.valid) == round(0.05 * total)
    assert len(split.test) == round(0.1 * total)
    assert len(set(split.entities)) == len(split.entities)
    pairs = pairs_by_relation(split)
    assert 0.7 * people < len(pairs["fatherOf"]) < 0.9 * people
    assert 0.5 * people < len(pairs["spouseOf"]) < people
    half_siblings = [
        (one, other)
        for parents in [parents_of(pairs)]
        for one, other in pairs["brotherOf"]
        if len(parents[one] & parents[other]) == 1
    ]
    assert half_siblings


def test_nothing_is_held_out_when_the_shares_are_zero() -> None:
    split = generate_family(30, 0, valid=0.0, test=0.0)
    assert (len(split.valid), len(split.test)) == (0, 0)


@pytest.mark.parametrize("people", [-1, 0, 6, 100_000_001])
def test_impossible_sizes_are_refused(people: int) -> None:
    text = f"a family tree of {people:,} people cannot be made; ask for 7 to 100,000,000."
    with pytest.raises(DataError, match=re.escape(text)):
        generate_family(people, 0)


def test_negative_seeds_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"^the seed of a family tree cannot be -1; give a whole number of at least 0\.$"
    ):
        generate_family(10, -1)


@pytest.mark.parametrize(("valid", "test"), [(-0.1, 0.1), (0.5, 0.5), (1.0, 0.0), (0.0, float("nan"))])
def test_impossible_shares_are_refused(valid: float, test: float) -> None:
    text = f"shares of {valid:g} for valid and {test:g} for test cannot be taken; "
    with pytest.raises(DataError, match=re.escape(text)):
        generate_family(10, 0, valid=valid, test=test)
