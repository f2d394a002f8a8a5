"""Answers against a brute-force reading: every score by the model, every status by walking the facts."""

from __future__ import annotations

import copy
import itertools
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockhole.answering.answers import Status
from blockhole.answering.engine import Candidates, Engine, Question, ask
from blockhole.data.dataset import load
from blockhole.errors import BlockholeWarning, ConfigError, QueryError, QuerySyntaxError, RunError, UnknownName
from blockhole.evaluation.ranking import rank
from blockhole.evaluation.scorer import spell
from blockhole.evaluation.truth import truth_of
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.models.contract import Model
from blockhole.queries.language import parse
from blockhole.queries.paths import PathQueries
from blockhole.queries.walks import sample_walks
from blockhole.runs.run import Run
from tests.answering.toys import make_engine, sigmoid_calibration


def _reached(graph: KnowledgeGraph, source: int, path: list[int]) -> set[int]:
    R = graph.num_relations
    edges = {(s, r, o) for s, r, o in graph.triples.tolist()} | {(o, r + R, s) for s, r, o in graph.triples.tolist()}
    here = {source}
    for relation in path:
        here = {o for s, r, o in edges if s in here and r == relation}
    return here


def _scores(model: Model, source: int, path: list[int]) -> np.ndarray:
    exact = copy.deepcopy(model).double()
    E = model.num_entities
    return (
        exact.score(torch.full((E,), source), torch.tensor([path] * E), torch.full((E,), len(path)), torch.arange(E))
        .detach()
        .numpy()
    )


def _expected(
    engine: Engine, model: Model, source: int, path: list[int], top: int, candidates: Candidates, only: Status | None
) -> list[tuple[str, str]]:
    graph = engine.graph
    known = _reached(graph, source, path)
    allowed = set(range(graph.num_entities))
    if candidates == "typed":
        allowed = set().union(*(_reached(graph, s, path[-1:]) for s in range(graph.num_entities)))
    if only is not None:
        allowed = allowed & known if only == "known" else allowed - known
    scores = _scores(model, source, path)
    best = sorted(allowed, key=lambda e: (-scores[e], e))[:top]
    return [(f"e{e}", "known" if e in known else "predicted") for e in best]


def _spell(engine: Engine, source: int, path: list[int]) -> str:
    hops = [engine.graph.relation_name(relation) for relation in path]
    return "/".join([f"e{source}", *(f"{'^' * inverse}{name}" for name, inverse in hops)])


@settings(max_examples=40)
@given(
    name=st.sampled_from(["blockhole", "rescal", "transe"]),
    seed=st.integers(0, 50),
    source=st.integers(0, 29),
    path=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    top=st.integers(1, 40),
    candidates=st.sampled_from(["typed", "all"]),
    only=st.sampled_from([None, "known", "predicted"]),
)
def test_answers_are_those_of_brute_force(
    name: str, seed: int, source: int, path: list[int], top: int, candidates: Candidates, only: Status | None
) -> None:
    engine, model = make_engine(name, seed=seed)
    query = _spell(engine, source, path)
    answers = engine.ask(query, top=top, candidates=candidates, only=only)
    found = [(answer.entity, answer.status) for answer in answers]
    assert found == _expected(engine, model, source, path, top, candidates, only)
    scores = _scores(model, source, path)
    for answer in answers:
        assert answer.score == pytest.approx(scores[int(answer.entity[1:])], rel=1e-9, abs=1e-12)
    assert engine.ask_many([query], top=top, candidates=candidates, only=only) == [answers]


def test_many_queries_are_answered_like_each_alone() -> None:
    engine, _ = make_engine(E=50, facts=120)
    queries = [_spell(engine, s, list(path)) for s in (3, 4) for path in itertools.product(range(6), repeat=2)]
    queries += [_spell(engine, 5, [1]), _spell(engine, 6, [2, 3, 4])]
    for only in (None, "known", "predicted"):
        alone = [engine.ask(query, top=7, only=only) for query in queries]
        assert engine.ask_many(queries, top=7, only=only) == alone


@pytest.mark.parametrize("text", ["e1/r0/^r1", "e1/r0/r9", "e99/r0", "e1/r0 & e2/r1"])
def test_known_names_are_encoded_without_delay_and_others_not_at_all(text: str) -> None:
    engine, _ = make_engine()
    found = engine.encode_known(parse(text))
    if text == "e1/r0/^r1":
        assert found == engine.encode(text) == (parse(text), 1, [0, 4])
        assert engine.ask(found) == engine.ask(text)
    else:
        assert found is None
        with pytest.raises(QueryError):
            engine.encode(text)


questions = st.tuples(
    st.integers(0, 199),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.integers(1, 250),
    st.sampled_from(["typed", "all"]),
    st.sampled_from([None, "known", "predicted"]),
)


@pytest.mark.parametrize("name", ["blockhole", "blockhole-spatial", "hole", "rescal", "transe"])
@settings(max_examples=15)
@given(
    asked=st.lists(questions, max_size=100),
    cuts=st.lists(st.integers(0, 100), max_size=12),
    seed=st.integers(0, 2**31),
)
def test_an_answer_is_the_same_whatever_is_asked_with_it(
    name: str, asked: list[tuple[int, list[int], int, Candidates, Status | None]], cuts: list[int], seed: int
) -> None:
    """Entities, scores, probabilities and order, to the last bit, for every split of the questions into batches.

    Of 200 entities a relation takes few or many, so candidates are gathered or read where they stand; more than 64
    queries are answered by compiled loops.
    """
    engine, _ = make_engine(name, E=200, facts=40)
    posed = [
        Question(_spell(engine, source, path), top, candidates, only) for source, path, top, candidates, only in asked
    ]
    whole = engine.ask_together(posed)
    bounds = sorted({0, len(posed), *(cut for cut in cuts if cut < len(posed))})
    parts = [engine.ask_together(posed[first:last]) for first, last in itertools.pairwise(bounds)]
    assert [each for part in parts for each in part] == whole
    order = np.random.default_rng(seed).permutation(len(posed))
    assert engine.ask_together([posed[i] for i in order]) == [whole[i] for i in order]
    for i in order[:3]:
        each = posed[i]
        assert engine.ask(each.query, top=each.top, candidates=each.candidates, only=each.only) == whole[i]


def test_a_batch_of_many_blocks_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine("hole", E=300, facts=900)
    walks = sample_walks(engine.graph, 700, lengths=(1, 4), seed=2)
    posed = [
        Question(_spell(engine, int(walks.source[i]), walks.path[i, : walks.length[i]].tolist()), 1 + i % 9)
        for i in range(len(walks))
    ]
    whole = engine.ask_together(posed)
    assert whole[::50] == [engine.ask(each.query, top=each.top) for each in posed[::50]]
    monkeypatch.setattr("blockhole.answering.search._QUERIES", 33)
    monkeypatch.setattr("blockhole.answering.index._TILE", 512)
    monkeypatch.setattr("blockhole.answering.index._NARROWEST", 64)
    assert engine.ask_together(posed) == whole


def test_scores_of_many_pairs_do_not_depend_on_how_many_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, model = make_engine()
    walks = sample_walks(engine.graph, 50, seed=3)
    whole = engine.scores(walks)
    monkeypatch.setattr("blockhole.answering.engine._SCORED_AT_ONCE", 7)
    for one, other in zip(engine.scores(walks), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    expected = [
        _scores(model, int(walks.source[i]), walks.path[i, : walks.length[i]].tolist())[walks.target[i]]
        for i in range(len(walks))
    ]
    np.testing.assert_allclose(whole[0], expected, rtol=1e-6)


def test_no_queries_have_no_answers() -> None:
    assert make_engine()[0].ask_many([]) == []


def test_probabilities_are_those_of_the_curve_and_one_for_what_is_known() -> None:
    engine, _ = make_engine()
    query = next(q for q in (f"e{i}/r0/^r1" for i in range(30)) if engine.ask(q, only="known"))
    norm = np.linalg.norm(engine.query_vector(query).astype(np.float64))
    for answer in engine.ask(query, top=30):
        expected = 1.0 if answer.status == "known" else 1 / (1 + np.exp(-(3 * answer.score / norm - 1)))
        assert answer.probability == pytest.approx(expected, rel=1e-5)
        verdict = engine.check(query, answer.entity)
        assert (verdict.status, verdict.holds) == (answer.status, expected >= 0.5)
        assert verdict.probability == pytest.approx(answer.probability)
        assert verdict.score == pytest.approx(answer.score)


def test_ranks_over_a_whole_split_are_those_of_evaluation(clockwork: Path) -> None:
    run = Run.open(clockwork)
    data = load(str(run.config.data))
    truth = truth_of(data.split.graph("train", "valid", "test"))
    walks = sample_walks(truth.graph, 300, lengths=(1, 4), seed=1)
    queries = PathQueries.concatenate([PathQueries.from_triples(data.split.test), walks])
    ranks = rank(run.model, queries, truth)
    engine = Engine.open(run, graph=truth.graph)
    texts = [spell(truth.graph, queries, i).split(" → ")[0] for i in range(len(queries))]
    for i, ranked in enumerate(engine.ask_many(texts, top=truth.graph.num_entities)):
        target = truth.graph.entities[queries.target[i]]
        rivals = [answer.entity for answer in ranked if answer.status == "predicted" or answer.entity == target]
        assert ranks.better[i] <= rivals.index(target) <= ranks.better[i] + ranks.tied[i]
        assert len(rivals) - 1 == ranks.negatives[i]


def test_frames_hold_the_answers_in_order() -> None:
    answers = make_engine()[0].ask("e1/r0", top=4)
    frame = answers.to_polars()
    assert frame.columns == ["query", "rank", "entity", "score", "probability", "status"]
    assert frame["entity"].to_list() == [answer.entity for answer in answers]
    assert frame["rank"].to_list() == [1, 2, 3, 4]
    pandas = answers.to_pandas()
    assert pandas["probability"].tolist() == frame["probability"].to_list()
    assert [len(answers), len(answers[1:3]), answers[0].entity] == [4, 2, frame["entity"][0]]


def test_without_calibration_there_are_scores_but_no_probabilities() -> None:
    engine, _ = make_engine(calibrated=False)
    answers = engine.ask("e1/r0", top=3, only="predicted")
    assert [answer.probability for answer in answers] == [None] * 3
    assert answers.to_pandas()["probability"].isna().all()
    with pytest.raises(RunError, match=r"^the run has no calibration, so scores cannot become probabilities; make it"):
        engine.check("e1/r0", answers[0].entity)


def test_a_run_without_calibration_says_how_to_make_it(own_clockwork: Path) -> None:
    (own_clockwork / "calibration.json").unlink()
    said = f"{own_clockwork} has no calibration for its weights, which turns scores into probabilities; make it with "
    said += f"`blockhole calibrate {own_clockwork}`"
    with pytest.warns(BlockholeWarning, match=re.escape(f"{said}, or answers will have no probabilities.")):
        Engine.open(own_clockwork)
    with pytest.raises(RunError, match=re.escape(f"{said}.")):
        Engine.open(own_clockwork, calibrated=True)


def test_models_without_paths_say_so() -> None:
    engine, _ = make_engine("simple")
    assert len(engine.ask("e1/r0", top=3)) == 3
    with pytest.raises(Exception, match="SimplE scores single relations"):
        engine.ask("e1/r0/r1")


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
    for refused in (engine.ask, engine.encode, engine.query_vector, partial(engine.check, entity="e2")):
        with pytest.raises(
            QueryError, match=r"^e1/r0 & !e2/r1 has &, \| or !, and only the answers to paths are ranked"
        ):
            refused("e1/r0 and not e2/r1")
    assert engine.ask("e1/r0 & e1/r0").ranked == engine.ask("e1/r0").ranked
    with pytest.raises(UnknownName, match="unknown relation 'r7'"):
        engine.ask("e1/r7")
    with pytest.raises(UnknownName, match="unknown entity 'e99'"):
        engine.check("e1/r0", "e99")


def test_scores_that_are_not_finite_are_refused() -> None:
    engine, _ = make_engine()
    engine.vectors.entity[1] = torch.nan
    with pytest.raises(RunError, match="are not finite: the run has diverged"):
        engine.ask("e1/r0")


def test_a_trained_run_answers_what_it_has_learned(clockwork: Path) -> None:
    engine = Engine.open(clockwork)
    answers = ask(engine, '"number 3"/next/next', top=5)
    assert (answers[0].entity, answers[0].status) == ("number 5", "known")
    assert {answer.status for answer in answers[1:]} == {"predicted"}
    assert ask(clockwork, '"number 3"/next/next', top=5) == answers


def test_the_calibration_given_is_the_one_used(clockwork: Path) -> None:
    calibration = sigmoid_calibration()
    assert Engine.open(clockwork, calibration=calibration).calibration is calibration
