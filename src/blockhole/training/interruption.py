"""Ctrl-C as a request: the loop finishes its batch, saves, and stops; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within the block, the first SIGINT or SIGTERM only makes the yielded function return True.

    Signals reach the main thread alone; in any other the handlers stay as they are.
    """
    requested = threading.Event()

    def request(number: int, frame: FrameType | None) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()

    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return
    previous = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested.is_set
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
