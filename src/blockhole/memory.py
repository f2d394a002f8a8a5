"""What this process holds in memory, and how it is told that there is no more."""

from __future__ import annotations

import re
import sys
from pathlib import Path


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


def explain_out_of_memory(failure: Exception) -> str | None:
    """What to do about an exception of NumPy, or of torch on a CPU or a GPU, for want of memory; absent for others."""
    # torch.OutOfMemoryError by its name: torch need not be loaded to ask this. On a CPU torch has no class of its own.
    on_gpu = type(failure).__name__ == "OutOfMemoryError"
    if not (isinstance(failure, MemoryError) or on_gpu or "DefaultCPUAllocator" in str(failure)):
        return None
    asked = re.search(r"allocate ([\d.]*\d)\.? ([KMGT]iB|bytes)", str(failure))
    wanted = f": {asked[1]} {asked[2]} more were asked for" if asked else ""
    return (
        f"there is not enough memory{' on the GPU' if on_gpu else ''}{wanted}; choose a narrower model or smaller "
        "batches, or fewer processes at a time. What a training takes, `blockhole train --dry-run` says."
    )
