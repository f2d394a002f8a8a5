"""Loops that are compiled once, and chunks of rows, worked on by several threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

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


@pytest.mark.parametrize(("cache", "disabled"), [(False, False), (False, True), (True, True)])
def test_compiled_functions_keep_their_meaning(cache: bool, disabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that NUMBA_DISABLE_JIT leaves to Python, for whoever looks for a fault in them."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", disabled)

    @njit(cache=cache)
    def triangle(n: int) -> int:
        total = 0
        for i in prange(n):
            total += i
        return total

    assert triangle(10) == 45


LOOPS = """
from blockhole.compiled import njit

def power(exponent):
    @njit
    def loop(x):
        product = x
        for _ in range(exponent - 1):
            product *= x
        return product

    return loop
"""
SLOWLY = """
import sys, time
from numba.core.caching import IndexDataCacheFile
from loops import power

read = IndexDataCacheFile._load_index
def read_slowly(cache):
    index = read(cache)
    time.sleep(0.5)  # before it is written back
    return index
IndexDataCacheFile._load_index = read_slowly

print("ready", flush=True)
for exponent in map(int, sys.stdin):
    loop = power(exponent)
    print(loop(2), "compiled" if loop.stats.cache_misses else "loaded", flush=True)
"""


def test_processes_compile_a_loop_once_and_keep_what_each_has_compiled(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text(LOOPS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "kept")
    command, pipe = [sys.executable, "-c", SLOWLY], subprocess.PIPE
    with ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment))
            for _ in range(3)
        ]

        def hear(process: subprocess.Popen[str]) -> str:
            assert process.stdout is not None
            return process.stdout.readline()

        def ask(process: subprocess.Popen[str], exponent: int) -> None:
            assert process.stdin is not None
            process.stdin.write(f"{exponent}\n")
            process.stdin.flush()

        assert [hear(process) for process in processes] == ["ready\n"] * 3
        for process, exponent in zip(processes, [2, 2, 3], strict=True):
            ask(process, exponent)
        assert sorted(map(hear, processes)) == ["4 compiled\n", "4 loaded\n", "8 compiled\n"]
        for exponent, answer in (2, "4 loaded\n"), (3, "8 loaded\n"):
            ask(processes[0], exponent)
            assert hear(processes[0]) == answer


def test_where_nothing_can_be_locked_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with compiled._locked(str(tmp_path / "file" / "kept"), "a loop"):
        done = True
    assert done


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        compiled.nonsense  # type: ignore[attr-defined]  # noqa: B018
