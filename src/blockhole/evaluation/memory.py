"""Memory that the user allows."""

from __future__ import annotations

import re

from blockhole.errors import EvaluationError

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
        raise EvaluationError(f"{text!r} is not a size of memory; write for example 2GB, 1.5GiB or 800MB.")
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
