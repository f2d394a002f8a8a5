"""A path data set: train, and two kinds each of dev and test."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

from blockhole.paths.queries import PathQueries


@final
@dataclass(frozen=True, slots=True, eq=False)
class PathSplits:
    """The five parts of a path data set.

    *Deduction*: the target can be reached from the source along the path in the train graph. *Induction*: it cannot,
    so every query of length 1 in dev and test is induction.
    """

    train: PathQueries
    dev_deduction: PathQueries
    dev_induction: PathQueries
    test_deduction: PathQueries
    test_induction: PathQueries

    def counts(self) -> dict[str, int]:
        """How many queries each part has."""
        return {part: len(getattr(self, part)) for part in PATH_PARTS}


PATH_PARTS = tuple(field.name for field in fields(PathSplits))
