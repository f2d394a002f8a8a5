"""How much of a crossed matrix is tried: every pair of values, or every combination for `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest
from allpairspy import AllPairs

WHOLE = os.environ.get("BLOCKHOLE_TESTS") == "all"
"""Whether everything is tried, which takes about twenty minutes."""


def first_quick(names: Iterable[str], quick: int = 1) -> list[Any]:
    """Cases of one test, of which all but the first few are `slow`."""
    return [pytest.param(name, marks=pytest.mark.slow if place >= quick else ()) for place, name in enumerate(names)]


def crossed(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations of one value of each axis, in which every two values of two axes meet; or all there are."""
    return list(product(*axes)) if WHOLE else [tuple(combination) for combination in AllPairs(axes)]


def draws(number: int) -> int:
    """How many random examples a law is tried on: so many in a full sweep, and half of them else."""
    return number if WHOLE else number // 2
