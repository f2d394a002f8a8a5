"""Answers to queries of every kind: their values against plain loops, and the laws that they keep."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from blockhole.answering import search
from blockhole.answering.engine import Engine
from blockhole.answering.hops import Columns, Hops
from blockhole.answering.search import PLAUSIBLE, Best, Candidates, Deadline, nth_largest
from blockhole.errors import Cancelled, OutOfTime, QueryTooCostly
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.exact import plan_answers
from blockhole.queries.language import Anchor, Hop, Intersection, Node, Projection, Query, Union, parse
from blockhole.queries.tree import negated
from tests.answering.oracle import Oracle, raised
from tests.answering.toys import calibration_by_hand, make_engine, of_both_directions
from tests.queries.trees import join, nodes, trees
from tests.sweep import draws

ENTITIES, RELATIONS = 12, 3


def _engine(name: str = "blockhole", seed: int = 0, **kind: bool) -> Engine:
    return make_engine(name, E=ENTITIES, R=RELATIONS, facts=18, seed=seed, **kind)[0]


def _values(engine: Engine, query: Query | Node | str, candidates: Candidates = "all") -> dict[str, float]:
    """Every answer's probability."""
    if not isinstance(query, Query | str):
        query = Query(query)
    return {answer.entity: answer.score for answer in engine.ask(query, top=ENTITIES, candidates=candidates)}


@settings(max_examples=draws(60))
@given(
    name=st.sampled_from(["blockhole", "rescal", "transe", "hole", "simple"]),
    seed=st.integers(0, 20),
    query=trees(ENTITIES, RELATIONS),
    candidates=st.sampled_from(["typed", "all"]),
    top=st.integers(1, 12),
    calibrated=st.booleans(),
)
def test_answers_are_those_of_plain_loops(
    name: str, seed: int, query: Query, candidates: Candidates, top: int, calibrated: bool
) -> None:
    engine, model = make_engine(name, E=ENTITIES, R=RELATIONS, facts=18, seed=seed, calibrated=calibrated)
    expected = Oracle(engine, model, candidates).value(query.normal)
    known = set(plan_answers(engine.graph, engine.encode(query).plan).tolist())
    answers = engine.ask(query, top=top, candidates=candidates)
    assert answers.known_count == len(known)
    for status in ("known", "predicted"):
        listed = [answer for answer in answers if answer.status == status]
        among = known if status == "known" else {e for e in range(ENTITIES) if expected[e] > 1e-9} - known
        best = sorted((expected[e] for e in among), reverse=True)[:top]
        assert [answer.score for answer in listed][: len(best)] == pytest.approx(best, rel=1e-3, abs=1e-6)
        assert len(best) <= len(listed) <= top
        for answer in listed:
            assert answer.score == pytest.approx(expected[int(answer.entity[1:])], rel=1e-3, abs=1e-6)
            assert answer.probability == (answer.score if calibrated else None)


def test_conditions_are_taken_to_be_independent() -> None:
    """Few trees that are drawn at random join what is plausible: here all do."""
    hesitant, model = make_engine(E=ENTITIES, R=RELATIONS, facts=18)
    engine = Engine(hesitant.vectors, hesitant.graph, calibration_by_hand(intercept=4.0))
    oracle, both = Oracle(engine, model, "all"), 0
    for first, second in itertools.permutations(range(6), 2):
        p, q = (oracle.value(parse(f"e{source}/r{source % 3}").normal) for source in (first, second))
        both += ((abs(p - 0.5) < 0.4) & (abs(q - 0.5) < 0.4)).sum()
        for sign, expected in (("&", p * q), ("|", 1 - (1 - p) * (1 - q)), ("& !", p * (1 - q))):
            found = _values(engine, f"e{first}/r{first % 3} {sign} e{second}/r{second % 3}")
            assert [found.get(f"e{e}", 0.0) for e in range(ENTITIES)] == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert both > 10


@settings(max_examples=draws(30))
@given(seed=st.integers(0, 20), source=st.integers(0, 11), path=st.lists(st.integers(0, 5), min_size=2, max_size=3))
def test_a_composed_vector_raises_the_best_witness(seed: int, source: int, path: list[int]) -> None:
    engine, model = make_engine(E=ENTITIES, R=RELATIONS, facts=18, seed=seed, chains=True)
    assert engine.calibration is not None
    weights = engine.calibration.chains[2]
    hops = [Hop(*engine.graph.relation_name(relation)) for relation in path]
    oracle = Oracle(engine, model, "all")
    value = np.eye(ENTITIES)[source]
    for length in range(1, len(path) + 1):
        start = value if length == 1 else value * oracle.leaving(path[length - 1])
        start = np.where(start >= PLAUSIBLE, start, 0.0)
        value = (start[:, None] * oracle.hop(path[length - 1])).max(axis=0)
        if length > 1:
            shares = engine.composed_shares(source, path[:length])
            given_ = (weights.witness, weights.share, weights.intercept)
            value = np.array([raised(w, float(x), given_) for w, x in zip(value, shares, strict=True)])
    found = _values(engine, Query(f"e{source}", hops))
    for e in range(ENTITIES):
        assert found.get(f"e{e}", 0.0) == pytest.approx(value[e], rel=1e-3, abs=1e-6)


@settings(max_examples=draws(20))
@given(seed=st.integers(0, 20), sources=st.tuples(*[st.integers(0, 11)] * 2), path=st.tuples(*[st.integers(0, 5)] * 3))
def test_each_path_of_alternatives_raises_their_best_witness(
    seed: int, sources: tuple[int, int], path: tuple[int, int, int]
) -> None:
    engine, model = make_engine(E=ENTITIES, R=RELATIONS, facts=18, seed=seed, chains=True)
    assert engine.calibration is not None
    weights = engine.calibration.chains[2]
    given_ = (weights.witness, weights.share, weights.intercept)
    first, second, last = (Hop(*engine.graph.relation_name(relation)) for relation in path)
    sides = [Query(f"e{source}", [hop]).root for source, hop in zip(sources, (first, second), strict=True)]
    root = Projection(Union(tuple(sides)), last)
    witness = Oracle(engine, model, "all").value(root)
    value = witness
    for source, relation in zip(sources, path, strict=False):
        shares = engine.composed_shares(source, [relation, path[2]])
        said = [raised(float(w), float(x), given_) for w, x in zip(witness, shares, strict=True)]
        value = np.maximum(value, said)
    found = _values(engine, root)
    for e in range(ENTITIES):
        assert found.get(f"e{e}", 0.0) == pytest.approx(value[e], rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("facts", [100, 1500])
def test_limits_of_hops_change_no_answer(facts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many facts few objects are left to predict, and each question looks at these alone."""
    monkeypatch.setattr(search, "_FIRST", 1)
    monkeypatch.setattr(search, "_LOOKED", 200)
    monkeypatch.setattr(search, "_SPARE", 300)
    queries = ["e1/r0/r1", "e1/^r2/r0/r1", "(e1/r0 | e2/r1)/r2", "(e3/r0 & e4/^r0)/r1", "(e5/r2 | e6/^r1)/^r2 & !e7/r0"]
    looks = {"look": 0, "at_most": 0}
    for seed in range(4):
        engine, _ = make_engine(E=60, facts=facts, seed=seed, chains=True)
        with monkeypatch.context() as without:
            without.setattr(Hops, "has_limits", False)
            expected = [engine.ask(query, top=top).ranked for query in queries for top in (1, 3, 50)]
        for name in looks:
            own = getattr(engine.hops, name)

            def counted(*given: object, name: str = name, own: Callable[..., object] = own) -> object:
                looks[name] += 1
                return own(*given)

            monkeypatch.setattr(engine.hops, name, counted)
        for _ in range(2):  # when limits are new, and when they are known
            assert [engine.ask(query, top=top).ranked for query in queries for top in (1, 3, 50)] == expected
    assert looks["look"] > 10
    assert (looks["at_most"] > 10) == (facts == 1500)


def _opposite(hop: Hop) -> Hop:
    return Hop(hop.relation, not hop.inverse)


@given(seed=st.integers(0, 20), relation=st.integers(0, 5), data=st.data())
def test_a_hop_between_ends_that_its_relation_takes_is_as_probable_backwards(
    seed: int, relation: int, data: st.DataObject
) -> None:
    engine = of_both_directions(_engine(seed=seed))
    hop, inverse = Hop(*engine.graph.relation_name(relation)), engine.graph.inverse(relation)
    ends = [engine.known.candidates(each).tolist() for each in (inverse, relation)]
    assume(all(ends))
    source, target = (f"e{data.draw(st.sampled_from(each))}" for each in ends)
    there = engine.check(Query(source, [hop]), target).probability
    back = engine.check(Query(target, [_opposite(hop)]), source).probability
    assert there == pytest.approx(back, rel=1e-4)


# The laws


@settings(max_examples=draws(40))
@given(seed=st.integers(0, 5), one=trees(ENTITIES, RELATIONS), other=nodes(ENTITIES, RELATIONS, 2, bounded=False))
def test_a_further_conjunct_never_raises(seed: int, one: Query, other: Node) -> None:
    engine = _engine(seed=seed, chains=True)
    before, after = _values(engine, one), _values(engine, join(Intersection, one.root, other))
    assert all(value <= before.get(entity, 0.0) for entity, value in after.items())


@settings(max_examples=draws(40))
@given(seed=st.integers(0, 5), one=trees(ENTITIES, RELATIONS), other=trees(ENTITIES, RELATIONS))
def test_a_further_disjunct_never_lowers(seed: int, one: Query, other: Query) -> None:
    engine = _engine(seed=seed, chains=True)
    before, after = _values(engine, one), _values(engine, join(Union, one.root, other.root))
    assert all(value <= after.get(entity, 0.0) for entity, value in before.items())


@settings(max_examples=draws(40))
@given(seed=st.integers(0, 5), one=nodes(ENTITIES, RELATIONS, 2), other=nodes(ENTITIES, RELATIONS, 1))
def test_what_a_hop_starts_at_keeps_both_laws(seed: int, one: Node, other: Node) -> None:
    engine, hops = _engine(seed=seed, chains=True), [Hop("r0"), Hop("r1", True)]
    both, own, either = (
        _values(engine, Query(start, hops)) for start in (Intersection((one, other)), one, Union((one, other)))
    )
    for fewer, more in ((both, own), (own, either)):
        assert all(value <= more.get(entity, 0.0) for entity, value in fewer.items())


def test_a_condition_that_names_a_witness_does_not_raise_it() -> None:
    """Who asks for the r1 of e2 says that it may have one; who asks for it if e2 is also the r0 of e1 does not."""
    engine, doubtful = _engine(seed=1), 0
    for source, relation, target in engine.graph.triples.tolist():
        for way in range(2 * RELATIONS):
            hops = [Hop(engine.graph.relations[relation]), Hop(*engine.graph.relation_name(way))]
            start = Projection(Anchor(f"e{source}"), hops[0])
            before = _values(engine, Query(start, hops[1:]))
            after = _values(engine, Query(Intersection((start, Anchor(f"e{target}"))), hops[1:]))
            assert all(value <= before[entity] for entity, value in after.items())
            doubtful += engine.hops.leaving(way)[target] < 1
    assert doubtful > 20


@settings(max_examples=draws(40))
@given(seed=st.integers(0, 5), query=trees(ENTITIES, RELATIONS))
def test_equal_branches_are_one(seed: int, query: Query) -> None:
    engine = _engine(seed=seed, chains=True)
    own, x = engine.ask(query, top=ENTITIES).ranked, query.root
    for same in (join(Intersection, x, x), join(Union, x, x), Query(negated(negated(x)))):
        assert engine.ask(same, top=ENTITIES).ranked == own


@settings(max_examples=draws(40))
@given(seed=st.integers(0, 5), parts=st.lists(trees(ENTITIES, RELATIONS), min_size=2, max_size=3), data=st.data())
def test_order_does_not_matter(seed: int, parts: list[Query], data: st.DataObject) -> None:
    engine = _engine(seed=seed, chains=True)
    roots = [part.root for part in parts]
    shuffled = data.draw(st.permutations(roots))
    for kind in (Intersection, Union):
        answers = [engine.ask(join(kind, *each), top=ENTITIES).ranked for each in (roots, shuffled)]
        assert answers[0] == answers[1]


@settings(max_examples=draws(20))
@given(seed=st.integers(0, 5), query=trees(ENTITIES, RELATIONS), shift=st.integers(1, 11))
def test_renumbered_entities_are_the_same_answers(seed: int, query: Query, shift: int) -> None:
    """The same graph and the same vectors, with other numbers for the same names."""
    from blockhole.answering.vectors import Vectors
    from tests.answering.toys import SIZES

    engine, model = make_engine(E=ENTITIES, R=RELATIONS, facts=18, seed=seed)
    new = (np.arange(ENTITIES) + shift) % ENTITIES
    old = np.argsort(new)
    triples = engine.graph.triples.copy()
    triples[:, 0], triples[:, 2] = new[triples[:, 0]], new[triples[:, 2]]
    graph = KnowledgeGraph(Vocabulary([f"e{i}" for i in old]), engine.graph.relations, triples)
    weights = dict(model.state_dict())
    weights["entity"] = weights["entity"][list(old)]
    vectors = Vectors.of_weights(SIZES["blockhole"], weights, RELATIONS)
    moved = Engine(vectors, graph, engine.calibrated)
    own, other = _values(engine, query), _values(moved, query)
    assert own.keys() == other.keys()
    for entity, value in own.items():
        assert other[entity] == pytest.approx(value, rel=1e-4, abs=1e-9)


def test_ties_go_by_name() -> None:
    engine = _engine()
    engine.vectors.entity[3] = engine.vectors.entity[10]
    engine.vectors.entity[7] = engine.vectors.entity[10]
    alone = Engine(engine.vectors, _without_facts(engine), engine.calibrated)
    ranked = [answer.entity for answer in alone.ask("e1/r0", top=ENTITIES, candidates="all")]
    places = [ranked.index(name) for name in ("e10", "e3", "e7")]
    assert places == list(range(places[0], places[0] + 3))


def _without_facts(engine: Engine) -> KnowledgeGraph:
    return KnowledgeGraph(engine.graph.entities, engine.graph.relations, engine.graph.triples[:0])


def test_a_fact_is_certain_and_a_prediction_never_is() -> None:
    engine = _engine(seed=3)
    for source in range(ENTITIES):
        for answer in engine.ask(f"e{source}/r0", top=ENTITIES, candidates="all"):
            assert (answer.score == 1.0) == (answer.status == "known")


def test_a_known_answer_may_be_refuted_by_what_is_missing() -> None:
    engine = _engine(seed=1)
    source, _, target = engine.graph.triples[0].tolist()
    relation = engine.graph.relations[int(engine.graph.triples[0, 1])]
    other = next(
        f"e{i}" for i in range(ENTITIES) if engine.check(f"e{i}/{relation}", f"e{target}").status == "predicted"
    )
    refuted = engine.check(f"{other}/{relation}", f"e{target}").probability
    answers = engine.ask(f"e{source}/{relation} & !{other}/{relation}", top=ENTITIES)
    own = next(answer for answer in answers if answer.entity == f"e{target}")
    assert own.status == "known"
    assert own.score == pytest.approx(1 - refuted, rel=1e-4)
    assert answers.negation
    assert not any(answer.entity == f"e{target}" for answer in engine.ask(f"e{source}/{relation} & !e{target}", top=50))


def test_known_answers_are_counted_and_paged() -> None:
    engine = _engine(seed=2)
    query = max((f"e{i}/r0/^r0" for i in range(ENTITIES)), key=lambda q: engine.ask(q).known_count)
    every = engine.ask(query, top=ENTITIES)
    known, predicted = ([a for a in every if a.status == status] for status in ("known", "predicted"))
    assert every.known_count == len(known) > 1
    for offset in (0, 1, 2):
        page = engine.ask(query, top=2, offset=offset)
        assert page.known_count == len(known)
        assert [*page] == known[offset : offset + 2] + predicted[offset : offset + 2]


def test_few_rows_are_opened_for_the_best_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one witness leads the others by far, the rest is bounded and stays closed."""
    engine, _ = make_engine(E=400, R=2, facts=900, seed=1)
    opened: list[int] = []
    original = type(engine.hops).values

    def counting(self: Hops, sources: np.ndarray, columns: Columns) -> np.ndarray:
        opened.append(len(sources))
        return original(self, sources, columns)

    monkeypatch.setattr(type(engine.hops), "values", counting)
    few = engine.ask("e1/r0/r1", top=1, only="predicted", candidates="all")
    one = sum(opened)
    opened.clear()
    engine.ask("e1/r0/r1", top=400, only="predicted", candidates="all")
    assert one < sum(opened)
    assert len(few) == 1


def test_a_search_keeps_to_its_deadline_and_to_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _engine()
    with pytest.raises(OutOfTime, match=r"^the search did not end within 0 s; ask for shorter paths or fewer answers"):
        engine.ask("e1/r0/r1", deadline=Deadline(0))
    monkeypatch.setattr("blockhole.answering.search._NUMBERS", 20)
    with pytest.raises(QueryTooCostly, match=r"^the query has too many plausible entities on the way to its answers"):
        engine.ask("e1/r0/r1/r2", candidates="all")
    assert engine.ask("e1/r0/r1/r2", only="known") is not None


def test_a_deadline_goes_by_the_clock_and_counts_how_often_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(search, "monotonic", lambda: now)
    deadline = Deadline(5)
    for now in (100.0, 105.0):
        deadline.check()
        assert deadline.left == 105.0 - now
    assert deadline.looks == 2
    now = 105.1
    with pytest.raises(OutOfTime):
        deadline.check()
    deadline.cancel()
    with pytest.raises(Cancelled):
        deadline.check()


def test_what_is_looked_at_counts_an_eighth_of_what_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that may hold so many numbers ends, and one that may hold one fewer does not."""
    monkeypatch.setattr(search, "_FIRST", 1)
    numbers = {"open": 0, "look": 0}

    def ask() -> object:
        numbers.update(open=0, look=0)
        return make_engine(E=60, facts=100)[0].ask("e1/^r2/r0/r1", top=3)  # limits that are known are not looked for

    for name, share in (("open", 1), ("look", 8)):
        own = getattr(search._Follows, name)

        def counted(*given: object, name: str = name, share: int = share, own: Callable[..., int] = own) -> int:
            found = own(*given)
            numbers[name] += found // share
            return found

        monkeypatch.setattr(search._Follows, name, counted)
    answers = ask()
    assert all(numbers.values())
    total = sum(numbers.values())
    monkeypatch.setattr(search, "_NUMBERS", total)
    assert ask() == answers
    monkeypatch.setattr(search, "_NUMBERS", total - 1)
    with pytest.raises(QueryTooCostly):
        ask()


@pytest.mark.parametrize(
    ("query", "reached"),
    [
        ("e1/r0 & e2", [2]),  # and one more, for a product of two vectors rounds otherwise
        ("e1/r0 & (e2 | e3 | e4)", [3]),
        ("(e1/r0 | e2/r1) & (e3 | e4 | e5)", [3, 3]),
        ("e1/r0 | e2/r1", [60, 60]),
        ("(e1/r0 & (e2 | e3))/r1", [60, 60]),
    ],
)
def test_the_last_hops_lead_where_every_condition_holds(
    query: str, reached: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = make_engine(E=60, facts=60)
    widths: list[int] = []
    opened = search._Follows.open

    def noted(follows: search._Follows, entities: np.ndarray) -> int:
        widths.append(follows.width)
        return opened(follows, entities)

    monkeypatch.setattr(search._Follows, "open", noted)
    engine.ask(query, top=60, candidates="all")
    assert sorted(set(widths)) == sorted(set(reached))
    assert len(widths) >= len(reached)


@pytest.mark.parametrize("counts", [PLAUSIBLE, float(np.nextafter(PLAUSIBLE, 0))])
def test_a_witness_of_just_the_least_probability_is_one(counts: float) -> None:
    """By a fact from it, and by a row of its hops."""
    engine = _engine()
    best = Best(np.full(ENTITIES, counts), (np.array([1]), np.array([4])))
    best.add(np.array([1]), engine.hops.columns(0, np.array([5, 6])), np.array([[0.5, 0.25]], dtype=np.float32))
    expected = np.zeros(ENTITIES)
    expected[[4, 5, 6]] = np.array([1.0, 0.5, 0.25]) * counts * (counts == PLAUSIBLE)
    assert best.value == pytest.approx(expected)


def test_an_anchor_may_be_excluded_and_a_name_may_be_an_answer() -> None:
    engine = _engine()
    all_of_them = _values(engine, "e1/r0")
    without = _values(engine, "e1/r0 & !e2")
    assert without == {entity: value for entity, value in all_of_them.items() if entity != "e2"}
    joined = parse("e1/r0 & e2")
    assert set(_values(engine, joined)) <= {"e2"}
    assert isinstance(joined.root, Intersection)
    assert isinstance(joined.root.parts[1], Anchor)
    assert isinstance(joined.root.parts[0], Projection)


@given(
    values=st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.1, 0.25, 0.5, 1.0]) | st.floats(0, 1), max_size=60),
    n=st.integers(1, 12),
)
def test_a_place_among_values_is_that_of_their_order(values: list[float], n: int) -> None:
    ordered = sorted(values, reverse=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockhole.answering.search._GROUP", 4)
        assert nth_largest(np.array(values), n) == (ordered[n - 1] if n <= len(ordered) else 0.0)
