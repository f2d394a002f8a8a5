"""Probabilities: those of the engine for one variable, products for several, worked out entity by entity."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from blockhole.answering.engine import Engine
from blockhole.answering.search import PLAUSIBLE
from blockhole.answering.sparql.results import Solutions, Truth
from blockhole.answering.vectors import Vectors
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.language import Anchor, Intersection, Negation, Node, Projection, Query, Union
from tests.answering.toys import SIZES, calibration_by_hand, make_engine, make_model, of_both_directions
from tests.queries.trees import trees

E, R = 7, 3
ENGINES = {chains: make_engine(E=12, R=R, facts=25, seed=4, chains=chains)[0] for chains in (False, True)}


def everyone(seed: int) -> Engine:
    """An engine in whose graph every relation takes every entity, so that all hops are as probable both ways."""
    rng = np.random.default_rng(seed)
    around = [(e, r, (e + r + 1) % E) for e in range(E) for r in range(R)]
    more = [tuple(row) for row in np.column_stack([rng.integers(high, size=12) for high in (E, R, E)]).tolist()]
    graph = KnowledgeGraph(
        Vocabulary([f"e{i}" for i in range(E)]),
        Vocabulary([f"r{i}" for i in range(R)], "relation"),
        np.array(around + more, dtype=np.int32),
    )
    model = make_model("blockhole", E, R, seed)
    vectors = Vectors.of_weights(SIZES["blockhole"], dict(model.state_dict()), R)
    return of_both_directions(Engine(vectors, graph, calibration_by_hand(intercept=2.5)))


def select(engine: Engine, query: str, **options: float) -> Solutions:
    found = engine.sparql(query, **options)  # type: ignore[arg-type]
    assert isinstance(found, Solutions)
    return found


# One variable


def pattern(node: Node, variable: str, fresh: Iterator[int]) -> str:
    """A query of the engine as a graph pattern."""
    match node:
        case Anchor(entity):
            return f"VALUES {variable} {{ :{entity} }}"
        case Projection(Anchor(entity), hop):
            return f":{entity} {'^' * hop.inverse}:{hop.relation} {variable} ."
        case Projection(of, hop):
            middle = f"?v{next(fresh)}"
            return f"{pattern(of, middle, fresh)} {middle} {'^' * hop.inverse}:{hop.relation} {variable} ."
        case Intersection(parts):
            kept = [pattern(part, variable, fresh) for part in parts if not isinstance(part, Negation)]
            dropped = [pattern(part.of, variable, fresh) for part in parts if isinstance(part, Negation)]
            return " ".join([*kept, *(f"MINUS {{ {each} }}" for each in dropped)])
        case Union(parts):
            return " UNION ".join(f"{{ {pattern(part, variable, fresh)} }}" for part in parts)
        case _:
            raise ValueError


@pytest.mark.parametrize("chains", [False, True])
@given(query=trees(12, R))
def test_one_variable_has_the_probability_of_the_engine(chains: bool, query: Query) -> None:
    engine = ENGINES[chains]
    try:
        text = pattern(query.normal, "?x", count())
    except ValueError:  # a side of a union is all but something
        return
    expected = engine.ask(query, top=100)
    found = select(engine, f"SELECT DISTINCT ?x ?probability ?status {{ {text} }}")
    names = [(row.terms[0] or "").removeprefix("<urn:blockhole:").removesuffix(">") for row in found]
    own = {name: (row.probability, row.status) for name, row in zip(names, found, strict=True)}
    assert own == {
        each.entity: (each.score, each.status) for each in expected if each.status == "known" or each.score >= PLAUSIBLE
    }


@pytest.mark.parametrize("chains", [False, True])
def test_an_ask_has_the_probability_of_a_check(chains: bool) -> None:
    engine = ENGINES[chains]
    for number in range(12):
        for path, pattern in (
            ("e1/r0/r1", f":e1 :r0/:r1 :e{number}"),
            ("e1/r0/^r2/r1", f":e1 :r0 ?x . ?x ^:r2/:r1 :e{number}"),
            ("e1/r0 & e2/r1/r0", f":e1 :r0 :e{number} . :e2 :r1/:r0 :e{number}"),
        ):
            truth, verdict = engine.sparql(f"ASK {{ {pattern} }}"), engine.check(path, f"e{number}")
            assert isinstance(truth, Truth)
            assert (truth.holds, truth.probability, truth.status) == (
                verdict.holds,
                verdict.probability,
                verdict.status,
            )


def test_what_is_excluded_names_no_witness() -> None:
    """Beside two variables that are asked for, where the engine's own search has no say."""
    engine = ENGINES[False]
    plain = select(engine, "SELECT ?x ?y ?probability { :e1 :r0 ?x . ?x :r1 ?y }")
    best = {row.terms[:2]: row.probability for row in plain}
    for excluding in ("MINUS { VALUES ?x { :e2 } }", "FILTER NOT EXISTS { VALUES ?x { :e2 } }"):
        found = select(engine, f"SELECT ?x ?y ?probability {{ :e1 :r0 ?x . {excluding} ?x :r1 ?y }}")
        own = {row.terms[:2]: row.probability for row in found}
        assert own == {ends: p for ends, p in best.items() if ends[0] != "<urn:blockhole:e2>"}


def test_a_path_may_be_more_probable_than_any_way_along_it() -> None:
    """As the engine has it: the composed vector counts where the entities between are not asked for."""
    engine = ENGINES[True]
    ends = select(engine, "SELECT ?y ?probability { :e1 :r0/:r1 ?y }")
    ways = select(engine, "SELECT ?x ?y ?probability { :e1 :r0 ?x . ?x :r1 ?y }")
    best: dict[str | None, float] = {}
    for way in ways:
        best[way.terms[1]] = max(best.get(way.terms[1], 0.0), way.probability)
    raised = [row.probability - best[row.terms[0]] for row in ends if row.terms[0] in best]
    assert min(raised) >= 0
    assert max(raised) > 0.01


# Several variables: every combination of entities, in arrays with an axis for each variable


class Dense:
    """The probabilities of edges of a small engine as matrices: [E, E]."""

    def __init__(self, engine: Engine) -> None:
        graph = engine.graph
        self.p = []
        for relation in range(R):
            matrix = engine.hops.values(np.arange(E), engine.hops.columns(relation)).astype(np.float64)
            matrix[matrix < PLAUSIBLE] = 0
            for s, r, o in graph.triples.tolist():
                if r == relation:
                    matrix[s, o] = 1.0
            self.p.append(matrix)

    def edge(self, relation: int, source: str, target: str) -> NDArray[np.float64]:
        """A factor over ?x, ?y, ?z: [E, E, E]."""
        matrix = self.p[relation]
        found = np.zeros((E, E, E))
        for at in np.ndindex(E, E, E):
            found[at] = matrix[self._of(source, at), self._of(target, at)]
        return found

    def _of(self, end: str, at: tuple[int, ...]) -> int:
        return at["xyz".index(end[1])] if end.startswith("?") else int(end.removeprefix(":e"))


ends = st.sampled_from(["?x", "?y", "?z", "?x", "?y", ":e1", ":e4"])
edges = st.tuples(st.integers(0, R - 1), ends, ends)
WORLDS = [(engine, Dense(engine)) for engine in map(everyone, range(3))]


def text_of(triples: list[tuple[int, str, str]]) -> str:
    return " ".join(f"{source} :r{relation} {target} ." for relation, source, target in triples)


def table(found: Solutions, names: str) -> NDArray[np.float64]:
    """Rows as an array with an axis for each of some variables."""
    values = np.zeros((E,) * len(names))
    for row in found:
        at = tuple(
            int((term or "").removeprefix("<urn:blockhole:e").removesuffix(">")) for term in row.terms[: len(names)]
        )
        assert values[at] == 0 or row.status == "known"
        values[at] = row.probability
    return values


@given(
    world=st.sampled_from(WORLDS),
    triples=st.lists(edges, min_size=1, max_size=4),
    names=st.sampled_from(["x", "xy", "xyz"]),
)
def test_joint_answers_are_products_and_the_best_of_what_is_not_asked_for(
    world: tuple[Engine, Dense], triples: list[tuple[int, str, str]], names: str
) -> None:
    """Trees, cycles, loops and products, all of them."""
    engine, dense = world
    text = text_of(triples)
    if any(f"?{name}" not in text for name in names):
        return
    asked = " ".join(f"?{name}" for name in names)
    expected = np.prod([dense.edge(*triple) for triple in dict.fromkeys(triples)], axis=0)  # twice is once
    expected = expected.max(axis=tuple(range(len(names), 3)))
    found = table(select(engine, f"SELECT {asked} ?probability {{ {text} }}"), names)
    np.testing.assert_allclose(found, np.where(expected >= PLAUSIBLE, expected, 0), rtol=1e-4, atol=1e-3)
    clear = (expected > 0.002) | (expected == 0)
    np.testing.assert_allclose(found[clear], expected[clear], rtol=1e-4)


@settings(max_examples=15)
@given(world=st.sampled_from(WORLDS), one=edges, other=edges, third=edges)
def test_parts_of_a_union_add_up_and_what_is_excluded_is_taken_away(
    world: tuple[Engine, Dense], one: tuple[int, str, str], other: tuple[int, str, str], third: tuple[int, str, str]
) -> None:
    engine, dense = world
    first = list(dict.fromkeys([(0, "?x", "?y"), one]))
    second = list(dict.fromkeys([(1, "?x", "?y"), other]))
    parts = [
        np.prod([dense.edge(*each) for each in triples], axis=0).max(axis=2)
        for triples in (dict.fromkeys(first), dict.fromkeys(second))
    ]
    union = f"{{ {text_of(first)} }} UNION {{ {text_of(second)} }}"
    found = table(select(engine, f"SELECT ?x ?y ?probability {{ {union} }}"), "xy")
    np.testing.assert_allclose(found, 1 - (1 - parts[0]) * (1 - parts[1]), atol=5e-3)

    base = dense.edge(0, "?x", "?y")[:, :, 0]
    gone = dense.edge(*third)
    excluded = gone.max(axis=2)  # what is said of ?z, somebody must be
    for clause in ("MINUS", "FILTER NOT EXISTS"):
        if clause == "MINUS" and not {"?x", "?y"} & {third[1], third[2]}:
            continue  # it shares no variable, and excludes nothing
        left = select(engine, f"SELECT ?x ?y ?probability {{ ?x :r0 ?y {clause} {{ {text_of([third])} }} }}")
        np.testing.assert_allclose(table(left, "xy"), base * (1 - excluded), atol=5e-3)
    there = select(engine, f"SELECT ?x ?y ?probability {{ ?x :r0 ?y FILTER EXISTS {{ {text_of([third])} }} }}")
    np.testing.assert_allclose(table(there, "xy"), base * excluded, atol=5e-3)


@settings(max_examples=15)
@given(world=st.sampled_from(WORLDS), triples=st.lists(edges, min_size=1, max_size=4), top=st.integers(1, 30))
def test_the_best_few_are_the_first_of_all(
    world: tuple[Engine, Dense], triples: list[tuple[int, str, str]], top: int
) -> None:
    engine, _ = world
    text = text_of([(0, "?x", "?y"), *triples])
    every = select(engine, f"SELECT ?x ?y ?probability {{ {text} }}")
    assert select(engine, f"SELECT ?x ?y ?probability {{ {text} }} LIMIT {top}") == every[:top]
    ordered = select(engine, f"SELECT ?x ?y ?probability {{ {text} }} ORDER BY DESC(?probability) LIMIT {top}")
    assert [row.probability for row in ordered] == sorted((row.probability for row in every), reverse=True)[:top]
    predicted = [row for row in every if row.status == "predicted"]
    filtered = select(engine, f'SELECT ?x ?y ?probability {{ {text} FILTER(?status = "predicted") }} LIMIT {top}')
    assert list(filtered) == predicted[:top]
    without = f"SELECT ?x ?y ?probability {{ {text} MINUS {{ ?x :r2 ?y }} }}"  # what is known may be improbable then
    every_left = sorted((row.probability for row in select(engine, without)), reverse=True)
    first = select(engine, f"{without} ORDER BY DESC(?probability) LIMIT {top}")
    assert [row.probability for row in first] == every_left[:top]
    best = select(engine, f"SELECT ?x ?y ?probability {{ {text} FILTER(?probability >= 0.3) }}")
    assert list(best) == [row for row in every if row.probability >= 0.3]


# What holds


def test_without_its_name_a_query_gets_what_holds() -> None:
    engine, _ = WORLDS[0]
    every = select(engine, "SELECT ?x ?y ?probability ?status { ?x :r0 ?y }")
    known = [row.terms[:2] for row in every if row.status == "known"]
    likely = [row.terms[:2] for row in every if row.status == "predicted" and row.probability >= 0.5]
    possible = [row.terms[:2] for row in every if row.status == "predicted" and row.probability >= 0.1]
    assert len(known) == 9
    assert 0 < len(likely) < len(possible) < len(every) - len(known)
    plain = "SELECT ?x ?y { ?x :r0 ?y }"
    assert [row.terms for row in select(engine, plain)] == known + likely
    assert [row.terms for row in select(engine, plain, threshold=0.1)] == known + possible
    assert [row.terms for row in select(engine, plain, known=True)] == known
    pragma = "PREFIX answers: <urn:blockhole-answers:"
    assert [row.terms for row in select(engine, f"{pragma}0.1> {plain}")] == known + possible
    assert [row.terms for row in select(engine, f"{pragma}known> {plain}")] == known
    counted = "SELECT (COUNT(*) AS ?n) { ?x :r0 ?y }"
    assert [row.terms[0] for row in select(engine, counted)] == [_number(len(known) + len(likely))]
    assert [row.terms[0] for row in select(engine, counted, threshold=0.1)] == [_number(len(known) + len(possible))]
    for (source, target), holds in [(known[0], True), (likely[0], True), (possible[-1], False)]:
        truth = engine.sparql(f"ASK {{ {source} :r0 {target} }}")
        assert isinstance(truth, Truth)
        assert truth.holds is holds
        verdict = engine.check("{}/r0".format((source or "")[15:-1]), (target or "")[15:-1])
        assert truth.probability == pytest.approx(verdict.probability, rel=1e-5)
        assert truth.status == verdict.status


def _number(value: int) -> str:
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def test_optional_parts_are_known_facts() -> None:
    engine, dense = WORLDS[1]
    found = select(engine, "SELECT ?x ?y ?probability { :e1 :r0 ?x OPTIONAL { ?x :r1 ?y } }")
    for row in found:
        x, y = (int((term or "")[16:-1]) for term in row.terms[:2])
        assert dense.p[1][x, y] == 1.0
        assert row.probability == pytest.approx(dense.p[0][1, x], rel=1e-5)
    assert {row.status for row in found} == {"known", "predicted"}
