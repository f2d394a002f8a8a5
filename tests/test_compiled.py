"""Chunks of rows, worked on by several threads."""

from __future__ import annotations

import threading

import pytest

from blockhole import compiled
from blockhole.compiled import njit, over_rows, prange


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(compiled, "available_threads", lambda: request.param)
    return int(request.param)


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 95])
def test_chunks_come_in_order_and_cover_all_rows(threads: int, rows: int) -> None:
    chunks = list(over_rows(lambda first, last: range(first, last), rows, 10))
    assert [row for chunk in chunks for row in chunk] == list(range(rows))
    assert all(0 < len(chunk) <= 10 for chunk in chunks)


def test_the_threads_stay_near_the_consumer(threads: int) -> None:
    started = 0
    lock = threading.Lock()

    def work(first: int, last: int) -> int:
        nonlocal started
        with lock:
            started += 1
        return first

    for taken, _ in enumerate(over_rows(work, 1000, 1), start=1):
        assert started <= taken + threads


def test_a_consumer_may_stop_early(threads: int) -> None:
    chunks = over_rows(lambda first, last: first, 100, 1)
    assert next(chunks) == 0
    chunks.close()  # type: ignore[attr-defined]
    assert threading.active_count() < 50
    assert list(chunks) == []


def test_a_failure_in_a_thread_reaches_the_consumer(threads: int) -> None:
    def work(first: int, last: int) -> int:
        if first == 5:
            raise ValueError("chunk five")
        return first

    with pytest.raises(ValueError, match="chunk five"):
        list(over_rows(work, 10, 1))


def test_compiled_functions_keep_their_meaning() -> None:
    @njit(cache=False)
    def triangle(n: int) -> int:
        total = 0
        for i in prange(n):
            total += i
        return total

    assert triangle(10) == 45


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        compiled.nonsense  # type: ignore[attr-defined]  # noqa: B018
