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
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
