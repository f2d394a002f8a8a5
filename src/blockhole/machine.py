"""What a process has: memory and what to say when there is no more, devices, threads, its place in a launch."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, final

from blockhole.errors import ConfigError, EvaluationError, quoted

if TYPE_CHECKING:
    import torch

# What this process holds in memory, and how it is told that there is no more.


def resident_bytes() -> int:
    """The memory the process holds now; where the system does not say, the most it ever held."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return peak_bytes()
    import resource

    return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def peak_bytes() -> int:
    """The most memory the process ever held."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage of a started program also counts what its parent held when it started it.
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_bytes() -> int:
    """The memory of the machine; where the system does not say, as if without end."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def explain_out_of_memory(failure: Exception, *, training: bool = True) -> str | None:
    """What to do about an exception of NumPy, or of torch on a CPU or a GPU, for want of memory; absent for others."""
    # torch.OutOfMemoryError by its name: torch need not be loaded to ask this. On a CPU torch has no class of its own.
    on_gpu = type(failure).__name__ == "OutOfMemoryError"
    if not (isinstance(failure, MemoryError) or on_gpu or "DefaultCPUAllocator" in str(failure)):
        return None
    asked = re.search(r"allocate ([\d.]*\d)\.? ([KMGT]iB|bytes)", str(failure))
    wanted = f": {asked[1]} {asked[2]} more needed" if asked else ""
    remedy = (
        "choose a narrower model or smaller batches, or fewer processes at a time. `blockhole train --dry-run` says "
        "how much a training takes."
        if training
        else "close other programs, or use a machine with more."
    )
    return f"there is not enough memory{' on the GPU' if on_gpu else ''}{wanted}; {remedy}"


# Memory that the user allows.


DEFAULT_MEMORY = 2_000_000_000
"""Bytes the process may hold while it evaluates from the command line, when nothing else is said."""

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)}
_UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", start=1)}


def parse_size(text: str) -> int:
    """The bytes in a size such as 2GB, 1.5 GiB or 800MB."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or float(match[1]) == 0:
        raise EvaluationError(f"{quoted(text)} is not a size of memory; write for example 2GB, 1.5GiB or 800MB.")
    return int(float(match[1]) * unit)


def rows_within(memory: int, rows: int, bytes_per_row: int, held: int) -> int:
    """How many of `rows` rows may be worked on together within `memory` bytes, `held` of which are taken already."""
    fitting = (memory - held) // bytes_per_row
    if fitting < 1:
        least = -(-(held + bytes_per_row) // 1_000_000)
        raise EvaluationError(
            f"a memory cap of {memory / 1e6:,.0f} MB is too small for one query: the process needs {least:,} MB; "
            f"allow that much, for example with --memory {-(-least // 100) * 100}MB."
        )
    return min(rows, fitting)


# Where to train: the device, and the number of CPU threads.


def choose_device(name: str) -> torch.device:
    """The device `name` means; auto is CUDA where there is one, then MPS, then the CPU."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    kind, colon, number = name.partition(":")
    present = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    if kind not in present or (colon and not number.isdecimal()):
        raise ConfigError(f"{quoted(name)} is not a device; use auto, cpu, cuda, cuda:N or mps.")
    if int(number or 0) >= present[kind]:
        raise ConfigError(f"the device {quoted(name)} is not on this machine; use auto, or cpu.")
    return torch.device(name)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use `count` CPU threads within the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def use_one_torch_thread() -> None:
    """Let torch use one CPU thread from now on, without loading it: models of blocks answer without."""
    loaded = sys.modules.get("torch")
    if loaded is None:
        os.environ["OMP_NUM_THREADS"] = "1"  # which torch reads when it is loaded
    else:
        loaded.set_num_threads(1)


_ALONE = Lock()
_alone, _before = 0, 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let NumPy multiply matrices in the calling thread alone, where its OpenBLAS lets itself be told.

    The setting is one for all threads, so it comes back when the last of those that wanted it has ended.
    """
    global _alone, _before
    with _ALONE:
        if _alone == 0 and (blas := _openblas()) is not None:
            _before = blas["get"]()
            blas["set"](1)
        _alone += 1
    try:
        yield
    finally:
        with _ALONE:
            _alone -= 1
            if _alone == 0 and (blas := _openblas()) is not None:
                blas["set"](_before)


@cache
def _openblas() -> dict[str, Any] | None:
    """How to read and set the threads of NumPy's OpenBLAS; None where NumPy multiplies by other means."""
    import ctypes

    import numpy

    core = getattr(numpy, "_core", None) or numpy.core
    library = ctypes.CDLL(core._multiarray_umath.__file__)
    for name in ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_"):
        if hasattr(library, name.format("set")):
            return {each: getattr(library, name.format(each)) for each in ("get", "set")}
    return None


# Which of several processes this one is, as torchrun says.


@final
@dataclass(frozen=True, slots=True)
class Launch:
    """Process `rank` of `processes`, `local_rank` of `local_processes` on this host."""

    rank: int
    processes: int
    local_rank: int
    local_processes: int


def launched() -> Launch | None:
    """The launch this process belongs to; absent where no launcher has started it."""
    environment = os.environ
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
        return None
    return Launch(
        rank=int(environment["RANK"]),
        processes=int(environment["WORLD_SIZE"]),
        local_rank=int(environment.get("LOCAL_RANK", "0")),
        local_processes=int(environment.get("LOCAL_WORLD_SIZE", "1")),
    )


def speaks() -> bool:
    """Whether this process is the one of its launch that prints."""
    launch = launched()
    return launch is None or launch.rank == 0
