"""Lanes, batches, runs and deadlines, each by itself."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from blockhole.answering import engine as engine_module
from blockhole.answering.answers import Answers
from blockhole.answering.engine import Engine, Question
from blockhole.answering.known import NextRelations
from blockhole.answering.proofs import explain
from blockhole.answering.search import UNLIMITED, Bounds, Deadline, Search, Wanted
from blockhole.errors import BlockholeError, Cancelled, OutOfTime
from blockhole.graph.vocabulary import NameIndex, Vocabulary
from blockhole.serving import served_runs
from blockhole.serving.lanes import LARGEST, Batcher, Lane
from blockhole.serving.observing import Metrics
from blockhole.serving.schemas import AskBody, ExplainBody, Refusal, RunReport
from blockhole.serving.served_runs import ServedRun, ServedRuns, Surveys
from blockhole.serving.service import Asked, Service
from blockhole.serving.settings import ServerSettings
from tests.answering.toys import make_engine


def test_a_lane_refuses_what_it_has_no_room_for_and_gives_up_in_time() -> None:
    held = threading.Event()

    async def scenario() -> None:
        lane = Lane("test", threads=1, queue=2, timeout=0.2)
        running = asyncio.ensure_future(lane.run(held.wait))
        waiting = asyncio.ensure_future(lane.run(lambda: 7))
        await asyncio.sleep(0)  # both begin
        assert lane.size() == 2
        with pytest.raises(Refusal, match="as many requests as it can hold"):
            await lane.run(lambda: 8)
        for late in (running, waiting):
            with pytest.raises(Refusal, match=r"the search did not end within 0\.2 s"):
                await late
        assert lane.size() == 0
        held.set()
        lane.timeout = 60
        assert await lane.run(lambda: 9) == 9
        lane.close()

    asyncio.run(scenario())


async def _ask(batcher: Batcher, engine: Engine, text: str, top: int = 10, deadline: Deadline = UNLIMITED) -> Answers:
    encoded = engine.encode(text)
    return await batcher.ask(engine, Question(encoded, top=top, deadline=deadline), encoded, lambda answers: answers)


def _batched(ask: Callable[[Batcher, Engine], object]) -> list[int]:
    """The sizes of the batches that a scenario makes."""
    sizes: list[int] = []

    async def scenario() -> None:
        lane = Lane("test", threads=1, queue=1000, timeout=30)
        engine, _ = make_engine()
        outcome = ask(Batcher(lane, sizes.append), engine)
        assert asyncio.iscoroutine(outcome)
        await outcome
        lane.close()

    asyncio.run(scenario())
    return sizes


def test_questions_that_wait_are_answered_together_and_in_their_order() -> None:
    async def ask(batcher: Batcher, engine: Engine) -> None:
        questions = [(f"e{i % 30}/r{i % 3}", 1 + i % 5) for i in range(100)]
        answers = await asyncio.gather(*(_ask(batcher, engine, text, top=top) for text, top in questions))
        assert list(answers) == [engine.ask(text, top=top) for text, top in questions]

    sizes = _batched(ask)
    assert sizes[0] == 1  # the first finds the thread free
    assert sum(sizes) == 100
    assert max(sizes) == LARGEST


def test_a_question_of_several_hops_has_a_thread_to_itself() -> None:
    async def ask(batcher: Batcher, engine: Engine) -> None:
        texts = [f"e{i}/r0" if i % 2 else f"e{i}/r0/r1" for i in range(20)]
        answers = await asyncio.gather(*(_ask(batcher, engine, text) for text in texts))
        assert list(answers) == [engine.ask(text) for text in texts]

    assert sorted(_batched(ask)) == [1] * 10 + [10]


def test_answers_that_were_given_are_let_go() -> None:
    async def ask(batcher: Batcher, engine: Engine) -> None:
        await asyncio.gather(*(_ask(batcher, engine, f"e{i}/r0") for i in range(20)))

        def kept() -> int:
            return sum(type(each) is Answers for each in gc.get_objects())  # whose weak references may be dead

        before = kept()
        for i in range(20):
            await _ask(batcher, engine, f"e{i}/r1")
        assert kept() <= before

    _batched(ask)


def test_who_waits_too_long_is_told_so_and_others_are_not() -> None:
    async def scenario() -> None:
        lane = Lane("test", threads=1, queue=10, timeout=1.0)
        batcher, (engine, _) = Batcher(lane, lambda _: None), make_engine()
        held = threading.Event()
        blocking = lane.start(held.wait)
        late = asyncio.gather(*(_ask(batcher, engine, "e1/r0") for _ in range(2)), return_exceptions=True)
        await asyncio.sleep(0.6)
        early = asyncio.ensure_future(_ask(batcher, engine, "e2/r0"))
        for each in await late:
            assert isinstance(each, Refusal)
            assert each.problem.message.startswith("the search did not end within 1 s")
        held.set()
        await blocking
        assert await early == engine.ask("e2/r0")
        lane.close()

    asyncio.run(scenario())


def test_a_question_that_fails_fails_alone() -> None:
    async def ask(batcher: Batcher, engine: Engine) -> None:
        late = Deadline(60)
        late.cancel()
        deadlines = [UNLIMITED, UNLIMITED, late, UNLIMITED]
        outcomes = await asyncio.gather(
            *(_ask(batcher, engine, f"e{i}/r0", deadline=each) for i, each in enumerate(deadlines)),
            return_exceptions=True,
        )
        assert [isinstance(each, Cancelled) for each in outcomes] == [False, False, True, False]
        assert not any(isinstance(each, BaseException) for each in outcomes if not isinstance(each, BlockholeError))

    assert sum(_batched(ask)) == 4


def test_a_bug_reaches_everybody_who_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Engine, questions: list[Question]) -> None:
        raise ZeroDivisionError

    async def ask(batcher: Batcher, engine: Engine) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Engine, "answers", broken)
            outcomes = await asyncio.gather(*(_ask(batcher, engine, "e1/r0") for _ in range(3)), return_exceptions=True)
            assert [type(each) for each in outcomes] == [ZeroDivisionError] * 3
        assert len(await _ask(batcher, engine, "e1/r0")) > 0  # and the next is answered

    _batched(ask)


def test_questions_for_different_runs_do_not_mix() -> None:
    async def ask(batcher: Batcher, engine: Engine) -> None:
        other, _ = make_engine(seed=5)
        engines = [engine, other] * 10
        answers = await asyncio.gather(*(_ask(batcher, each, "e1/r0") for each in engines))
        assert list(answers) == [each.ask("e1/r0") for each in engines]

    _batched(ask)


def test_who_no_longer_waits_is_not_worked_for() -> None:
    async def ask(batcher: Batcher, engine: Engine) -> None:
        first = asyncio.ensure_future(_ask(batcher, engine, "e1/r0"))
        gone = asyncio.ensure_future(_ask(batcher, engine, "e2/r0"))
        await asyncio.sleep(0)
        gone.cancel()
        await first
        await _ask(batcher, engine, "e3/r0")

    assert _batched(ask) == [1, 1]


def test_an_old_run_is_freed_when_nobody_uses_it_any_more(own_run: Path) -> None:
    async def scenario() -> None:
        runs = ServedRuns([ServedRun.load("own", own_run)])
        used = runs.find("own")
        old = weakref.ref(used.engine)
        fresh = await runs.reload("own")
        assert runs.find(None) is fresh
        assert used.engine.ask(str(used.report.example)).query == used.report.example
        del used
        gc.collect()
        assert old() is None

    asyncio.run(scenario())


def test_reloads_wait_for_each_other(own_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once: list[int] = []
    loading = 0
    load = ServedRun.load

    def slowly(name: str, folder: Path) -> ServedRun:
        nonlocal loading
        loading += 1
        at_once.append(loading)
        time.sleep(0.05)
        loaded = load(name, folder)
        loading -= 1
        return loaded

    async def scenario() -> None:
        runs = ServedRuns([load("own", own_run)])
        monkeypatch.setattr(ServedRun, "load", slowly)
        await asyncio.gather(*(runs.reload("own") for _ in range(3)))

    asyncio.run(scenario())
    assert at_once == [1, 1, 1]


def _served(engine: Engine) -> ServedRun:
    following = cast("NextRelations", None)
    return ServedRun("run", Path(), engine, NameIndex(()), following, cast("RunReport", None), "")


def test_the_names_of_a_question_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    find = Vocabulary.find

    def watched(self: Vocabulary, name: str) -> int | None:
        looked_up.append(name)
        return find(self, name)

    engine, _ = make_engine()
    service = Service(ServerSettings(), Metrics())
    monkeypatch.setattr(Vocabulary, "find", watched)
    (asked,) = asyncio.run(
        service.ask(_served(engine), AskBody(query="e1/r0/^r1", candidates="typed", only=None, offset=0), Asked.report)
    )
    service.close()
    assert looked_up == ["e1", "r0", "r1"]
    assert asked.answers == engine.ask("e1/r0/^r1").ranked


def test_explain_knows_how_long_it_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine()
    with pytest.raises(OutOfTime, match="the search did not end within 0 s"):
        explain(engine, "e1/r0/r1", "e2", deadline=Deadline(0))
    given: list[float] = []

    def watched(*_: object, deadline: Deadline, **__: object) -> None:
        given.append(deadline.seconds)

    monkeypatch.setattr(sys.modules[Service.__module__], "explain", watched)
    service = Service(ServerSettings(timeout=7), Metrics())
    asyncio.run(service.explain(_served(engine), ExplainBody(query="e1/r0", entity="e2")))
    service.close()
    assert given == [7]


def test_a_search_says_how_far_it_is_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine()
    service = Service(ServerSettings(timeout=60), Metrics())
    body = AskBody(query=["e1/r0/r1", "e2/r1/r0"], candidates="typed", only=None, offset=0)

    def endless(search: Search, _: Wanted) -> Bounds:
        while True:
            search._deadline.check()
            time.sleep(0.005)

    async def ask_and_cancel() -> None:
        asked = asyncio.ensure_future(service.ask(_served(engine), body, Asked.report, "mine"))
        while "mine" not in service._searches or service.search("mine").steps < 2:
            await asyncio.sleep(0.005)
        report = service.cancel("mine")
        assert (report.id, report.timeout) == ("mine", 60)
        assert 0 < report.seconds < 60
        with pytest.raises(Refusal, match=r"^the search was cancelled; ask again") as refused:
            await asked
        assert (refused.value.status, refused.value.problem.kind) == (409, "cancelled")
        with pytest.raises(Refusal, match="there is no search of that id in progress"):
            service.search("mine")

    with monkeypatch.context() as patch:
        patch.setattr(Search, "settle", endless)  # no search of a test is so long that it could be caught
        asyncio.run(ask_and_cancel())
    assert len(asyncio.run(service.ask(_served(engine), body, Asked.report, "mine"))) == 2
    assert service._searches == {}
    service.close()


def test_a_run_is_surveyed_before_its_questions_come_and_answers_stay_the_same() -> None:
    engine, _ = make_engine(E=80, facts=150)
    before = engine.ask("e1/r0/^r1/r2")
    for relation in range(6):
        assert (engine.hops.limits(relation) == 1).any()
    surveys = Surveys(lambda: False)
    surveys.begin(_served(engine))
    _wait_for("survey")
    for relation in range(6):
        typed, like = engine.hops.kinds(engine.graph.inverse(relation))
        assert (engine.hops.limits(relation)[typed | like] < 1).all()
    assert engine.ask("e1/r0/^r1/r2") == before


def test_a_survey_of_very_many_relations_is_of_those_that_leave_most_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(E=80, facts=150)
    monkeypatch.setattr(engine_module, "_SURVEYED", 2 * 80)
    for _ in engine.survey():
        pass
    looked_at = [bool((engine.hops.limits(relation) < 1).any()) for relation in range(6)]
    leave = np.diff(engine.known.edges.relation_start)
    assert sum(looked_at) == 2
    assert leave[looked_at].min() >= leave[np.logical_not(looked_at)].max()


@pytest.mark.parametrize("ending", ["replaced", "closed", "out of time"])
def test_a_survey_ends_when_nobody_gains_by_it(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, going, go_on = [0, 0], threading.Event(), threading.Event()

    def survey(of: int) -> Iterator[None]:
        for part in range(10):
            parts[of] = part + 1
            going.set()
            go_on.wait()
            yield

    engines = [cast("Engine", SimpleNamespace(survey=partial(survey, of))) for of in range(2)]
    surveys = Surveys(lambda: False)
    surveys.begin(_served(engines[0]))
    assert going.wait(30)
    if ending == "replaced":
        surveys.begin(_served(engines[1]))
    elif ending == "closed":
        surveys.close()
    else:
        monkeypatch.setattr(served_runs, "SURVEYED", 0.0)
    go_on.set()
    _wait_for("survey")
    assert parts == [1, 10 if ending == "replaced" else 0]


def test_a_survey_rests_beside_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    def rest(_: threading.Event, seconds: float) -> bool:
        rests.append(seconds)
        return False

    monkeypatch.setattr(threading.Event, "wait", rest)
    for is_busy in (True, False):
        rests.clear()
        surveys, run = Surveys(partial(bool, is_busy)), _served(make_engine(E=80, facts=150)[0])
        surveys._latest["run"] = run
        surveys._survey(run)
        assert len(rests) >= 6
        assert all((seconds > 0) == is_busy for seconds in rests)


def _wait_for(name: str) -> None:
    """Wait until no thread of that name is left."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(30)
            assert not thread.is_alive()
