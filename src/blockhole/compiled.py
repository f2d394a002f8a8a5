"""Numba behind a typed door: `njit` keeps the signature of what it compiles, so callers stay checked.

Importing this module is light and works without Numba; `njit` and `prange` need it, so a module of loops is
imported late, by code that has asked `numba_installed` where there is another way. Numba's disk cache looks at
one file only: a loop and the compiled functions it calls belong in one module.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, overload

_Function = TypeVar("_Function", bound=Callable[..., Any])

if TYPE_CHECKING:
    prange = range
else:

    def __getattr__(name: str) -> object:
        # Numba knows a parallel loop by the identity of its own `prange`, so the real one must be handed out.
        if name == "prange":
            from numba import prange

            return prange
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def numba_installed() -> bool:
    """Whether compiled loops can be used here."""
    return find_spec("numba") is not None


@overload
def njit(function: _Function, /) -> _Function: ...


@overload
def njit(
    *, parallel: bool = False, fastmath: bool | set[str] = False, inline: str = "never", cache: bool = True
) -> Callable[[_Function], _Function]: ...


def njit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    parallel: bool = False,
    fastmath: bool | set[str] = False,
    inline: str = "never",
    cache: bool = True,
) -> Any:
    """Compile a loop to machine code at its first call, cached on disk, without the interpreter lock.

    The lock is released so that plain Python threads can run such loops side by side.
    """
    from numba import njit as numba_njit

    compile_loop = numba_njit(
        cache=cache, nogil=True, parallel=parallel, fastmath=fastmath, inline=inline, error_model="numpy"
    )
    return compile_loop if function is None else compile_loop(function)
