"""Numba behind a typed door: `njit` keeps the signature of what it compiles, so callers stay checked.

Importing this module is light and works without Numba; `njit` and `prange` need it, so a module of loops is
imported late, by code that has asked `numba_installed` where there is another way. Numba's disk cache sees one
file only: a loop and the compiled functions it calls belong in one module.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

FAST = {"reassoc", "nsz", "contract", "arcp", "afn"}
"""All that lets sums be reordered and products fused, but not "no NaN": a diverged loss has to show."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Result = TypeVar("_Result")

if TYPE_CHECKING:
    prange = range
else:

    def __getattr__(name: str) -> object:
        # Numba knows a parallel loop by the identity of its own `prange`, so the real one must be handed out.
        if name == "prange":
            from numba import prange

            return prange
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def numba_installed() -> bool:
    """Whether compiled loops can be used here."""
    return find_spec("numba") is not None


@functools.cache
def triton_installed() -> bool:
    """Whether GPU kernels can be used: Triton comes with torch for CUDA, though not on every platform."""
    return find_spec("triton") is not None


@overload
def njit(function: _Function, /) -> _Function: ...


@overload
def njit(
    *,
    parallel: bool = False,
    fastmath: bool | set[str] = False,
    inline: Literal["never", "always"] = "never",
    cache: bool = True,
) -> Callable[[_Function], _Function]: ...


def njit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    parallel: bool = False,
    fastmath: bool | set[str] = False,
    inline: Literal["never", "always"] = "never",
    cache: bool = True,
) -> Any:
    """Compile a loop to machine code at its first call, cached on disk, without the interpreter lock.

    The lock is released so that plain Python threads can run such loops side by side.
    """
    from numba import njit as numba_njit

    compile_loop = numba_njit(
        cache=cache, nogil=True, parallel=parallel, fastmath=fastmath, inline=inline, error_model="numpy"
    )

    def decorate(function: Callable[..., Any]) -> Any:
        loop = compile_loop(function)
        if cache and loop is not function:  # NUMBA_DISABLE_JIT leaves it as it is
            _compile_once(loop)
        return loop

    return decorate if function is None else decorate(function)


WAIT = 120
"""Seconds that a process waits for another that compiles the same loop, before it does so itself."""


def _compile_once(loop: Any) -> None:
    """Of processes that need a loop at the same time, let one compile it: the others wait, and load what it kept.

    Numba compiles it in each of them. And its index of what is kept is read, added to and written back without a lock:
    of two geometries kept at the same time one is lost, or worse, found in place of the other.
    """
    from numba.core.compiler_lock import global_compiler_lock

    cache, compile_here, keep = loop._cache, loop.compile, loop._cache.save_overload
    name = (loop.__module__, loop.__qualname__, loop.__code__.co_firstlineno)
    constants = [cell.cell_contents for cell in loop.py_func.__closure__ or ()]

    def compile_or_load(signature: Any) -> Any:
        # Numba's own lock first: another thread that has it may be about to wait for this one.
        with global_compiler_lock, _locked(cache.cache_path, name, constants, signature):
            return compile_here(signature)

    def keep_alone(signature: Any, compiled: Any) -> None:
        with _locked(cache.cache_path, name):
            keep(signature, compiled)

    loop.compile, cache.save_overload = compile_or_load, keep_alone


@contextmanager
def _locked(folder: str, *what: object) -> Iterator[None]:
    """Alone among the processes that use a folder of compiled loops, where its file system can lock."""
    from filelock import FileLock

    lock = FileLock(Path(folder) / f"{sha256(repr(what).encode()).hexdigest()[:16]}.lock", timeout=WAIT)
    with ExitStack() as held:
        with suppress(OSError, NotImplementedError):
            Path(folder).mkdir(parents=True, exist_ok=True)
            held.enter_context(lock)
        yield


def over_rows(
    work: Callable[[int, int], _Result], rows: int, chunk: int, threads: int | None = None
) -> Iterator[_Result]:
    """Yield work(first, last) for the consecutive chunks of `rows`, in order, computed by several threads.

    One thread for each processor, or so many; they stay at most that many chunks ahead of the consumer, so memory is
    bounded by chunks, never by `rows`. `work` gains from it where it releases the interpreter lock: compiled loops,
    large NumPy operations.
    """
    bounds = [(first, min(first + chunk, rows)) for first in range(0, rows, chunk)]
    threads = available_threads() if threads is None else threads
    if threads == 1 or len(bounds) == 1:
        for first, last in bounds:
            yield work(first, last)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="blockhole")
    try:
        pending: deque[Future[_Result]] = deque()
        for first, last in bounds:
            pending.append(pool.submit(work, first, last))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


MAX_THREADS = 1024
"""More than any machine has cores; a system that is asked for many more ends the process."""


def available_threads() -> int:
    """The processors this process may use, where the system tells them from all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
