from __future__ import annotations

import numpy as np
import pytest

from blockhole.evaluation.report import intervals, paired_difference, resampled_means, share_interval


def test_means_of_resamples_are_those_of_drawn_queries() -> None:
    values = np.arange(12.0).reshape(6, 2)
    means = resampled_means(values, seed=3, resamples=5)
    generator = np.random.default_rng(3)
    for mean in means:
        drawn = generator.integers(6, size=6, dtype=np.int32)
        np.testing.assert_allclose(mean, values[drawn].mean(axis=0))


def test_the_interval_has_the_width_the_normal_law_gives() -> None:
    values = np.random.default_rng(0).normal(5.0, 2.0, size=(10_000, 1))
    ((low, high),) = intervals(values)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 100, rel=0.1)


def test_the_seed_decides_the_interval() -> None:
    values = np.random.default_rng(0).random((50, 1))
    assert intervals(values, seed=1) == intervals(values, seed=1)
    assert intervals(values, seed=1) != intervals(values, seed=2)


def test_a_clear_difference_is_significant_and_changes_sign_with_the_sides() -> None:
    generator = np.random.default_rng(0)
    common = generator.random(200) * 100
    a, b = common + 1 + generator.random(200), common
    found = paired_difference(a, b)
    assert found.significant
    assert found.p_value == pytest.approx(2 / 1001)
    assert found.interval[0] < found.mean < found.interval[1]
    back = paired_difference(b, a)
    assert (back.mean, back.significant) == (-found.mean, True)


def test_equal_systems_do_not_differ() -> None:
    values = np.random.default_rng(0).random(50)
    found = paired_difference(values, values)
    assert (found.mean, found.interval, found.p_value, found.significant) == (0.0, (0.0, 0.0), 1.0, False)


def test_two_lengths_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="the same queries on both sides"):
        paired_difference(np.zeros(3), np.zeros(4))


def test_the_interval_of_a_share_is_that_of_its_queries() -> None:
    right = np.repeat([100.0, 0.0], [130, 270])
    by_queries = intervals(right[:, None], seed=1, resamples=20_000)[0]
    assert share_interval(130, 400, seed=2, resamples=20_000) == pytest.approx(by_queries, abs=0.3)
    assert share_interval(0, 10) == (0.0, 0.0)
    assert share_interval(10, 10) == (100.0, 100.0)
