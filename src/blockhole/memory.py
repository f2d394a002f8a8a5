"""What this process holds in memory."""

from __future__ import annotations

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
