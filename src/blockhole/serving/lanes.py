"""Threads that do the work, how much of it may wait, and asks that are answered together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar, final

from blockhole.answering.answers import Answers
from blockhole.answering.engine import Engine, Question
from blockhole.errors import BlockholeError
from blockhole.serving.schemas import busy, out_of_time

Done = TypeVar("Done")


@final
class Lane:
    """A number of threads and a bounded queue before them; what finds it full is refused at once.

    Numbers are crunched outside Python's lock, so threads use all processors, and the loop that reads and writes
    requests never waits for them. Everything but the work itself happens on the loop's thread and needs no locks.
    """

    def __init__(self, name: str, threads: int, queue: int, timeout: float) -> None:
        self.threads = threads
        self.timeout = timeout
        self._inside = 0
        self._queue = queue
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def size(self) -> int:
        """How many requests wait or are worked on."""
        return self._inside

    def check_room(self) -> None:
        """Refuse where the queue is full."""
        if self._inside >= self._queue:
            raise busy()

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """A place in the queue while the block runs."""
        self.check_room()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def start(self, work: Callable[[], Done]) -> asyncio.Future[Done]:
        """Do the work when a thread is free."""
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def run(self, work: Callable[[], Done]) -> Done:
        """Do the work when a thread is free, if there is room to wait, and within the time allowed."""
        with self.admitted():
            return await self.in_time(self.start(work))

    async def in_time(self, work: asyncio.Future[Done]) -> Done:
        """The outcome, if it comes within the time allowed; work that waits is then dropped."""
        try:
            async with asyncio.timeout(self.timeout):
                return await work
        except TimeoutError:
            raise out_of_time(self.timeout) from None

    def close(self) -> None:
        """Take no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


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
