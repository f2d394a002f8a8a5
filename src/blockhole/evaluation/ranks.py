"""Where the true answer of each query came out among its negatives, and what follows under each rule for ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from blockhole.errors import BlockholeWarning

TieRule = Literal["half", "paper", "pessimistic"]

_LOST: dict[TieRule, float] = {"half": 0.5, "paper": 0.0, "pessimistic": 1.0}
"""The share of the tied negatives that counts as ranked above the true answer."""


class TiesCountAsWins(BlockholeWarning):
    """The paper's rule was applied to scores with ties, which it counts as wins."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """For each query the negatives in N(q): how many there are, score higher than the true answer, or tie with it.

    Shapes: better, tied, negatives [N] int64, in the order of the queries.
    """

    better: NDArray[np.int64]
    tied: NDArray[np.int64]
    negatives: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.negatives)

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which queries have a negative at all; the others count in no metric; shape [N]."""
        return self.negatives > 0

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Ranks:
        """The ranks of the queries at `index` (positions or mask)."""
        return Ranks(self.better[index], self.tied[index], self.negatives[index])

    def rank(self, ties: TieRule = "half") -> NDArray[np.float64]:
        """1 + |better| + a share of |tied|: ½ by default, the mean of the best and the worst possible; shape [N]."""
        return 1.0 + self.better + _LOST[ties] * self.tied

    def quantile(self, ties: TieRule = "half") -> NDArray[np.float64]:
        """The share of negatives below the true answer, Eq. (mq); NaN where there are none; shape [N]."""
        below = self.negatives - self.better - _LOST[ties] * self.tied
        quantile = np.full(len(self), np.nan)
        np.divide(below, self.negatives, out=quantile, where=self.evaluated)
        return quantile

    def hit(self, top: int, ties: TieRule = "half") -> NDArray[np.bool_]:
        """Whether the true answer ranks `top` or better among itself and the negatives; shape [N]."""
        return self.rank(ties) <= top
