"""The most probable missing facts are those that a look at every pair would find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blockhole
from blockhole.answering import predicting
from blockhole.answering.calibration import Curve
from blockhole.answering.engine import Engine
from blockhole.answering.hops import SURE, Columns, Hops, Ids, Table
from blockhole.answering.known import KnownFacts
from blockhole.answering.predicting import predict
from blockhole.answering.reasons import path_reasons
from blockhole.errors import BlockholeWarning, ConfigError, DataError, MalformedFile, RunError, UnknownName
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.vocabulary import Vocabulary
from tests.answering.oracle import Oracle
from tests.answering.toys import calibration_by_hand, make_engine, of_both_directions
from tests.sweep import WHOLE


def every_pair(engine: Engine, candidates: Literal["typed", "all"]) -> dict[tuple[str, str, str], float]:
    """The probability of each missing fact by rows of hops, one relation after the other."""
    engine = engine if engine.calibrated is None else of_both_directions(engine)
    graph, found = engine.graph, {}
    everyone = np.arange(graph.num_entities)
    for relation in range(graph.num_relations):
        inverse = graph.inverse(relation)
        share = engine.hops.shares(everyone, engine.hops.columns(relation))
        ahead, back = engine.hops.log_kind(relation), engine.hops.log_kind(inverse)
        kind = np.minimum(ahead, back[:, None])
        value = share * np.exp(kind) if engine.hops.curve is None else engine.hops.curve.probability(share, kind)
        source, target = engine.known.edges.edges(relation)
        value[source, target] = np.nan
        if not (source == target).any():
            value[everyone, everyone] = np.nan
        if candidates == "typed":
            typed = np.minimum(ahead, back[:, None]) >= np.log(0.01)
            new = np.isin(everyone, engine.known.candidates(inverse), invert=True)[:, None]
            typed &= ~(new & np.isin(everyone, engine.known.candidates(relation), invert=True))
            value[~typed] = np.nan
        for s, o in np.argwhere(np.isfinite(value)).tolist():
            found[graph.entities[s], graph.relations[relation], graph.entities[o]] = float(value[s, o])
    return found


@pytest.mark.parametrize("candidates", ["typed", "all"])
@pytest.mark.parametrize("name", ["blockhole", "hole", "rescal", "transe", "simple"])
def test_the_best_of_all_pairs(name: str, candidates: Literal["typed", "all"], monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(name, facts=80)
    oracle = every_pair(engine, candidates)
    monkeypatch.setattr(predicting, "_AT_ONCE", 64)  # many blocks
    for top in (1, 25, 10_000):
        listed = predict(engine, top=top, candidates=candidates)
        assert len(listed) == min(top, len(oracle))
        best = sorted(oracle.values(), reverse=True)[:top]
        assert [fact.probability for fact in listed] == pytest.approx(best, rel=1e-3)
        own = [oracle[fact.source, fact.relation, fact.target] for fact in listed]
        assert [fact.probability for fact in listed] == pytest.approx(own, rel=1e-3)


def test_the_likeliest_pairs_come_first_however_sure_all_of_them_are() -> None:
    hesitant, _ = make_engine(E=15, facts=30)
    sure = Engine(hesitant.vectors, hesitant.graph, calibration_by_hand(intercept=60.0))
    one, other = (predict(engine, top=40) for engine in (hesitant, sure))
    assert {fact.probability for fact in other} == {SURE}
    pairs = [[(fact.source, fact.relation, fact.target) for fact in each] for each in (one, other)]
    assert pairs[0] == pairs[1]


@pytest.mark.slow
def test_what_cannot_be_among_the_best_is_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    entities = 200 if WHOLE else 100
    engine, _ = make_engine("rescal", E=entities, facts=3 * entities)
    asked: list[int] = []
    products = Hops.products

    def counting(self: Hops, rows: Ids, columns: Columns) -> tuple[Table, Table]:
        asked.append(len(rows))
        return products(self, rows, columns)

    monkeypatch.setattr(predicting, "_AT_ONCE", entities**2 // 20)
    monkeypatch.setattr(Hops, "products", counting)
    whole = predict(engine, top=100_000)
    all_rows = sum(asked)
    asked.clear()
    assert predict(engine, top=3).facts == whole.facts[:3]
    assert sum(asked) < all_rows


def test_pairs_are_scored_in_both_directions() -> None:
    engine, model = make_engine(E=15, facts=60)
    scores, scale = Oracle(engine, model, "all").scores, engine.hops.scale
    rng = np.random.default_rng(0)
    source, target = rng.integers(15, size=40), rng.integers(15, size=40)
    for relation in range(3):
        ahead, behind = predicting.pair_scores(engine, relation, source, target)
        np.testing.assert_allclose(ahead, scale * scores[relation][source, target], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(behind, scale * scores[relation + 3][target, source], rtol=1e-4, atol=1e-6)
        assert not np.allclose(ahead, behind)


def test_probabilities_add_up_to_the_validation_facts_among_the_pairs() -> None:
    """As greatest likelihood has it, however wrong the curve of questions is in level and in slope."""
    engine, _ = make_engine(E=60, R=2, facts=100)  # beyond validation nothing is missing by its calibration
    rng = np.random.default_rng(0)
    odds = rng.normal(-3, 2, 1200)
    pairs = rng.permutation(60 * 60)[:1200]
    found = predicting.Found(odds, pairs // 60, rng.integers(2, size=1200), pairs % 60)
    hit = rng.random(1200) < 1 / (1 + np.exp(-(0.5 * odds - 1)))
    valid = np.column_stack([found.source, found.relation, found.target])[hit].astype(np.int32)
    refitted = predicting._refitted(found, 1 / (1 + np.exp(-odds)), valid, engine)
    assert refitted.sum() == pytest.approx(hit.sum(), rel=1e-3)
    fine = odds > np.median(odds)
    assert refitted[fine].sum() == pytest.approx(hit[fine].sum(), rel=0.15)
    assert refitted[~fine].sum() == pytest.approx(hit[~fine].sum(), rel=0.35)


def test_log_odds_are_shifted_to_a_total() -> None:
    logit = np.random.default_rng(0).normal(-2, 3, 500)
    for total in (1.5, 40.0, 480.0):
        shifted = logit + predicting._shift_to(logit, total)
        assert (1 / (1 + np.exp(-shifted))).sum() == pytest.approx(total, rel=1e-6)


def test_no_relation_is_said_to_be_missing_all_its_pairs() -> None:
    """Where every pair is a validation fact, probabilities stop short of that."""
    engine, _ = make_engine(E=60, R=2, facts=100)
    found = predicting.Found(np.linspace(-3, 3, 100), np.arange(100) % 60, np.zeros(100, np.int64), np.arange(100) // 2)
    valid = np.column_stack([found.source, found.relation, found.target]).astype(np.int32)
    refitted = predicting._refitted(found, 1 / (1 + np.exp(-found.odds)), valid, engine)
    assert refitted.sum() == pytest.approx(95, rel=1e-3)
    assert (np.diff(refitted) >= 0).all()


CURVES = [None, Curve(low=-4.0, low_slope=1.5, slope=1.2, top_slope=0.7, intercept=1.0)]


@pytest.mark.parametrize("curve", CURVES)
def test_log_odds_are_those_of_the_curve_and_can_be_undone(curve: Curve | None) -> None:
    """On both sides of either bend, for objects that a relation takes and for those that are new to it."""
    share = np.linspace(-9, 1, 81)
    for kind in (0.0, -0.5, -3.0):
        kinds = np.full(81, kind, dtype=np.float32)
        odds = predicting.log_odds_of(curve, share, kinds)
        said = predicting.probability_of(curve, odds)
        expected = np.exp(share + kind) if curve is None else curve.probability(np.exp(share).astype(np.float32), kinds)
        np.testing.assert_allclose(said, np.minimum(expected, 0.9999), rtol=1e-4)
        undone = [predicting._log_share_for(curve, each, np.array([kind], dtype=np.float32))[0] for each in odds]
        np.testing.assert_allclose(undone, share, atol=1e-5)


@given(
    parts=st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=8),
    top=st.integers(1, 12),
)
def test_the_best_so_far_are_those_of_a_whole_list(parts: list[list[int]], top: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicting, "_AT_ONCE", 12)
        best, rows, kept = predicting._Best(top), [], 0
        for part in parts:
            odds = [value for value in part if value > best.least]
            numbers = np.arange(kept, kept + len(odds))
            kept += len(odds)
            best.add(predicting.Found(np.array(odds, dtype=float), numbers, numbers % 3, numbers))
            rows += part
            if len(rows) >= top:
                assert best.least <= sorted(rows, reverse=True)[top - 1]
            else:
                assert best.least == -np.inf
        assert best.sorted().odds.tolist() == sorted(rows, reverse=True)[:top]


def test_progress_is_told_after_each_relation_of_each_pass() -> None:
    engine, _ = make_engine(facts=80)
    for candidates, passes in (("typed", 2), ("all", 3)):
        told: list[tuple[int, int]] = []
        predict(engine, top=3, candidates=candidates, progress=lambda done, of, told=told: told.append((done, of)))  # type: ignore[arg-type, misc]
        assert told == [(done, 3 * passes) for done in range(1, 3 * passes + 1)]


def test_one_relation_and_a_least_probability() -> None:
    engine, _ = make_engine(facts=80)
    oracle = {fact: p for fact, p in every_pair(engine, "typed").items() if fact[1] == "r1"}
    listed = predict(engine, relation="r1", min_probability=0.05)
    assert {(fact.source, fact.relation, fact.target) for fact in listed} == {
        fact for fact, p in oracle.items() if p >= 0.05
    }
    assert predict(engine, relation="^r1", top=3).facts == listed.facts[:3]
    assert len(predict(engine, min_probability=1.0)) == 0


def test_without_a_calibration_there_are_shares() -> None:
    engine, _ = make_engine(calibrated=False)
    listed = predict(engine, top=5)
    assert [fact.probability for fact in listed] == [None] * 5
    assert listed.value == "share"
    best = sorted(every_pair(engine, "typed").values(), reverse=True)[:5]
    assert [fact.score for fact in listed] == pytest.approx(np.minimum(best, 0.9999), rel=1e-3)
    with pytest.raises(RunError, match="has no calibration"):
        predict(engine, min_probability=0.5)


def test_what_is_refused() -> None:
    engine, _ = make_engine()
    with pytest.raises(ConfigError, match=r"^min_probability must be a number from 0 to 1, not 1\.5\.$"):
        predict(engine, min_probability=1.5)
    with pytest.raises(UnknownName, match="unknown relation 'r9'"):
        predict(engine, relation="r9")
    with pytest.raises(ConfigError, match="top must be"):
        predict(engine, top=0)


def test_decided_facts_are_not_listed_again(tmp_path: Path) -> None:
    engine, _ = make_engine()
    first = predict(engine, top=6)
    first.write(tmp_path / "list.csv")
    lines = (tmp_path / "list.csv").read_text().splitlines()
    for row, decision in ((1, "accept"), (2, "reject")):
        lines[row] = lines[row].removesuffix('""') + decision
    (tmp_path / "list.csv").write_text("\n".join(lines) + "\n")
    again = predict(engine, top=4, reviewed=[tmp_path / "list.csv"])
    assert again.facts == first.facts[2:]
    with pytest.raises(DataError, match="no such file; name a list"):
        predict(engine, reviewed=[tmp_path / "none.csv"])
    (tmp_path / "facts.tsv").write_text("e1\tr1\te2\n")
    with pytest.raises(MalformedFile, match="there is no column decision"):
        predict(engine, reviewed=[tmp_path / "facts.tsv"])


def test_a_path_that_is_right_is_the_reason() -> None:
    """Of the two ways from f to its grandfather, two hops of father are right always, a friend now and then."""
    people = [f"p{i}" for i in range(12)]
    father = [(i, 0, i + 1) for i in range(11)]
    grandfather = [(i, 1, i + 2) for i in range(1, 10)]
    friends = [(0, 2, 2), (1, 2, 3), (2, 2, 9), (3, 2, 9)]
    names = Vocabulary(["father", "grandfather", "friend"], "relation")
    graph = KnowledgeGraph(Vocabulary(people), names, np.array([*father, *grandfather, *friends], dtype=np.int32))
    found, none = path_reasons(KnownFacts(graph), 1, np.array([0, 11]), np.array([2, 0]))
    assert found is not None
    assert (found.path, found.over, found.right) == ("father/father", "p1", 1.0)
    assert str(found) == "father/father over p1, which is right in 100% of known cases"
    assert none is None
    # A fact is no evidence for a path that supports it.
    (fact,) = path_reasons(KnownFacts(graph), 1, np.array([1]), np.array([3]), facts=True)
    assert fact is not None
    assert (fact.path, fact.right) == ("father/father", 1.0)
    single = KnowledgeGraph(Vocabulary(["a", "b"]), names, np.array([(0, 0, 1), (0, 1, 1)], dtype=np.int32))
    assert path_reasons(KnownFacts(single), 1, np.array([0]), np.array([1]), facts=True) == [None]


def test_a_trained_run_finds_what_was_held_out(clockwork: Path) -> None:
    data = blockhole.Run.open(clockwork).load_data()
    assert data is not None
    held = {
        (data.split.entities[s], data.split.relations[r], data.split.entities[o])
        for s, r, o in np.concatenate([data.split.valid, data.split.test]).tolist()
    }
    listed = predict(clockwork, top=20, known="train")
    right = np.array([(fact.source, fact.relation, fact.target) in held for fact in listed])
    assert right.sum() >= 10
    said = np.array([fact.probability for fact in listed])
    assert 0.4 * right.sum() < said.sum() < 1.1 * right.sum()
    unfitted = predict(Engine.open(clockwork), top=20)  # who only has an engine has no validation facts
    assert blockhole.predict(Engine.open(clockwork), top=20, data=data, known="train").facts == listed.facts
    new = predict(clockwork, top=20)
    assert held.isdisjoint((fact.source, fact.relation, fact.target) for fact in new)
    longer = predict(clockwork, top=100, known="train")
    assert new.facts == tuple(f for f in longer if (f.source, f.relation, f.target) not in held)[:20]
    assert {fact.probability for fact in unfitted} != {fact.probability for fact in listed}


def test_data_that_cannot_be_read_is_said(own_clockwork: Path, tmp_path: Path) -> None:
    config = own_clockwork / "config.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    del settings["seal"]
    config.write_text(json.dumps(settings | {"data": str(tmp_path / "gone")}), encoding="utf-8")
    with pytest.warns(BlockholeWarning, match="since the data of the run cannot be read: there is no data set"):
        assert len(predict(own_clockwork, top=2)) == 2
