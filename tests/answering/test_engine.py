"""The doors of the engine: one question and many, verdicts, frames, and what is refused."""

from __future__ import annotations

import gc
import inspect
import itertools
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyparsing import ParserElement

from blockhole.answering.answers import Status
from blockhole.answering.engine import Engine, Question, Verdict, ask, check, in_order, sparql
from blockhole.answering.search import UNLIMITED, Candidates
from blockhole.data.dataset import load
from blockhole.errors import (
    BlockholeWarning,
    ConfigError,
    QueryError,
    QuerySyntaxError,
    RunError,
    UndefinedPath,
    UnknownName,
)
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.scorer import spell
from blockhole.evaluation.truth import truth_of
from blockhole.files.rdf import node_terms, relation_terms
from blockhole.graph.vocabulary import Vocabulary
from blockhole.queries.language import encode_chain, parse
from blockhole.queries.paths import PathQueries
from blockhole.queries.plans import Plan
from blockhole.queries.walks import sample_walks
from blockhole.runs.run import Run
from tests.answering.toys import calibration_by_hand, make_engine


def test_what_is_known_is_certain_unless_a_negation_may_refute_it() -> None:
    """Known answers to x & !y have the probabilities that a verdict on each gives them; those to x are sure."""
    engine, _ = make_engine(facts=90)
    doubted = 0
    for source, other in itertools.permutations(range(6), 2):
        for answer in engine.ask(f"e{source}/r0", only="known", top=99):
            assert answer.probability == 1.0
        for query in (f"e{source}/r0 & !e{other}/r1", f"e{source}/r0/r2 & !e{other}/^r1/r0"):
            for answer in engine.ask(query, only="known", top=99, candidates="all"):
                assert answer.probability == pytest.approx(engine.check(query, answer.entity).probability)
                doubted += answer.probability is not None and 0 < answer.probability < 1
    assert doubted


def _spell(engine: Engine, source: int, path: list[int]) -> str:
    hops = [engine.graph.relation_name(relation) for relation in path]
    return "/".join([f"e{source}", *(f"{'^' * inverse}{name}" for name, inverse in hops)])


def test_many_queries_are_answered_like_each_alone() -> None:
    engine, _ = make_engine(E=50, facts=120)
    queries = [_spell(engine, s, list(path)) for s in (3, 4) for path in itertools.product(range(6), repeat=2)]
    queries += [_spell(engine, 5, [1]), _spell(engine, 6, [2, 3, 4])]
    for only in (None, "known", "predicted"):
        alone = [engine.ask(query, top=7, only=only) for query in queries]
        assert engine.ask_many(queries, top=7, only=only) == alone


@pytest.mark.parametrize("text", ["e1/r0/^r1", "e1/r0 & !e2/r1", "e1/r0/r9", "e99/r0", "e1/r0 & e2/r9"])
def test_known_names_are_encoded_without_delay_and_others_not_at_all(text: str) -> None:
    engine, _ = make_engine()
    found = engine.encode_known(parse(text))
    if "9" in text:
        assert found is None
        with pytest.raises(UnknownName):
            engine.encode(text)
    else:
        assert found is not None
        assert found == engine.encode(text)
        assert engine.ask(found) == engine.ask(text)


questions = st.tuples(
    st.integers(0, 199),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.integers(1, 250),
    st.sampled_from(["typed", "all"]),
    st.sampled_from([None, "known", "predicted"]),
)


@pytest.mark.parametrize("name", ["blockhole", "hole", "transe"])
@settings(max_examples=5)
@given(asked=st.lists(questions, min_size=1, max_size=8), cut=st.integers(0, 8), seed=st.integers(0, 2**31))
def test_an_answer_is_the_same_whatever_is_asked_with_it(
    name: str, asked: list[tuple[int, list[int], int, Candidates, Status | None]], cut: int, seed: int
) -> None:
    """Entities, probabilities and order, to the last bit, however the questions are split and ordered."""
    engine, _ = make_engine(name, E=200, facts=40, chains=True)
    posed = [
        Question(_spell(engine, source, path), top, candidates, only) for source, path, top, candidates, only in asked
    ]
    whole = engine.ask_together(posed)
    assert engine.ask_together(posed[:cut]) + engine.ask_together(posed[cut:]) == whole
    order = np.random.default_rng(seed).permutation(len(posed))
    fresh, _ = make_engine(name, E=200, facts=40, chains=True)
    assert fresh.ask_together([posed[i] for i in order]) == [whole[i] for i in order]


def test_no_queries_have_no_answers() -> None:
    assert make_engine()[0].ask_many([]) == []


def test_a_verdict_is_that_of_the_answer() -> None:
    engine, _ = make_engine(chains=True)
    query = next(q for q in (f"e{i}/r0/^r1" for i in range(30)) if engine.ask(q, only="known"))
    for answer in engine.ask(query, top=30, candidates="all"):
        verdict = engine.check(query, answer.entity)
        assert verdict == Verdict(answer.status == "known" or answer.score >= 0.5, answer.score, answer.status)


def test_composed_vectors_rank_as_evaluation_does(clockwork: Path) -> None:
    """`ask` orders by probability; what evaluation ranks by are the composed scores alone."""
    run = Run.open(clockwork)
    data = load(str(run.config.data))
    truth = truth_of(data.split.graph("train", "valid", "test"))
    walks = sample_walks(truth.graph, 100, lengths=(1, 4), seed=1)
    queries = PathQueries.concatenate([PathQueries.from_triples(data.split.test), walks])
    ranks = rank(run.model, queries, truth, candidates="all")
    engine = Engine.open(run, graph=truth.graph)
    for i in range(len(queries)):
        scores = engine.composed_scores(parse(spell(truth.graph, queries, i).split(" → ")[0]))
        others = np.ones(len(scores), dtype=bool)
        others[engine.known.answers(int(queries.source[i]), queries.path[i, : queries.length[i]].tolist())] = False
        target = scores[queries.target[i]]
        better = (scores[others] > target + 1e-9).sum()
        tied = (np.abs(scores[others] - target) <= 1e-9).sum()
        assert (better, tied) == (ranks.better[i], ranks.tied[i])


def test_frames_hold_the_answers_in_order() -> None:
    answers = make_engine()[0].ask("e1/r0", top=4, only="predicted")
    frame = answers.to_polars()
    assert frame.columns == ["query", "rank", "entity", "score", "probability", "status"]
    assert frame["entity"].to_list() == [answer.entity for answer in answers]
    assert frame["rank"].to_list() == [1, 2, 3, 4]
    pandas = answers.to_pandas()
    assert pandas["probability"].tolist() == frame["probability"].to_list()
    assert [len(answers), len(answers[1:3]), answers[0].entity] == [4, 2, frame["entity"][0]]


def test_without_calibration_there_are_shares_but_no_probabilities() -> None:
    engine, _ = make_engine(calibrated=False)
    answers = engine.ask("e1/r0", top=3, only="predicted")
    assert [answer.probability for answer in answers] == [None] * 3
    assert answers.to_pandas()["probability"].isna().all()
    assert sorted((answer.score for answer in answers), reverse=True) == [answer.score for answer in answers]
    with pytest.raises(RunError, match=r"^the run has no calibration, so shares cannot become probabilities; make it"):
        engine.check("e1/r0", answers[0].entity)
    fact = engine.ask("e1/r0", only="known")[0].entity
    assert engine.check("e1/r0", fact) == Verdict(True, 1.0, "known")
    with pytest.raises(RunError, match=r"^the run has no calibration"):  # a fact may be missing that excludes it
        engine.check(f"e1/r0 & !{fact}/r0", fact)


def test_a_run_without_calibration_says_how_to_make_it(own_clockwork: Path) -> None:
    (own_clockwork / "calibration.json").unlink()
    said = f"{own_clockwork} has no calibration for its weights, which turns scores into probabilities; make it with "
    said += f"`blockhole calibrate {own_clockwork}`"
    with pytest.warns(BlockholeWarning, match=re.escape(f"{said}, or answers will have no probabilities.")):
        Engine.open(own_clockwork)
    with pytest.raises(RunError, match=re.escape(f"{said}.")):
        Engine.open(own_clockwork, calibrated=True)


@pytest.mark.parametrize("damaged", ["calibration.json", "index.json"])
def test_a_warning_points_at_the_line_that_opens_the_run(damaged: str, own_clockwork: Path) -> None:
    (own_clockwork / damaged).write_text("{}")
    with pytest.warns(BlockholeWarning) as warned:
        Engine.open(own_clockwork)
    assert [each.filename for each in warned] == [__file__]


def test_every_door_has_the_same_defaults() -> None:
    asking = {"top": 10, "candidates": "typed", "only": None, "offset": 0, "deadline": UNLIMITED, "device": "cpu"}
    opening = {"graph": None, "calibrated": False, "in_memory": False}
    for doors, shared in (
        ((ask, Engine.ask, Engine.ask_many, Question), asking),
        ((Engine.open, Engine.opened), opening),
    ):
        taken = [each for door in doors for each in inspect.signature(door).parameters.values()]
        given_ = {(each.name, each.default) for each in taken if each.default is not each.empty}
        assert given_ == set(shared.items())


def test_an_engine_shows_itself_in_a_notebook() -> None:
    sizes = (
        "<tr><th>entities</th><td>1,200</td></tr><tr><th>relations</th><td>3</td></tr><tr><th>facts</th><td>1</td></tr>"
    )
    for calibrated, said in (
        (False, "none: answers have shares, no probabilities"),
        (True, "fitted on 1 validation fact, Brier score 0.000"),
    ):
        engine, _ = make_engine(E=1200, facts=1, calibrated=calibrated)
        assert repr(engine) == "Engine(1,200 entities, 1 fact)"
        assert engine._repr_html_() == (
            f"<table><caption>Engine</caption>{sizes}<tr><th>probabilities</th><td>{said}</td></tr></table>"
        )


def test_models_without_composed_vectors_answer_by_witnesses() -> None:
    engine, _ = make_engine("simple")
    assert len(engine.ask("e1/r0/r1", top=3, candidates="all", only="predicted")) == 3
    with pytest.raises(UndefinedPath, match="SimplE scores single relations"):
        engine.query_vector("e1/r0/r1")


@pytest.mark.parametrize("top", [0, -3])
def test_a_number_of_answers_that_is_none(top: int) -> None:
    with pytest.raises(ConfigError, match=f"^top must be a whole number of at least 1, not {top}.$"):
        make_engine()[0].ask("e1/r0", top=top)


def test_bad_queries_are_explained() -> None:
    engine, _ = make_engine()
    with pytest.raises(QueryError, match=r"^the query has 10,000 hops; a query may have 64 at most.$"):
        engine.ask("e1" + "/r0" * 10_000)
    with pytest.raises(QuerySyntaxError, match="the query is empty: write source/relation"):
        engine.ask("")
    with pytest.raises(QueryError, match=r"^e1/r0 & !e2/r1 is not a path from one entity: it has &, \| or !.$"):
        engine.query_vector("e1/r0 and not e2/r1")
    with pytest.raises(UnknownName, match="unknown relation 'r7'"):
        engine.ask("e1/r7")
    with pytest.raises(UnknownName, match="unknown entity 'e99'"):
        engine.check("e1/r0", "e99")


def test_scores_that_are_not_finite_are_refused() -> None:
    engine, _ = make_engine()
    engine.vectors.entity[1] = np.nan
    with pytest.raises(RunError, match="are not finite: the run has diverged"):
        engine.ask("e1/r0")


def test_a_trained_run_answers_what_it_has_learned(clockwork: Path) -> None:
    engine = Engine.open(clockwork)
    answers = ask(engine, '"number 3"/next/next', top=5)
    assert (answers[0].entity, answers[0].status) == ("number 5", "known")
    assert {answer.status for answer in answers[1:]} == {"predicted"}
    assert ask(clockwork, '"number 3"/next/next', top=5) == answers


class _Proposing:
    """An index that proposes what it is told to, and has room left over, which libraries fill with -1."""

    def __init__(self, found: list[list[int]]) -> None:
        self.found = found
        self.allowed: np.ndarray | None = None

    def shortlists(self, vectors: np.ndarray, count: int, allowed: np.ndarray | None) -> np.ndarray:
        self.allowed = allowed
        return np.array(self.found)


def test_an_index_proposes_where_there_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=30, facts=60)
    index = _Proposing([[7, 3, -1], [3, 0, -1]])
    monkeypatch.setattr(engine, "approximate", index)
    monkeypatch.setattr("blockhole.answering.engine.MANY", 30)
    sources, columns = np.array([1, 2]), np.arange(30)
    assert engine.proposed(sources, 0, None) is None
    assert engine.proposed(sources, 0, columns) is columns
    monkeypatch.setattr("blockhole.answering.engine.MANY", 29)
    for each in (None, columns):
        proposed = engine.proposed(sources, 0, each)
        assert proposed is not None
        assert proposed.tolist() == [0, 3, 7]
        assert (index.allowed is None) == (each is None)
    everyone = {answer.entity for answer in engine.ask("e1/r0", only="predicted", candidates="all", top=30)}
    assert everyone == {"e0", "e3", "e7"} - {answer.entity for answer in engine.ask("e1/r0", only="known", top=30)}


@given(
    values=st.lists(st.sampled_from([0.1, 0.25, 0.5, 1.0]), max_size=12),
    offset=st.integers(0, 5),
    top=st.integers(1, 5),
)
def test_a_part_of_a_list_is_that_of_the_whole(values: list[float], offset: int, top: int) -> None:
    engine, _ = make_engine(E=30, facts=0)
    entities = np.arange(len(values))[::-1] + 5
    whole = sorted(zip(entities.tolist(), values, strict=True), key=lambda pair: (-pair[1], f"e{pair[0]}"))
    part = slice(offset, offset + top)
    assert in_order(entities, np.array(values), part, engine.graph.entities) == whole[part]


def test_thousands_of_ties_go_by_name() -> None:
    names = [f"ä{i * 7919 % 2000:04d}" if i % 3 else f"Z{i}" for i in range(2000)]
    values = np.where(np.arange(2000) % 5 == 0, 0.25, 0.75)
    values[17] = 0.9
    expected = sorted(zip(range(2000), values.tolist(), strict=True), key=lambda pair: (-pair[1], names[pair[0]]))
    for part in (slice(0, 10), slice(100, 120), slice(1590, 1620)):
        assert in_order(np.arange(2000), values, part, Vocabulary(names)) == expected[part]
    alike = in_order(np.arange(2000), np.ones(2000), slice(0, 3), Vocabulary(names))
    assert [names[entity] for entity, _ in alike] == sorted(names)[:3]


def test_a_damaged_calibration_is_said_and_answers_have_shares(clockwork: Path, tmp_path: Path) -> None:
    run = shutil.copytree(clockwork, tmp_path / "run")
    (run / "calibration.json").write_text("{}")
    with pytest.warns(
        BlockholeWarning, match=r"calibration\.json .*calibrate .*, or answers will have no probabilities"
    ):
        engine = Engine.open(run)
    assert [answer.probability for answer in engine.ask('"number 3"/next', top=1)] == [None, None]
    with pytest.raises(RunError, match=r"calibration\.json .*blockhole calibrate"):
        Engine.open(run, calibrated=True)
    with pytest.raises(RunError, match=r"calibration\.json .*blockhole calibrate"):
        check(run, '"number 3"/next', "number 5")
    assert check(run, '"number 3"/next', "number 4") == Verdict(True, 1.0, "known")


@pytest.mark.parametrize(
    ("files", "remedy"),
    [
        (["train.tsv"], "blockhole data split"),
        (["train.tsv", "test.tsv"], "blockhole data split"),
        (["train.tsv", "valid.tsv"], "blockhole calibrate"),
        (["other.tsv"], "blockhole calibrate"),
        ([], "blockhole calibrate"),
    ],
)
def test_who_has_no_validation_facts_is_told_to_set_some_aside(
    clockwork: Path, tmp_path: Path, files: list[str], remedy: str
) -> None:
    data = tmp_path / "data"
    for name in files:
        data.mkdir(exist_ok=True)
        (data / name).write_text("a\tr\tb\n" * 12, encoding="utf-8")
    run = shutil.copytree(clockwork, tmp_path / "run")
    (run / "calibration.json").unlink()
    opened = Run.open(run)
    opened.config = opened.config.model_copy(update={"data": str(data)})
    assert remedy in Engine.opened(opened).lacking
    if files:
        opened.config = opened.config.model_copy(update={"data": str(data / files[0])})
        assert "blockhole data split" in Engine.opened(opened).lacking


@pytest.mark.parametrize("wrong", [0.0, -0.5, 1.001])
def test_a_least_probability_is_above_0_and_at_most_1(wrong: float) -> None:
    engine, _ = make_engine()
    with pytest.raises(ConfigError, match=rf"^threshold must be a probability above 0, at most 1, not {wrong:g}\.$"):
        sparql(engine, "ASK { ?s ?p ?o }", threshold=wrong)
    assert sparql(engine, "SELECT ?o { <e1> <r0> ?o }", threshold=1.0) is not None


def test_arguments_of_every_door_are_looked_at() -> None:
    engine, _ = make_engine()
    for call, named in (
        (lambda: ask(engine, None), "query"),  # type: ignore[arg-type]
        (lambda: engine.ask("e1/r0", top="3"), "top"),  # type: ignore[arg-type]
        (lambda: engine.ask("e1/r0", offset=-1), "offset"),
        (lambda: engine.ask_many(["e1/r0"], only="some"), "only"),  # type: ignore[arg-type]
        (lambda: engine.check("e1/r0", 3), "entity"),  # type: ignore[arg-type]
        (lambda: engine.sparql(3), "query"),  # type: ignore[arg-type]
        (lambda: engine.composed_scores(3), "query"),  # type: ignore[arg-type]
        (lambda: engine.query_vector(None), "query"),  # type: ignore[arg-type]
        (lambda: engine.encode(3), "query"),  # type: ignore[arg-type]
        (lambda: Engine.open(3), "run"),  # type: ignore[arg-type]
        (lambda: Engine(3, engine.graph), "vectors"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match=rf"^{named}\b"):
            call()


def test_a_verdict_holds_for_what_is_known_and_for_what_is_as_likely_as_not() -> None:
    hesitant, _ = make_engine(E=12, facts=18)
    engine, seen = Engine(hesitant.vectors, hesitant.graph, calibration_by_hand(intercept=3.0)), set()
    for source, relation in itertools.product(range(12), range(3)):
        for entity in range(12):
            verdict = engine.check(f"e{source}/r{relation}", f"e{entity}")
            assert verdict.holds == (verdict.status == "known" or verdict.probability >= 0.5)
            seen.add((verdict.status, verdict.holds))
    assert seen == {("known", True), ("predicted", True), ("predicted", False)}


def test_composed_vectors_count_for_paths_of_several_hops_in_calibrated_runs() -> None:
    for calibrated, chains in ((True, True), (True, False), (False, True)):
        engine, _ = make_engine(calibrated=calibrated, chains=chains)
        for query, hops in (("e1/r0", 1), ("e1/r0/r1", 2), ("e1/r0/r1/r2", 3), ("(e1/r0 & e2/r1)/r2", 0)):
            plan = engine.encode(query).plan
            found = engine.evidence(plan, len(plan.steps) - 1, None)
            assert (found is not None) == (calibrated and chains and hops > 1)


@pytest.mark.parametrize("text", ["e0/r0", "e0/^r1", "e0/r0/r1", "e0/r0 & !e1/r1"])
def test_a_spread_counts_the_predicted_answers(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=60, facts=120)
    whole = [answer.probability for answer in engine.ask(text, top=60, only="predicted", candidates="all")]
    spread = engine.spread(engine.encode(text), "all")
    assert spread.least == 0.0
    assert sum(spread.counts) == len(whole) > 20
    monkeypatch.setattr("blockhole.answering.engine._SPREAD", 5)
    part = engine.spread(engine.encode(text), "all")
    if engine.encode(text).is_hop:
        assert part == spread  # all of them at once
    else:
        assert part.least == pytest.approx(whole[4])
        first = int(100 * part.least) + 1
        assert part.counts[first:] == spread.counts[first:]


@pytest.mark.parametrize("query", ["e1/r0/r1", "e4/^r2/r0", "e7/r1/^r1"])
@pytest.mark.parametrize("calibrated", [False, True])
def test_shares_by_the_composed_vector(query: str, calibrated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """x of an entity is its softmax among all, times the known answers; a curve gets that of the whole path."""
    engine, _ = make_engine(calibrated=calibrated, chains=True)
    source, path = encode_chain(query, engine.graph)
    scores = (0.9 if calibrated else 1.0) * engine.composed_scores(query)  # the scale of curves by hand
    known = max(1, len(engine.ask(query, only="known", top=30)))
    expected = np.log(known * np.exp(scores) / np.exp(scores).sum())
    assert engine.composed_shares(source, path) == pytest.approx(expected, rel=1e-4)
    asked = []

    def shares(self: Engine, source: int, path: Sequence[int], parts: object) -> NDArray[np.float64]:
        asked.append((source, list(path)))
        return np.zeros(30)

    monkeypatch.setattr(Engine, "composed_shares", shares)
    plan = Plan.of_chain(source, path)
    engine.evidence(plan, len(plan.steps) - 1, None)
    assert asked == [(source, list(path))] * calibrated


def test_questions_leave_nothing_to_the_garbage_collector() -> None:
    """Whatever is in a cycle keeps its arrays until that is looked for, which a server does seldom."""
    ParserElement.enable_packrat()  # as Matplotlib does for all that parse, rdflib too
    engine, _ = make_engine(chains=True)
    (one, other), (first, second) = node_terms(["e1", "e2"], [True, True]), relation_terms(["r0", "r1"])
    asked: list[Callable[[], object]] = [
        lambda: engine.ask("(e1/r0 | e3/r2) & e2/^r1"),
        lambda: engine.sparql(f"SELECT ?x ?probability {{ {one} {first}/{second} ?x }} LIMIT 3"),
        lambda: engine.sparql(f"SELECT ?x {{ {one} {first} ?x MINUS {{ {other} {second} ?x }} }}"),
    ]
    for ask_once in asked:
        ask_once()  # what it keeps for later is made
    gc.collect()
    gc.disable()
    try:
        left = []
        for ask_once in asked:
            ask_once()
            left.append(gc.collect())
    finally:
        gc.enable()
    assert left == [0, 0, 0]
