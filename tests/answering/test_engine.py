"""The doors of the engine: one question and many, verdicts, frames, and what is refused."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.answering.answers import Status
from blockhole.answering.engine import Engine, Question, Verdict, ask
from blockhole.answering.search import Candidates
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
from blockhole.queries.language import parse
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import sample_walks
from blockhole.runs.run import Run
from tests.answering.toys import make_engine


def test_what_is_known_is_certain_unless_a_negation_may_refute_it() -> None:
    """Known answers to x & !y have the probabilities that a verdict on each gives them; those to x are sure."""
    engine, _ = make_engine(facts=90)
    doubted = 0
    for source, other in itertools.permutations(range(6), 2):
        for answer in engine.ask(f"e{source}/r0", only="known", top=99):
            assert answer.probability == 1.0
        query = f"e{source}/r0 & !e{other}/r1"
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
