"""Asks that wait while others are worked on are answered together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, final

from blockhole.answering.answers import Answers
from blockhole.answering.engine import Engine, Question
from blockhole.errors import BlockholeError
from blockhole.serving.lanes import Lane

LARGEST = 32
"""Questions in a batch: a product of more rows is no faster for each, and all of them wait for its end."""


class _Waiting(NamedTuple):
    engine: Engine
    question: Question
    answered: asyncio.Future[Answers]


@final
class Batcher:
    """Collects questions while every thread is busy; a free thread takes all that wait, so nobody waits for a clock."""

    def __init__(self, lane: Lane, observe: Callable[[int], None]) -> None:
        self._lane = lane
        self._observe = observe
        self._waiting: deque[_Waiting] = deque()
        self._working = 0

    async def ask(self, engine: Engine, question: Question) -> Answers:
        """The answers to a question; its names are known to be the engine's."""
        with self._lane.admitted():
            answered: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
            self._waiting.append(_Waiting(engine, question, answered))
            self._start()
            return await self._lane.in_time(answered)

    def _start(self) -> None:
        """Give what waits to a thread, where one is free."""
        while self._waiting and self._working < self._lane.threads:
            batch = self._take()
            if not batch:
                continue
            self._observe(len(batch))
            self._working += 1
            work = self._lane.start(partial(_answer, batch[0].engine, [each.question for each in batch]))
            work.add_done_callback(partial(self._finish, batch))

    def _take(self) -> list[_Waiting]:
        """The questions that have waited longest and are for the same engine, less those that nobody waits for."""
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < LARGEST:
            if batch and self._waiting[0].engine is not batch[0].engine:
                break
            each = self._waiting.popleft()
            if not each.answered.done():
                batch.append(each)
        return batch

    def _finish(self, batch: list[_Waiting], work: asyncio.Future[list[Answers | BlockholeError]]) -> None:
        self._working -= 1
        bug = asyncio.CancelledError() if work.cancelled() else work.exception()
        for i, each in enumerate(batch):
            if each.answered.done():
                continue
            outcome = work.result()[i] if bug is None else bug
            if isinstance(outcome, BaseException):
                each.answered.set_exception(outcome)
            else:
                each.answered.set_result(outcome)
        self._start()


def _answer(engine: Engine, questions: list[Question]) -> list[Answers | BlockholeError]:
    """The answers to each question, or why there are none."""
    try:
        return [*engine.ask_together(questions)]
    except BlockholeError as failure:
        if len(questions) == 1:
            return [failure]
    return [outcome for question in questions for outcome in _answer(engine, [question])]
