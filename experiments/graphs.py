"""Eight small graphs of different shapes, on which the defaults of `train` are tried: each a function of its seed.

Half of them are for choosing what the defaults do, `TUNING`; the others only confirm it, and nothing is ever chosen
on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from blockhole.data.dataset import DataSet
from blockhole.data.edge_split import split_edges
from blockhole.graph.vocabulary import Vocabulary

Facts = NDArray[np.int64]
"""(source, relation, target), shape [T, 3]."""
Draw = np.random.Generator


def dense(draw: Draw) -> Facts:
    """14 entities, 55 relations, some 1,400 facts: each relation is a bilinear form of a few hidden traits.

    A fact holds where the form is among the highest of its relation, as between nations: an eighth of all there could
    be, so that two hops lead from nearly everywhere to nearly everywhere.
    """
    entities, relations, traits = 14, 55, 4
    trait = draw.normal(size=(entities, traits))
    form = draw.normal(size=(relations, traits, traits)) * (draw.random((relations, traits, traits)) < 0.4)
    score = np.einsum("sa,rab,ob->rso", trait, form, trait) + 0.3 * draw.normal(size=(relations, entities, entities))
    score[:, np.arange(entities), np.arange(entities)] = -np.inf
    share = draw.uniform(0.03, 0.27, size=relations)
    facts = []
    for relation in range(relations):
        best = np.argsort(-score[relation], axis=None)[: round(share[relation] * entities * (entities - 1))]
        facts.append(_facts(best // entities, relation, best % entities))
    return np.concatenate(facts)


def sparse(draw: Draw) -> Facts:
    """700 towns, districts, countries and continents with two to three facts each, half of which follow from others.

    locatedIn goes one level up, inCountry and inContinent skip levels, neighbourOf leads to towns of one district.
    """
    sizes = {"continent": 6, "country": 45, "district": 150, "town": 500}
    first = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    up_country = draw.integers(sizes["continent"], size=sizes["country"])
    up_district = draw.integers(sizes["country"], size=sizes["district"])
    up_town = draw.integers(sizes["district"], size=sizes["town"])
    country, district, town = (first[kind] + np.arange(sizes[kind]) for kind in ("country", "district", "town"))
    facts = [
        _facts(country, 0, up_country),
        _facts(district, 0, first["country"] + up_district),
        _facts(town, 0, first["district"] + up_town),
        _facts(town, 1, first["country"] + up_district[up_town]),
        _facts(district, 2, up_country[up_district]),
    ]
    for each in range(sizes["district"]):
        members = town[up_town == each]
        facts.append(_facts(members[:-1], 3, members[1:]))
    known = np.concatenate(facts)
    return known[draw.random(len(known)) < 0.9]


def bipartite(draw: Draw) -> Facts:
    """300 people and 200 things; each likes, owns or dislikes things by the groups that both belong to."""
    people, things, groups = 300, 200, 8
    person = draw.dirichlet(np.full(groups, 0.15), size=people)
    thing = draw.dirichlet(np.full(groups, 0.15), size=things)
    fame = draw.zipf(2.2, size=things).clip(max=8) ** 0.5
    facts = []
    for relation, (taste, mean) in enumerate(
        ((np.eye(groups), 12), (np.roll(np.eye(groups), 1, axis=0), 5), (1 - np.eye(groups), 3))
    ):
        wish = (person @ taste @ thing.T + 0.01) * fame
        for each in range(people):
            count = min(things, 1 + draw.poisson(mean - 1))
            chosen = draw.choice(things, size=count, replace=False, p=wish[each] / wish[each].sum())
            facts.append(_facts(np.full(count, each), relation, people + chosen))
    return np.concatenate(facts)


def hierarchical(draw: Draw) -> Facts:
    """A tree of 600 concepts, three to five levels deep: kindOf its parent, a kindOf its root, parts and opposites.

    What a concept has, hasPart, its children often have too; siblings are opposites in pairs.
    """
    concepts, roots, parts = 600, 8, 60
    parent = np.full(concepts, -1)
    for each in range(roots, concepts):
        # Early concepts have more children, so that the tree stays flat.
        parent[each] = int(each * draw.random() ** 1.6)
    root = np.arange(concepts)
    for each in range(roots, concepts):
        root[each] = root[parent[each]]
    below = np.arange(roots, concepts)
    facts = [_facts(below, 0, parent[below]), _facts(below, 1, root[below])]
    owned: list[set[int]] = []
    for each in range(concepts):
        handed_down = [part for part in (owned[parent[each]] if each >= roots else ()) if draw.random() < 0.75]
        own = draw.integers(parts, size=draw.poisson(2.0 if each < roots else 0.5)).tolist()
        owned.append({*handed_down, *own})
        facts.append(_facts(np.full(len(owned[-1]), each), 2, concepts + np.array(sorted(owned[-1]), dtype=np.int64)))
    for each in range(concepts):
        children = np.flatnonzero(parent == each)
        couples = children[: len(children) // 2 * 2].reshape(-1, 2)
        facts += [_facts(couples[:, 0], 3, couples[:, 1]), _facts(couples[:, 1], 3, couples[:, 0])]
    return np.concatenate(facts)


def one_relation(draw: Draw) -> Facts:
    """400 people of 20 circles who know each other, both ways; everyone is in one circle, some in two."""
    people, circles = 400, 20
    member = np.zeros((people, circles), dtype=bool)
    member[np.arange(people), draw.integers(circles, size=people)] = True
    member[np.arange(people), draw.integers(circles, size=people)] |= draw.random(people) < 0.4
    chance = np.where((member.astype(int) @ member.T) > 0, 0.22, 0.002)
    met = np.triu(draw.random((people, people)) < chance, k=1)
    one, other = np.nonzero(met)
    return np.concatenate([_facts(one, 0, other), _facts(other, 0, one)])


def thousands_of_relations(draw: Draw) -> Facts:
    """500 entities of ten kinds, 2,000 relations with some four facts each: phrasings of 40 relations that are hidden.

    A hidden relation goes from one kind to another, and holds between those whose hidden traits agree.
    """
    entities, kinds, hidden, phrasings = 500, 10, 40, 2000
    kind = draw.integers(kinds, size=entities)
    trait = draw.normal(size=(entities, 6))
    meant = draw.integers(hidden, size=phrasings)
    facts = []
    for each in range(hidden):
        subject, target = (np.flatnonzero(kind == which) for which in draw.choice(kinds, size=2, replace=False))
        turn = np.linalg.qr(draw.normal(size=(6, 6)))[0]
        agreement = trait[subject] @ turn @ trait[target].T
        best = np.argsort(-agreement, axis=None)[:60]
        for phrasing in np.flatnonzero(meant == each).tolist():
            chosen = draw.choice(best, size=1 + draw.poisson(3), replace=False)
            facts.append(_facts(subject[chosen // len(target)], phrasing, target[chosen % len(target)]))
    return np.concatenate(facts)


def noisy(draw: Draw) -> Facts:
    """300 people, teams and offices under a few rules; a quarter of the facts has random ends and follows none."""
    people, teams, offices = 240, 45, 15
    team = draw.integers(teams, size=people)
    office = draw.integers(offices, size=teams)
    lead = np.array([draw.choice(np.flatnonzero(team == each)) if (team == each).any() else 0 for each in range(teams)])
    person, group = np.arange(people), people + np.arange(teams)
    site = people + teams + office
    facts = [_facts(person, 0, group[team]), _facts(group, 1, site), _facts(person, 2, site[team])]
    facts.append(_facts(lead[team], 3, person))
    one, other = np.nonzero((team[:, None] == team) & (draw.random((people, people)) < 0.5))
    facts.append(_facts(one, 4, other))
    true = np.concatenate(facts)
    count = len(true) // 3
    wrong = np.stack([draw.integers(300, size=count), draw.integers(5, size=count), draw.integers(300, size=count)], 1)
    return np.concatenate([true, wrong])


def scale_free(draw: Draw) -> Facts:
    """800 pages that link to pages by their fame, and more within a subject; the relation is that of both subjects."""
    pages, subjects, links = 800, 6, 4
    subject = draw.integers(subjects, size=pages)
    relation = draw.integers(10, size=(subjects, subjects))
    fame = np.ones(pages)
    facts = []
    for each in range(links + 1, pages):
        weight = fame[:each] * np.where(subject[:each] == subject[each], 6.0, 1.0)
        chosen = draw.choice(each, size=links, replace=False, p=weight / weight.sum())
        fame[chosen] += 1
        kinds = relation[subject[each], subject[chosen]]
        facts.append(np.stack([np.full(links, each), kinds, chosen], axis=1))
    return np.concatenate(facts)


GRAPHS: Final[Mapping[str, Callable[[Draw], Facts]]] = {
    "dense": dense,
    "sparse": sparse,
    "bipartite": bipartite,
    "thousands-of-relations": thousands_of_relations,
    "hierarchical": hierarchical,
    "one-relation": one_relation,
    "noisy": noisy,
    "scale-free": scale_free,
}
TUNING: Final = ("dense", "sparse", "bipartite", "thousands-of-relations")
"""The graphs that settings may be chosen on, by their validation facts; the other four confirm the choice."""


def generate(name: str, seed: int = 0) -> DataSet:
    """One of `GRAPHS`, a tenth of its facts each for valid and test; names have no meaning."""
    draw = np.random.default_rng([seed, list(GRAPHS).index(name)])
    facts = np.unique(GRAPHS[name](draw), axis=0)
    facts = facts[facts[:, 0] != facts[:, 2]]
    # Only what occurs has a name, in a random order: no id may tell what an entity is.
    met, ends = np.unique(facts[:, [0, 2]], return_inverse=True)
    meant, relation = np.unique(facts[:, 1], return_inverse=True)
    ends = draw.permutation(len(met))[ends.reshape(-1, 2)]
    named = np.stack([ends[:, 0], draw.permutation(len(meant))[relation], ends[:, 1]], axis=1).astype(np.int32)
    entities = Vocabulary((f"e{i}" for i in range(len(met))), "entity")
    relations = Vocabulary((f"r{i}" for i in range(len(meant))), "relation")
    split = split_edges(entities, relations, named[draw.permutation(len(named))], draw, valid=0.1, test=0.1)
    return DataSet(name, split)


def _facts(source: NDArray[np.integer], relation: int, target: NDArray[np.integer]) -> Facts:
    return np.stack([source, np.full(len(source), relation), target], axis=1).astype(np.int64)
