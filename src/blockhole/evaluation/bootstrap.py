"""How far a mean could have come out otherwise: the bootstrap over queries, plain and paired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95

Interval = tuple[float, float]


def resampled_means(values: NDArray[np.float64], seed: int = 0, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """The means of `values` [N, M] over queries drawn N times with replacement; shape [resamples, M]."""
    generator = np.random.default_rng(seed)
    count = len(values)
    means = np.empty((resamples, values.shape[1]))
    for resample in range(resamples):
        drawn = np.bincount(generator.integers(count, size=count, dtype=np.int32), minlength=count)
        means[resample] = drawn @ values
    return means / count


def intervals(values: NDArray[np.float64], seed: int = 0, resamples: int = RESAMPLES) -> list[Interval]:
    """The 95 % percentile interval of the mean of each column of `values` [N, M], N ≥ 1."""
    tails = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
    low, high = np.quantile(resampled_means(values, seed, resamples), tails, axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def share_interval(right: int, count: int, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The same for the share, in per cent, of `right` ones among `count` ≥ 1 queries.

    How many of them a resample draws is binomial, so that nothing has to be drawn query by query.
    """
    shares = np.random.default_rng(seed).binomial(count, right / count, size=resamples) * (100 / count)
    low, high = np.quantile(shares, (0.5 - LEVEL / 2, 0.5 + LEVEL / 2))
    return float(low), float(high)


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """How two systems differ on the same queries: the mean of a - b, its interval, and a two-sided p value."""

    mean: float
    interval: Interval
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.interval[0] <= 0 <= self.interval[1]


def paired_difference(
    a: NDArray[np.float64], b: NDArray[np.float64], seed: int = 0, resamples: int = RESAMPLES
) -> Difference:
    """Compare two systems query by query, values [N] each; drawing pairs keeps what is common to both out."""
    if a.shape != b.shape:
        raise ValueError("a paired comparison needs the same queries on both sides")
    gap = (a - b)[:, None]
    means = resampled_means(gap, seed, resamples)[:, 0]
    # One more than counted, on both sides of the fraction: the data itself is one of the possible draws.
    tail = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    low, high = np.quantile(means, (0.5 - LEVEL / 2, 0.5 + LEVEL / 2))
    return Difference(float(gap.mean()), (float(low), float(high)), min(1.0, 2 * (tail + 1) / (resamples + 1)))
