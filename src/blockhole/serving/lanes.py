"""Threads that do the work, how much of it may wait, and asks that are answered together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar, final

from blockhole.answering.answers import Answers
from blockhole.answering.engine import Encoded, Engine, Question
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
"""Questions in a batch, all of which wait for its end; half of what 64 clients ask, so that one half is answered while
the other is read and written."""


class _Waiting(NamedTuple):
    engine: Engine
    question: Question
    encoded: Encoded
    finish: Callable[[Answers], Any]
    answered: asyncio.Future[Any]


@final
class Batcher:
    """Collects questions until a thread is free for them, so nobody waits for a clock.

    Those of one hop are answered by a single thread, all that wait at once: along one relation they are one product,
    and two threads would only halve it. Any other question has a thread to itself, and holds up nobody but its like.
    """

    def __init__(self, lane: Lane, observe: Callable[[int], None]) -> None:
        self._lane = lane
        self._observe = observe
        self._hops: deque[_Waiting] = deque()
        self._others: deque[_Waiting] = deque()
        self._unanswered: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._clock: asyncio.TimerHandle | None = None
        self._working = 0
        self._has_batch = False

    async def ask(
        self, engine: Engine, question: Question, encoded: Encoded, finish: Callable[[Answers], Done]
    ) -> Done:
        """What `finish` makes of the answers to a question, whose names are known to be the engine's.

        The thread that found them also finishes them: the loop has the most to do of all.
        """
        with self._lane.admitted():
            loop = asyncio.get_running_loop()
            answered: asyncio.Future[Done] = loop.create_future()
            waiting = self._hops if encoded.is_hop else self._others
            waiting.append(_Waiting(engine, question, encoded, finish, answered))
            self._unanswered.append((loop.time() + self._lane.timeout, answered))
            if self._clock is None:
                self._clock = loop.call_later(self._lane.timeout, self._end_late)
            self._start()
            return await answered

    def _end_late(self) -> None:
        """Refuse what has waited too long. All may wait equally long, so one clock does for all, for the oldest."""
        loop = asyncio.get_running_loop()
        while self._unanswered and self._unanswered[0][0] <= loop.time():
            answered = self._unanswered.popleft()[1]
            if not answered.done():
                answered.set_exception(out_of_time(self._lane.timeout))
        self._forget()
        self._clock = None
        if self._unanswered:
            self._clock = loop.call_at(self._unanswered[0][0], self._end_late)

    def _forget(self) -> None:
        """Let go of the oldest that are answered, or their answers would stay until the clock comes to them."""
        while self._unanswered and self._unanswered[0][1].done():
            self._unanswered.popleft()

    def _start(self) -> None:
        """Give what waits to threads that are free: of hops and others in turn, so that neither starves."""
        while self._working < self._lane.threads:
            batch = [] if self._has_batch else self._take(self._hops, LARGEST)
            is_batch = bool(batch)
            batch = batch or self._take(self._others, 1)
            if not batch:
                return
            self._observe(len(batch))
            self._working += 1
            self._has_batch |= is_batch
            work = self._lane.start(partial(_answer, batch[0].engine, batch))
            work.add_done_callback(partial(self._finish, batch, is_batch))

    def _take(self, waiting: deque[_Waiting], most: int) -> list[_Waiting]:
        """The questions that have waited longest and are for the same engine, less those that nobody waits for."""
        batch: list[_Waiting] = []
        while waiting and len(batch) < most:
            if batch and waiting[0].engine is not batch[0].engine:
                break
            each = waiting.popleft()
            if not each.answered.done():
                batch.append(each)
        return batch

    def _finish(self, batch: list[_Waiting], is_batch: bool, work: asyncio.Future[list[Any | BlockholeError]]) -> None:
        self._working -= 1
        self._has_batch &= not is_batch
        bug = asyncio.CancelledError() if work.cancelled() else work.exception()
        for i, each in enumerate(batch):
            if each.answered.done():
                continue
            outcome = work.result()[i] if bug is None else bug
            if isinstance(outcome, BaseException):
                each.answered.set_exception(outcome)
            else:
                each.answered.set_result(outcome)
        self._forget()
        self._start()


def _answer(engine: Engine, batch: list[_Waiting]) -> list[Any | BlockholeError]:
    """What each question wants of its answers, or why there are none."""
    try:
        found = engine.answers([(each.question, each.encoded) for each in batch])
    except BlockholeError as failure:
        if len(batch) == 1:
            return [failure]
        return [outcome for each in batch for outcome in _answer(engine, [each])]
    return [each.finish(answers) for each, answers in zip(batch, found, strict=True)]
