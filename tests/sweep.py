"""How much of a crossed matrix is tried: every pair of values, or every combination for `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from typing import Any

from allpairspy import AllPairs

WHOLE = os.environ.get("BLOCKHOLE_TESTS") == "all"
"""Whether everything is tried, which takes about twenty minutes."""


def crossed(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations of one value of each axis, in which every two values of two axes meet; or all there are."""
    return list(product(*axes)) if WHOLE else [tuple(combination) for combination in AllPairs(axes)]
