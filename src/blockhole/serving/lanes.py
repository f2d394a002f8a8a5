"""Threads that do the work, and how much of it may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar, final

from blockhole.serving.refusals import busy, out_of_time

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
